"""A model server on loopback that says what a script tells it to say.

It speaks Chat Completions and Responses, streaming or not, so that one script serves
the OpenAI client and every framework that can be pointed at a `base_url`:

    script = [ScriptedCall("run_code", {"code": "print(6 * 7)"}), "It printed 42."]
    with ScriptedServer(script) as server:
        client = OpenAI(base_url=server.url, api_key="none")

A step may also be a function of the request, so that what the model says next depends
on what a tool returned; an error of the API; or an answer whose stream breaks.

[llmock](https://pypi.org/project/llmock/) serves it: the sockets, the errors in the
API's own shape, the broken streams. The words are ours; `scripted_wire` says why.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

from .extras import missing
from .scripted_wire import (
    Answer,
    Said,
    chat_body,
    chat_events,
    response_body,
    response_events,
)

try:
    from llmock.scenarios import Fail, StreamFault
    from llmock.streaming import sse
    from llmock.testing import LLMockServer

    from .scripted_app import Outcome, told_server
except ImportError as error:
    missing("testing", error, user="The scripted server")


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


Turn = str | ScriptedCall | Sequence[str | ScriptedCall] | Mapping[str, Any]
"""What the model says: text, one call, several things at once, or a whole body as it
is; that too is streamed where the client asks for it."""


@dataclass(frozen=True, slots=True)
class ScriptedError:
    """An error of the API instead of an answer; a client that retries takes more steps.

    Attributes:
        status: The HTTP status, 400 to 599.
        code: What goes into the error's `code`, such as `context_length_exceeded`.
        message: Its text; by default the usual one of the status.
        retry_after_s: How long the client is told to wait, in seconds.
    """

    status: int
    code: str | None = None
    message: str | None = None
    retry_after_s: float | None = None

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise ValueError(f"status {self.status} is no error: use 400 to 599")


@dataclass(frozen=True, slots=True)
class ScriptedBreak:
    """An answer whose stream breaks.

    Attributes:
        turn: What the model was about to say.
        how: `disconnect` drops the connection, `truncate` ends the stream early as if
            all were said, `malformed` sends an event that is no JSON, and `stall` sends
            nothing for `stall_s` seconds before it goes on.
        after_events: How many events arrive whole before that.
        stall_s: Only for `stall`.
    """

    turn: Turn
    how: Literal["disconnect", "truncate", "malformed", "stall"] = "disconnect"
    after_events: int = 2
    stall_s: float = 30.0


Step = (
    Turn
    | ScriptedError
    | ScriptedBreak
    | Callable[[ScriptedRequest], Turn | ScriptedError | ScriptedBreak]
)
"""What comes of a request, or a function that makes it from the request."""


class ScriptedServer:
    """The server; use it with `with`.

    Args:
        script: One step for each request, in the order the requests come.

    Attributes:
        requests: What clients sent so far.
        answers: What was said to each, as a whole body, also where it was streamed;
            None for an error.
    """

    def __init__(self, script: Iterable[Step]) -> None:
        self.requests: list[ScriptedRequest] = []
        self.answers: list[dict[str, Any] | None] = []
        self._script = iter(script)
        self._ids = (f"call_{n}" for n in itertools.count(1))
        self._lock = threading.Lock()
        self._failure: Exception | None = None
        self._server: LLMockServer | None = None

    @property
    def url(self) -> str:
        """What to pass as `base_url`."""
        if self._server is None:
            raise RuntimeError("the scripted server is not running: use it with `with`")
        return self._server.base_url("openai")

    def __enter__(self) -> Self:
        self._server = told_server(self._decide).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        # It takes two tenths of a second to end, for which nobody has to wait.
        threading.Thread(target=self._server.stop).start()
        if self._failure is not None and error is None:
            raise self._failure

    def _decide(self, path: str, body: bytes) -> Outcome:
        """Record one request and take the next step for it.

        A step that raises is answered with 400, and raised again at the end of `with`.
        """
        with self._lock:
            request = ScriptedRequest(path, json.loads(body or b"{}"))
            self.requests.append(request)
            try:
                outcome = self._next(request)
            except Exception as error:
                self._failure = self._failure or error
                outcome = _refusal(ScriptedError(400, "script", str(error)))
            self.answers.append(outcome.body)
            return outcome

    def _next(self, request: ScriptedRequest) -> Outcome:
        if not request.path.endswith(("/chat/completions", "/responses")):
            raise LookupError(f"the scripted server has no {request.path!r}")
        step = next(self._script, None)
        if step is None:
            count = len(self.requests)
            raise LookupError(f"the script ended before request {count}: add a step")
        made = step(request) if callable(step) else step
        if isinstance(made, ScriptedError):
            return _refusal(made)
        if not isinstance(made, ScriptedBreak):
            return _outcome(request, self._body(request, made))
        if not request.is_stream:
            raise ValueError("a stream can break only where the client asks for one")
        fault = StreamFault(made.how, made.after_events, made.stall_s)
        return _outcome(request, self._body(request, made.turn), fault)

    def _body(self, request: ScriptedRequest, turn: Turn) -> dict[str, Any]:
        if isinstance(turn, Mapping):
            return dict(turn)
        things = [turn] if isinstance(turn, str | ScriptedCall) else turn
        said = [self._said(each) for each in things]
        answer = Answer(len(self.requests), str(request.body.get("model")), said)
        return chat_body(answer) if request.is_chat else response_body(answer)

    def _said(self, each: str | ScriptedCall) -> Said:
        if isinstance(each, str):
            return Said(each)
        written = each.arguments
        text = written if isinstance(written, str) else json.dumps(written)
        call_id = each.call_id or next(self._ids)
        return Said(text, each.name, call_id, each.free_text)


def _refusal(error: ScriptedError) -> Outcome:
    wait_s, more = error.retry_after_s, (error.message, error.code)
    return Outcome(trouble=Fail(error.status, wait_s, *more))


def _outcome(
    request: ScriptedRequest, body: dict[str, Any], fault: StreamFault | None = None
) -> Outcome:
    if not request.is_stream:
        return Outcome(body)
    if not request.is_chat:
        events = [sse(event, event["type"]) for event in response_events(body)]
        return Outcome(body, events, fault)
    options: dict[str, Any] = request.body.get("stream_options") or {}
    usage = bool(options.get("include_usage"))
    events = [sse(event) for event in chat_events(body, usage=usage)]
    return Outcome(body, [*events, sse("[DONE]")], fault)
