"""A server of the SDK's releases 2.x, for clients with and without a handshake."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from kern_tools import __version__
from kern_tools.adapters.mcp.notices import Line
from kern_tools.adapters.mcp.offer import NAME, Offer

_LEVEL: types.LoggingLevel = "info"
_HEARING = ("debug", _LEVEL)


@dataclass(slots=True)
class _Connection:
    """What one run of the server knows of its client.

    Attributes:
        client: Made up; another one for each connection.
        deaf: The sessions that asked for graver entries of the log only.
    """

    client: str = field(default_factory=lambda: uuid4().hex)
    deaf: set[str | None] = field(default_factory=set[str | None])


_Context = ServerRequestContext[_Connection, Any]


def make_server(offer: Offer) -> Server[_Connection]:
    """Make the server of an offer."""

    async def list_tools(_: _Context, __: object) -> types.ListToolsResult:
        return types.ListToolsResult.model_validate(offer.listing())

    async def call_tool(
        context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        answer = await offer.answer(params.name, params.arguments, _line(context))
        return types.CallToolResult.model_validate(answer)

    async def set_level(
        context: _Context, params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        deaf, session = context.lifespan_context.deaf, _session(context)
        (deaf.discard if params.level in _HEARING else deaf.add)(session)
        return types.EmptyResult()

    server = Server(
        NAME,
        version=__version__,
        instructions=offer.instructions,
        lifespan=_connected,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    # Given to the constructor it would warn: the log is going out of the protocol.
    server.add_request_handler(
        "logging/setLevel", types.SetLevelRequestParams, set_level
    )
    return server


@asynccontextmanager
async def _connected(_: Server[_Connection]) -> AsyncGenerator[_Connection]:
    yield _Connection()


def _line(context: _Context) -> Line:
    session, related = context.session, context.request_id

    async def progress(passed_s: float, message: str) -> None:
        await session.report_progress(passed_s, message=message)

    async def log(data: dict[str, Any]) -> None:
        params = types.LoggingMessageNotificationParams(
            level=_LEVEL, logger=NAME, data=data
        )
        notice = types.LoggingMessageNotification(params=params)
        await session.send_notification(notice, related_request_id=related)

    return Line(
        call_id=str(related),
        # Over HTTP one run of the server serves them all.
        client=context.lifespan_context.client if context.request is None else None,
        context=context,
        meta=context.meta,
        progress=progress,
        log=log if _hears(context) else None,
    )


def _hears(context: _Context) -> bool:
    """Say whether the client may be sent entries of the log.

    Source: SEP-2577: from 2026-07-28 on each request asks for them, or gets none.
    """
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return (context.meta or {}).get(types.LOG_LEVEL_META_KEY) in _HEARING
    return _session(context) not in context.lifespan_context.deaf


def _session(context: _Context) -> str | None:
    if context.request is None:
        return None
    session: str | None = context.request.headers.get("mcp-session-id")
    return session
