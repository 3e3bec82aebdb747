"""The tools of a sandbox as a server of the official SDK, 1.x or 2.x."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from kern_tools.adapters.mcp.offer import Offer
from kern_tools.adapters.mcp.watches import Watches
from kern_tools.adapters.mcp.wire import Wire
from kern_tools.options import flag
from kern_tools.policy import FaultPolicy
from kern_tools.prompting import system_prompt
from kern_tools.sandbox import Sandbox
from kern_tools.source import Pool, Source
from kern_tools.tools import tools_of

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

_KEY = "as_server(..., conversation=...), which tells the client of a request"


def as_server(
    sandbox: Sandbox | Pool,
    tools: str | Sequence[str] = ("code", "files"),
    *,
    strict: bool = False,
    images: Literal["parts", "none"] = "parts",
    structured: bool = True,
    conversation: Callable[[Any], Any] | None = None,
    tenant: Callable[[Any], Any] | None = None,
    policy: FaultPolicy | None = None,
) -> Server[Any]:
    """Offer tools of `sandbox` to MCP clients.

    Args:
        sandbox: Where the calls run; open for as long as the server runs. All clients
            share it; of a pool, each has a sandbox of its own.
        tools: Names of sets or of single tools.
        strict: Schemas for strict mode: all properties required, absent is null.
        images: `parts` sends images as content, `none` leaves them out.
        structured: Publish an output schema, and send the result as structured content.
            Some clients show a model that in place of text and images; False sends it
            in `_meta`, where `result_of` finds it as well.
        conversation: With a pool, given the SDK's context of a request, tells the
            client or its conversation. None is the connection, where that is one
            client's: over stdio, not over HTTP.
        tenant: With a pool, given the same context, tells whose the conversation is.
        policy: Bounds for the calls of each conversation, which is a connection or what
            `conversation` tells. Where a bound is reached, `stop_of(answer)` says so,
            the next call is refused, and counting begins anew: only the client can end
            a loop. A call of no known conversation is made again where nothing ran, and
            counts for nothing.

    Returns:
        A low-level server of the SDK, for any of its transports.

    Raises:
        SandboxClosed: The sandbox is not open.
        ConfigError: `tools` names none of ours.
    """
    source = Source(sandbox, tenant=tenant, key=_KEY)
    offered = tools_of(source, tools, images=images)
    flag("strict", strict)
    flag("structured", structured)
    facts = source.describe().offering(tools, images=images)
    offer = Offer(
        tools={tool.name: tool for tool in offered},
        wire=Wire(strict=strict, images=images == "parts", structured=structured),
        instructions=system_prompt(facts),
        conversation=conversation,
        watches=None if policy is None else Watches(policy),
    )
    return _made(offer)


def _made(offer: Offer) -> Server[Any]:
    if version("mcp").startswith("1."):
        from kern_tools.adapters.mcp.release1 import make_server as make_older

        older: Server[Any] = make_older(offer)
        return older
    from kern_tools.adapters.mcp.release2 import make_server

    return make_server(offer)
