"""`kern-tools mcp`: the tools of a sandbox for any MCP client."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from . import flags
from .opening import opened
from .running import UNUSABLE
from .toolsets import tool_names

if TYPE_CHECKING:
    from .sandbox import Sandbox

_HINT = (
    "kern-tools mcp speaks the Model Context Protocol on stdin and stdout: name it to"
    " an MCP client as the command of a server"
)


@flags.sandbox_options
def mcp(
    ctx: typer.Context,
    names: flags.Tools = "code,files",
    structured: Annotated[
        bool,
        typer.Option(
            help="Send results as structured content too. Some clients show a model"
            " that alone, without images: turn it off for them.",
        ),
    ] = True,
    telemetry: Annotated[
        bool,
        typer.Option(
            help="Trace and count calls by OpenTelemetry, to the providers that"
            " `opentelemetry-instrument kern-tools mcp` sets up.",
        ),
    ] = False,
) -> None:
    """Serve one MCP client, with a sandbox of its own, until it is gone."""
    try:
        from kern_tools.adapters.mcp import Wires, as_server, serve_stdio

        follow = _follow(telemetry)
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(UNUSABLE) from None
    config, tools = flags.config_of(ctx.params), tool_names(flags.split(names))
    if sys.stdin.isatty():
        print(_HINT, file=sys.stderr)
    wires = Wires.claim()
    with opened(config) as sandbox:
        follow(sandbox)
        server = as_server(sandbox, tools, structured=structured)
        # What is loaded by now stays; walking it at the end would take a second.
        gc.freeze()
        serve_stdio(server, wires)


def _follow(telemetry: bool) -> Callable[[Sandbox], None]:
    """Give what has a sandbox's calls traced, if that is asked for."""
    if not telemetry:
        return lambda _: None
    from .telemetry import instrument

    return instrument
