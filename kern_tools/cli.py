"""`kern-tools`: look at the host, make images, run code, show what a model is told."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from . import flags
from .doctor import findings
from .escaping import escape
from .faults import SandboxError
from .host import host_report
from .image import ensure_image
from .image_commands import image_app
from .languages import LANGUAGES
from .prune_command import prune
from .running import (
    EXIT_CODES,
    UNUSABLE,
    exit_code,
    folder_at,
    language_of,
    save_charts,
    source_of,
)
from .sandbox import Sandbox
from .screen import print_json, progress, show_heading, show_table
from .tools import Tool, tools_of
from .wire import chat_function, response_function

NOT_READY = 1
_STYLES = {"missing": "red", "warning": "yellow"}

app = typer.Typer(
    help="A rootless code sandbox for agents, with typed outcomes.",
    epilog="What stands in the way is said in one line on stderr, with exit code"
    f" {UNUSABLE}; a wrong command line exits with 2.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(image_app, name="image")
app.command()(prune)


def main() -> None:
    """Run the command line; an error of the house is one line, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except SandboxError as error:
        print(f"error: {escape(str(error))}", file=sys.stderr)
        for note in getattr(error, "__notes__", ()):
            print(escape(note), file=sys.stderr)
        sys.exit(UNUSABLE)


def _print_version(wanted: bool) -> None:
    if wanted:
        from . import __version__

        print(f"kern-tools {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    pass


@app.command(epilog="Exits with 0 where boxes start, else with 1.")
def doctor(
    image: Annotated[
        str | None,
        typer.Option(metavar="REFERENCE", help="Look for this image, not the host's."),
    ] = None,
    as_json: flags.AsJson = False,
) -> None:
    """Say what this host can do, and how to get the rest."""
    report = host_report(reference=image)
    found = findings(report)
    if as_json:
        remedies = {one.about: one.remedy for one in found if one.remedy}
        print_json({**report.to_dict(), "remedies": remedies})
    else:
        rows = [((f.about, f.state, f.found), _STYLES.get(f.state)) for f in found]
        show_table(("what", "state", "found"), rows)
        for one in found:
            if one.remedy:
                print(f"{one.about}: {one.remedy}")
    raise typer.Exit(0 if report.ok else NOT_READY)


@app.command(epilog=EXIT_CODES)
def run(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="- reads stdin.")],
    language: Annotated[
        str | None,
        typer.Option(
            metavar=flags.listed(LANGUAGES),
            help="By default the file's ending says it, else it is python.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Save the charts there.")
    ] = None,
    timeout_s: flags.TimeoutS = None,
    image: flags.ImageName = None,
    packages: flags.Packages = None,
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
    """Run a file in a sandbox; print what a model reads."""
    arguments = {"code": source_of(file), "language": language_of(file, language)}
    folder = None if save is None else folder_at(save)
    with _opened(ctx) as sandbox:
        (tool,) = tools_of(sandbox, "run_code")
        reply = tool.call(arguments)
    if as_json:
        print_json(reply.artifact)
    else:
        print(reply.text)
    if folder is not None:
        for path in save_charts(reply, folder):
            print(f"saved {path}", file=sys.stderr)
    raise typer.Exit(exit_code(reply))


def _plain(tool: Tool, strict: bool) -> dict[str, Any]:
    schema = tool.schema(strict=strict)
    return {"name": tool.name, "description": tool.description, "schema": schema}


_FORMS: dict[str, Callable[[Tool, bool], dict[str, Any]]] = {
    "openai-chat": lambda tool, strict: chat_function(tool, strict=strict),
    "openai-responses": lambda tool, strict: response_function(tool, strict=strict),
    "json-schema": _plain,
}


@app.command()
def tools(
    ctx: typer.Context,
    form: Annotated[
        str, typer.Option("--format", metavar=flags.listed(_FORMS))
    ] = "json-schema",
    names: Annotated[
        str,
        typer.Option(
            "--tools", metavar="NAMES", help="Sets or single tools, with commas."
        ),
    ] = "code,files",
    strict: Annotated[
        bool,
        typer.Option(help="Schemas for strict mode: all required, absent is null."),
    ] = True,
    image: flags.ImageName = None,
    packages: flags.Packages = None,
    timeout_s: flags.TimeoutS = None,
    memory_mb: flags.MemoryMb = None,
    network: flags.Network = None,
    egress_allow: flags.EgressAllow = None,
) -> None:
    """Print the tools of such a sandbox as JSON."""
    define = _FORMS[flags.choice("--format", form, _FORMS)]
    with _opened(ctx) as sandbox:
        offered = tools_of(sandbox, flags.split(names))
        print_json([define(tool, strict) for tool in offered])


@app.command()
def prompt(
    ctx: typer.Context,
    image: flags.ImageName = None,
    packages: flags.Packages = None,
    timeout_s: flags.TimeoutS = None,
    memory_mb: flags.MemoryMb = None,
    network: flags.Network = None,
    egress_allow: flags.EgressAllow = None,
) -> None:
    """Print what a model is told about such a sandbox."""
    with _opened(ctx) as sandbox:
        print(sandbox.system_prompt())
        for tool in tools_of(sandbox):
            print()
            show_heading(f"{tool.name}:")
            print(tool.description)


@app.command(epilog="Exits with 0 where all frameworks that are here agree, else 1.")
def demo(
    save: Annotated[
        Path, typer.Option(metavar="DIR", help="Save the chart there.")
    ] = Path(),
) -> None:
    """Send six calls through every framework, and compare."""
    from .demo import run_demo

    raise typer.Exit(0 if run_demo(folder_at(save)) else NOT_READY)


@contextmanager
def _opened(ctx: typer.Context) -> Generator[Sandbox]:
    config = flags.config_of(ctx.params)
    with progress() as tell:
        ensure_image(
            config.image,
            packages=config.packages,
            offline=config.offline,
            pull_timeout_s=config.pull_timeout_s,
            progress=tell,
        )
    with Sandbox(config) as sandbox:
        yield sandbox
