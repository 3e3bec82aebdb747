"""A server of llmock that is told, request by request, what comes of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llmock.scenarios import Fail, ScenarioQueue, StreamFault
from llmock.streaming import sse_response
from llmock.testing import LLMockServer
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True, slots=True)
class Outcome:
    """What comes of one request.

    Attributes:
        body: What is said, whole; None for an error.
        events: The same as the events of a stream, encoded; None where it goes whole.
        trouble: The error instead of it, or what breaks the stream.
    """

    body: dict[str, Any] | None = None
    events: Sequence[bytes] | None = None
    trouble: Fail | StreamFault | None = None


Decide = Callable[[str, bytes], Outcome]
"""Takes the path and the body of a request; called on a thread of its own."""


def told_server(decide: Decide) -> LLMockServer:
    """Make a server whose every answer is decided here; it is not started yet."""
    server = LLMockServer()
    server.app.add_middleware(_Deciding, decide=decide, queue=server.state.scenarios)
    # In front of llmock's own routes, and behind its errors and broken streams.
    server.app.router.routes.insert(0, Route("/{path:path}", _say, methods=["POST"]))
    return server


class _Deciding:
    """Decide, before llmock looks into its queue for what shall go wrong."""

    def __init__(self, app: ASGIApp, decide: Decide, queue: ScenarioQueue) -> None:
        self._app = app
        self._decide = decide
        self._queue = queue

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await Request(scope, receive).body()
        outcome = await asyncio.to_thread(self._decide, scope["path"], body)
        scope["state"]["outcome"] = outcome
        if outcome.trouble is not None:
            # Nothing waits from here until llmock has taken it off again, so that no
            # other request of this event loop can.
            self._queue.add(outcome.trouble)
        await self._app(scope, _once_more(body, receive), _closing(send))


def _once_more(body: bytes, receive: Receive) -> Receive:
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return whole.pop() if whole else await receive()

    return replay


def _closing(send: Send) -> Send:
    """Close after each answer: frameworks leave their clients' connections open."""

    async def close(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), (b"connection", b"close")]
            message = {**message, "headers": headers}
        await send(message)

    return close


async def _say(request: Request) -> Response:
    outcome: Outcome = request.state.outcome
    if outcome.events is None:
        # In ASCII, as models may write half of a surrogate pair, which has no UTF-8.
        return Response(json.dumps(outcome.body), media_type="application/json")
    return sse_response(outcome.events)
