"""A model server on loopback that says what a script tells it to say.

It speaks Chat Completions and Responses, streaming or not, so that one script serves
the OpenAI client and every framework that can be pointed at a `base_url`:

    script = [ScriptedCall("run_code", {"code": "print(6 * 7)"}), "It printed 42."]
    with ScriptedServer(script) as server:
        client = OpenAI(base_url=server.url, api_key="none")
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from .scripted_wire import (
    Answer,
    Said,
    chat_body,
    chat_chunks,
    response_body,
    response_events,
)


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """What a client sent.

    Attributes:
        path: `/v1/chat/completions` or `/v1/responses`.
        body: The JSON body: `messages` or `input`, `tools` and the rest.
    """

    path: str
    body: dict[str, Any]

    @property
    def is_chat(self) -> bool:
        """Whether it went to Chat Completions."""
        return self.path.endswith("/chat/completions")

    @property
    def is_stream(self) -> bool:
        """Whether the answer is wanted as server-sent events."""
        return bool(self.body.get("stream"))


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """One tool call for the model to make.

    Attributes:
        name: The tool's name.
        arguments: An object, or the text that stands in its place, valid or not.
        call_id: Its id; by default the next of `call_1`, `call_2`, ...
        free_text: Make it a custom tool's call, whose input is `arguments` as it is.
    """

    name: str
    arguments: Mapping[str, Any] | str
    call_id: str | None = None
    free_text: bool = False


Turn = str | ScriptedCall | Sequence[ScriptedCall] | Mapping[str, Any]
"""What the model says: text, one call, several at once, or a whole body as it is."""

Body = dict[str, Any] | list[dict[str, Any]]
"""A JSON body, or the events of a stream."""

Step = Turn | Callable[[ScriptedRequest], Turn]
"""A turn, or a function that makes it from the request."""


class ScriptedServer:
    """The server; use it with `with`.

    Args:
        script: One step for each request, in the order the requests come.

    Attributes:
        requests: What clients sent so far.
    """

    def __init__(self, script: Iterable[Step]) -> None:
        self.requests: list[ScriptedRequest] = []
        self._script = iter(script)
        self._ids = (f"call_{n}" for n in itertools.count(1))
        self._lock = threading.Lock()
        self._failure: Exception | None = None
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """What to pass as `base_url`."""
        if self._server is None:
            raise RuntimeError("the scripted server is not running: use it with `with`")
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"scripted": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        poll = {"poll_interval": 0.01}
        threading.Thread(
            target=self._server.serve_forever, kwargs=poll, daemon=True
        ).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        if self._failure is not None and error is None:
            raise self._failure

    def respond(self, request: ScriptedRequest) -> tuple[int, Body]:
        """Answer one request.

        Args:
            request: What came; it is recorded.

        Returns:
            HTTP status, and a JSON body or the events of a stream. A step that
            raises is answered with 400, and raised again at the end of `with`.
        """
        with self._lock:
            self.requests.append(request)
            try:
                return 200, self._next(request)
            except Exception as error:
                self._failure = self._failure or error
                return 400, {"error": {"message": str(error), "code": "script"}}

    def _next(self, request: ScriptedRequest) -> Body:
        if not request.path.endswith(("/chat/completions", "/responses")):
            raise LookupError(f"the scripted server has no {request.path!r}")
        step = next(self._script, None)
        if step is None:
            count = len(self.requests)
            raise LookupError(f"the script ended before request {count}: add a step")
        turn = step(request) if callable(step) else step
        if isinstance(turn, Mapping):
            return dict(turn)
        model = str(request.body.get("model"))
        answer = Answer(len(self.requests), model, self._said(turn))
        if request.is_chat:
            return (chat_chunks if request.is_stream else chat_body)(answer)
        return (response_events if request.is_stream else response_body)(answer)

    def _said(self, turn: str | ScriptedCall | Sequence[ScriptedCall]) -> list[Said]:
        if isinstance(turn, str):
            return [Said(text=turn)]
        calls = [turn] if isinstance(turn, ScriptedCall) else turn
        return [
            Said(
                name=call.name,
                text=call.arguments
                if isinstance(call.arguments, str)
                else json.dumps(call.arguments),
                call_id=call.call_id or next(self._ids),
                free_text=call.free_text,
            )
            for call in calls
        ]


class _Handler(BaseHTTPRequestHandler):
    scripted: ScriptedServer

    def do_POST(self) -> None:
        """Answer one request, and close the connection."""
        length = int(self.headers.get("content-length", 0))
        body = json.loads(self.rfile.read(length))
        status, answer = self.scripted.respond(ScriptedRequest(self.path, body))
        kind = "application/json"
        if isinstance(answer, list):
            kind, text = "text/event-stream", "".join(_lines(answer))
        else:
            text = json.dumps(answer)
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode("ascii"))

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _lines(events: list[dict[str, Any]]) -> Iterator[str]:
    for event in events:
        if "type" in event:
            yield f"event: {event['type']}\n"
        yield f"data: {json.dumps(event)}\n\n"
    yield "data: [DONE]\n\n"
