"""What goes into one run on the command line, and what is left of it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from .config import Budget
from .flags import choice
from .languages import LANGUAGES
from .loop_events import CallFinished, CallStarted
from .reply import Reply
from .screen import is_terminal
from .terminal import TerminalDisplay
from .toolspec import Tool
from .transcript import Transcript
from .values import pictures_of

CODE_MAX = 119
"""The highest exit code that is the code's own."""
FAULT = 120
UNUSABLE = 121

EXIT_CODES = f"""\b
Exit codes:
  0         the code ended with 0
  1 to {CODE_MAX}  the code's own; {CODE_MAX} for a higher one and for a signal
  {FAULT}       a fault: the sandbox ended the code, or did not start it
  {UNUSABLE}       nothing was run: the code, an option or this host cannot be used
  2         also for a wrong command line, which prints nothing on stdout
"""

_SUFFIXES = {".py": "python", ".sh": "sh", ".bash": "bash", ".js": "node"}
_EVERY_IMAGE = Budget(images=1 << 20, image_bytes=1 << 30)


def source_of(file: str) -> str:
    """Read the code from a file, or from stdin where it is `-`.

    Raises:
        typer.BadParameter: It cannot be read, or is not UTF-8.
    """
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise typer.BadParameter(f"{file!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise typer.BadParameter(
            f"{file!r} is not UTF-8 at byte {error.start}: save it as UTF-8"
        ) from None


def language_of(file: str, given: str | None) -> str:
    """Take the language that is given, else the one the file's ending says.

    Raises:
        typer.BadParameter: There is no such language.
    """
    if given is None:
        return _SUFFIXES.get(Path(file).suffix, "python")
    return choice("--language", given, LANGUAGES)


def folder_at(path: Path) -> Path:
    """Make a folder where there is none.

    Raises:
        typer.BadParameter: It cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(
            f"{str(path)!r} cannot be made a folder: {error.strerror}",
            param_hint="--save",
        ) from None
    return path


def page_at(path: Path) -> Path:
    """Make sure that a page can be saved there, before anything is run.

    Raises:
        typer.BadParameter: It cannot.
    """
    try:
        path.touch()
    except OSError as error:
        raise typer.BadParameter(
            f"{str(path)!r} cannot be written: {error.strerror}", param_hint="--html"
        ) from None
    return path


def transcript_of(file: str, *, shown: bool) -> Transcript:
    """Begin to record a run, drawn on the terminal while it goes on if there is one.

    Args:
        file: What is run.
        shown: Draw it; otherwise somebody else prints what came of it.
    """
    drawn = shown and is_terminal()
    return Transcript(file, live=TerminalDisplay(code=False) if drawn else False)


def call(tool: Tool, arguments: Mapping[str, object], transcript: Transcript) -> Reply:
    """Make one call and tell a transcript of it."""
    start_s = time.monotonic()
    made: Any = {"turn": 1, "call_id": "run", "tool": tool.name}
    transcript(CallStarted(**made, arguments=json.dumps(arguments)))
    reply = tool.call(arguments, call_id="run", on_output=transcript)
    took_ms = (time.monotonic() - start_s) * 1000
    transcript(CallFinished(**made, reply=reply, duration_ms=took_ms))
    return reply


def exit_code(reply: Reply) -> int:
    """Tell the code's own failure from a fault, and both from nothing run.

    Args:
        reply: Of `run_code`.

    Returns:
        0, 1 to `CODE_MAX` for the code's own, `FAULT`, or `UNUSABLE`.
    """
    if reply.result is None:
        return UNUSABLE
    if reply.result.fault is not None:
        return FAULT
    return min(reply.result.exit_code, CODE_MAX)


def save_charts(reply: Reply, folder: Path) -> Iterator[Path]:
    """Write all images of a run, also those over the budget of a reply.

    Args:
        reply: Of `run_code`.
        folder: Gets `chart-1.png` and so on; files of that name are replaced.

    Yields:
        The path of each.
    """
    values = [] if reply.result is None else reply.result.results
    for number, part in enumerate(pictures_of(values, _EVERY_IMAGE, None).parts, 1):
        path = folder / f"chart-{number}.{part.mime.partition('/')[2]}"
        path.write_bytes(part.data)
        yield path
