"""`kern-tools`: look at the host, make images, run code, show what a model is told."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated

import typer

from . import flags
from .conformance_command import conformance
from .doctor import findings
from .escaping import escape
from .faults import SandboxError
from .host import host_report
from .image_commands import image_app
from .languages import LANGUAGES
from .mcp_command import mcp
from .opening import opened
from .prompt_command import prompt
from .prune_command import prune
from .running import (
    EXIT_CODES,
    UNUSABLE,
    call,
    exit_code,
    folder_at,
    language_of,
    page_at,
    save_charts,
    source_of,
    transcript_of,
)
from .screen import is_terminal, print_json, show_table
from .tool_forms import FORMS
from .tools import tools_of

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
app.command()(mcp)
app.command()(prompt)
app.command()(conformance)


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
@flags.sandbox_options
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
    page: flags.Page = None,
) -> None:
    """Run a file in a sandbox; print what a model reads, on a terminal as it comes."""
    arguments = {"code": source_of(file), "language": language_of(file, language)}
    folder = None if save is None else folder_at(save)
    saved = None if page is None else page_at(page)
    transcript = transcript_of(file, shown=not as_json)
    with opened(flags.config_of(ctx.params), warm=False) as sandbox:
        (tool,) = tools_of(sandbox, "run_code")
        reply = call(tool, arguments, transcript)
    if as_json:
        print_json(reply.artifact)
    elif not is_terminal():
        print(reply.text)
    if saved is not None:
        print(f"saved {transcript.to_html(saved)}", file=sys.stderr)
    if folder is not None:
        for path in save_charts(reply, folder):
            print(f"saved {path}", file=sys.stderr)
    raise typer.Exit(exit_code(reply))


@app.command()
@flags.sandbox_options
def tools(
    ctx: typer.Context,
    form: Annotated[
        str,
        typer.Option(
            "--format", metavar=flags.listed(FORMS), help="Whose words to use."
        ),
    ] = "json-schema",
    names: flags.Tools = "code,files",
    strict: Annotated[
        bool | None,
        typer.Option(
            help="Schemas for strict mode: all required, absent is null. By default"
            " for OpenAI's formats and json-schema.",
        ),
    ] = None,
) -> None:
    """Print the tools of such a sandbox as JSON."""
    known = FORMS[flags.choice("--format", form, FORMS)]
    as_strict = known.strict if strict is None else strict
    with opened(flags.config_of(ctx.params), warm=False) as sandbox:
        offered = tools_of(sandbox, flags.split(names))
        print_json([known.define(tool, as_strict) for tool in offered])


@app.command(epilog="Exits with 0 where all frameworks that are here agree, else 1.")
def demo(
    save: Annotated[
        Path, typer.Option(metavar="DIR", help="Save the chart there.")
    ] = Path(),
    page: flags.Page = None,
) -> None:
    """Send six calls through every framework, and compare."""
    from .demo import run_demo

    saved = None if page is None else page_at(page)
    raise typer.Exit(0 if run_demo(folder_at(save), page=saved) else NOT_READY)
