"""`kern-tools mcp`: the tools of a sandbox for any MCP client."""

from __future__ import annotations

import gc
import sys
from typing import Annotated, Literal

import typer

from . import flags
from .opening import opened
from .running import UNUSABLE
from .toolsets import tool_names

_HINT = (
    "kern-tools mcp speaks the Model Context Protocol on stdin and stdout: name it to"
    " an MCP client as the command of a server"
)


def mcp(
    ctx: typer.Context,
    names: Annotated[
        str,
        typer.Option(
            "--tools", metavar="NAMES", help="Sets or single tools, with commas."
        ),
    ] = "code,files",
    mode: Annotated[
        str | None,
        typer.Option(
            metavar="[fresh|resident|kernel]",
            help="What survives a call: files (default), processes too, or Python's"
            " names as well.",
        ),
    ] = None,
    setup: Annotated[
        str | None,
        typer.Option(metavar="LINE", help="Installs what code needs, with network."),
    ] = None,
    images: Annotated[bool, typer.Option(help="Send images to the client.")] = True,
    structured: Annotated[
        bool,
        typer.Option(
            help="Send results as structured content too. Some clients show a model"
            " that alone, without images: turn it off for them.",
        ),
    ] = True,
    image: flags.ImageName = None,
    packages: flags.Packages = None,
    timeout_s: flags.TimeoutS = None,
    memory_mb: flags.MemoryMb = None,
    cpus: flags.Cpus = None,
    pids: flags.Pids = None,
    workspace: flags.Workspace = None,
    mounts: flags.Mounts = None,
    env: flags.Env = None,
    network: flags.Network = None,
    egress_allow: flags.EgressAllow = None,
    require_limits: flags.CapsRequired = None,
    offline: flags.Offline = None,
) -> None:
    """Serve one MCP client, with a sandbox of its own, until it is gone."""
    try:
        from kern_tools.adapters.mcp import Wires, as_server, serve_stdio
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(UNUSABLE) from None
    config, tools = flags.config_of(ctx.params), tool_names(flags.split(names))
    if sys.stdin.isatty():
        print(_HINT, file=sys.stderr)
    wires = Wires.claim()
    sent: Literal["parts", "none"] = "parts" if images else "none"
    with opened(config) as sandbox:
        server = as_server(sandbox, tools, images=sent, structured=structured)
        # What is loaded by now stays; walking it at the end would take a second.
        gc.freeze()
        serve_stdio(server, wires)
