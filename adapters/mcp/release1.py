"""A server of the SDK's releases 1.x, whose names no type checker knows here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Self
from uuid import uuid4

from kern_tools import __version__
from kern_tools.adapters.mcp.notices import Line
from kern_tools.adapters.mcp.offer import NAME, Offer

types: Any = import_module("mcp.types")
lowlevel: Any = import_module("mcp.server.lowlevel")

_LEVEL = "info"
_HEARING = ("debug", _LEVEL)
_RUNNING: ContextVar[dict[Any, asyncio.Event]] = ContextVar("kern_tools_mcp_running")
"""The calls of one connection by the ids of their requests, and whether they ended."""


class _Connection:
    """What one run of the server knows of its client."""

    def __init__(self) -> None:
        self.client = uuid4().hex
        self.hears = True


def make_server(offer: Offer) -> Any:
    """Make the server of an offer."""

    async def list_tools(_: Any) -> Any:
        listing = types.ListToolsResult.model_validate(offer.listing())
        return types.ServerResult(listing)

    async def call_tool(request: Any) -> Any:
        context, params = server.request_context, request.params
        running, over = _RUNNING.get(), asyncio.Event()
        running[context.request_id] = over
        try:
            answer = await offer.answer(params.name, params.arguments, _line(context))
        finally:
            over.set()
            del running[context.request_id]
        return types.ServerResult(types.CallToolResult.model_validate(answer))

    async def set_level(request: Any) -> Any:
        connection = server.request_context.lifespan_context
        connection.hears = request.params.level in _HEARING
        return types.ServerResult(types.EmptyResult())

    server = _Server(
        NAME,
        version=__version__,
        instructions=offer.instructions,
        lifespan=_connected,
    )
    # Its decorators would check the arguments first and answer in words of their own.
    server.request_handlers |= {
        types.ListToolsRequest: list_tools,
        types.CallToolRequest: call_tool,
        types.SetLevelRequest: set_level,
    }
    return server


class _Server(lowlevel.Server):  # type: ignore[misc]
    """A server that answers a cancelled request once its call has ended."""

    async def run(self, reading: Any, writing: Any, *args: Any, **more: Any) -> None:
        running: dict[Any, asyncio.Event] = {}
        _RUNNING.set(running)
        held = _Held(writing, running)
        await super().run(  # pyright: ignore[reportUnknownMemberType]
            reading, held, *args, **more
        )


class _Held:
    """The way out of a connection, where errors wait for the call they answer.

    These releases answer a cancelled request as soon as they have told its handler.
    """

    def __init__(self, stream: Any, running: dict[Any, asyncio.Event]) -> None:
        self._stream = stream
        self._running = running

    async def send(self, message: Any) -> None:
        said = message.message.root
        over = self._running.get(getattr(said, "id", None))
        if over is not None and isinstance(said, types.JSONRPCError):
            await over.wait()
        await self._stream.send(message)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


@asynccontextmanager
async def _connected(_: Any) -> AsyncGenerator[_Connection]:
    yield _Connection()


def _line(context: Any) -> Line:
    session, related = context.session, context.request_id

    async def notify(notice: Any) -> None:
        told = types.ServerNotification(notice)
        await session.send_notification(told, related_request_id=related)

    async def progress(passed_s: float, message: str) -> None:
        if token is None:
            return
        params = {"progressToken": token, "progress": passed_s, "message": message}
        notice = {"method": "notifications/progress", "params": params}
        await notify(types.ProgressNotification.model_validate(notice))

    async def log(data: dict[str, Any]) -> None:
        params = {"level": _LEVEL, "logger": NAME, "data": data}
        notice = {"method": "notifications/message", "params": params}
        await notify(types.LoggingMessageNotification.model_validate(notice))

    meta: dict[str, Any] = {}
    if context.meta is not None:
        meta = context.meta.model_dump()
    token = meta.get("progressToken")
    connection: _Connection = context.lifespan_context
    return Line(
        call_id=str(related),
        # Over HTTP a run may serve one request only, of any client.
        client=connection.client if context.request is None else None,
        context=context,
        meta=meta,
        progress=progress,
        log=log if connection.hears else None,
    )
