"""The tools that search the workspace: text in files, and files by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator

from .config import SandboxConfig
from .escaping import escape_line
from .excerpt import fenced, fitting
from .faults import WorkspaceError
from .filespec import (
    FilePath,
    file_tool,
    refused,
    shown_path,
    without_nul,
)
from .globs import BadGlob, Glob
from .listing import Files, Scan, listed
from .names import public_name, shown_name
from .quantities import count, seconds
from .rendering import state_notes
from .reply import Reply
from .reply_text import bad_arguments, text_reply, with_notes
from .result import ExecutionResult
from .runspec import Run, arun_first, run_first
from .sandbox import Sandbox
from .saying import room_left, saying
from .search import Answer, BadPattern, Search, Unanswered
from .toolspec import Arguments, ToolSpec

PATTERN_MAX_CHARS = 2000

_SEARCH, _FIND = "search_files", "find_files"
_LISTED_MAX_FILES = 200
_OWN_CHARS = 500
_T = TypeVar("_T")


def _usable(pattern: str) -> str:
    if not pattern:
        raise ValueError("is empty: give what to look for")
    if len(pattern) > PATTERN_MAX_CHARS:
        raise ValueError(f"is longer than {PATTERN_MAX_CHARS:,} characters")
    return without_nul(pattern)


Pattern = Annotated[str, AfterValidator(_usable)]


class SearchFiles(Arguments):
    """Arguments of `search_files`."""

    pattern: Pattern
    """A regular expression, looked for in each line by itself; `(?i)` ignores case."""
    path: FilePath | None = None
    """The directory to search with all below it, or one file; everything when null."""


class FindFiles(Arguments):
    """Arguments of `find_files`."""

    glob: Pattern
    """A pattern for paths: `*.py` at the top, `**/*.py` everywhere, `src/**`."""


# -- search_files


def _search(
    sandbox: Sandbox, arguments: SearchFiles, call_id: str | None, _: object = None
) -> Reply:
    try:
        search = Search.of(sandbox.config, arguments.pattern, arguments.path or "")
        ways = _ways(sandbox.config, search, sandbox.run, call_id)
        program, result = run_first(sandbox, ways)
        return _searched(sandbox, search, program, result, call_id)
    except WorkspaceError as error:
        return refused(_SEARCH, error, call_id)


async def _asearch(
    sandbox: Sandbox, arguments: SearchFiles, call_id: str | None, _: object = None
) -> Reply:
    try:
        search = Search.of(sandbox.config, arguments.pattern, arguments.path or "")
        ways = _ways(sandbox.config, search, sandbox.arun, call_id)
        program, result = await arun_first(sandbox, ways)
        return _searched(sandbox, search, program, result, call_id)
    except WorkspaceError as error:
        return refused(_SEARCH, error, call_id)


def _ways(
    config: SandboxConfig, search: Search, run: Callable[..., _T], call_id: str | None
) -> dict[str, Callable[[], _T]]:
    options: dict[str, Any] = {"call_id": call_id}
    # What a search writes is for us, not for who listens to the code.
    for name in ("on_stdout", "on_stderr"):
        if getattr(config, name) is not None:
            options[name] = _unheard
    return {
        "python3": lambda: run(search.python(), **options),
        "sh": lambda: run(search.shell(), **options),
    }


def _unheard(_: str) -> None:
    """Let a piece of text go by."""


def _searched(
    sandbox: Sandbox,
    search: Search,
    program: str,
    result: ExecutionResult,
    call_id: str | None,
) -> Reply:
    if not result.success:
        with saying(takes_limit=False):  # It has no `timeout_s` to raise.
            return Run.of(sandbox, _SEARCH, call_id).reply(result)
    try:
        answer = search.answer(program, result.stdout)
    except BadPattern as bad:
        why = f"`pattern` is not a regular expression that can be used: {bad}."
        return with_notes(bad_arguments(_SEARCH, why, call_id), state_notes(result))
    except Unanswered:
        text = "error: io. The search gave no answer that can be read; use run_code."
        return text_reply(_SEARCH, text, call_id, error="io")
    error = None if answer.stopped is None else "too_slow"
    text = _told(answer, search, room_left(sandbox.config.budget).text_chars)
    reply = text_reply(_SEARCH, text, call_id, error=error)
    return with_notes(reply, state_notes(result))


def _told(answer: Answer, search: Search, room: int) -> str:
    where = f" in {shown_path(search.path)}" if search.inside else ""
    texts = (_row(*row) for row in answer.rows)
    rows = fitting(texts, room - _OWN_CHARS)
    head = _verdict(answer, search, where)
    if rows and len(rows) < answer.lines:
        head += f", the first {len(rows):,} by path"
    lines = [head, *_notes(answer)]
    if rows:
        lines.append(fenced("\n".join(rows)))
    if answer.stopped is not None:
        lines.append("next: use a simpler pattern, or search one directory or file.")
    elif len(rows) < answer.lines:
        lines.append("next: search one directory of it, or with a narrower pattern.")
    return "\n".join(lines)


def _verdict(answer: Answer, search: Search, where: str) -> str:
    found = f"{count(answer.lines, 'line')} in {count(answer.files, 'file')}"
    if answer.stopped is not None:
        path, line = answer.stopped
        place = f" in line {line:,} of {shown_path(path)}" if line else ""
        spent = seconds(round(search.limit_s, 3))
        return f"error: too_slow. Stopped after {spent}{place}; until then {found}"
    if not answer.lines:
        return f"ok, no line matches{where}"
    return f"ok, {found} match{'es' if answer.lines == 1 else ''}{where}"


def _notes(answer: Answer) -> list[str]:
    notes: list[str] = []
    if answer.binary:
        notes.append(f"note: {count(answer.binary, 'binary file')} passed over.")
    if answer.unread:
        notes.append(f"note: {count(answer.unread, 'entry', 'entries')} not readable.")
    return notes


def _row(path: str, line: int, text: str) -> str:
    return f"{shown_name(path)}:{line}: {escape_line(text)}"


SEARCH_FILES = ToolSpec(name=_SEARCH, arguments=SearchFiles, run=_search, arun=_asearch)


# -- find_files


def _find(sandbox: Sandbox, arguments: FindFiles, call_id: str | None) -> Reply:
    try:
        glob = Glob(arguments.glob)
    except BadGlob as error:
        return bad_arguments(_FIND, f"`glob` {error}.", call_id)
    scan = sandbox.workspace.scan()
    wanted = {
        name: mark
        for name, mark in scan.entries.items()
        if glob.matches(public_name(name))
    }
    found = listed(Scan(wanted, complete=scan.complete), _LISTED_MAX_FILES)
    room = room_left(sandbox.config.budget).text_chars - _OWN_CHARS
    return text_reply(_FIND, _found(found, arguments.glob, room), call_id)


def _found(files: Files, glob: str, room: int) -> str:
    rows = fitting((shown_name(file.path) for file in files), room)
    least = "" if files.complete else "at least "
    verb = "matches" if files.total == 1 else "match"
    lines = [f"ok, {least}{count(files.total, 'file')} {verb} {shown_path(glob)}"]
    if rows:
        lines.append(fenced("\n".join(rows)))
    if len(rows) < files.total:
        lines[0] += f", the first {len(rows):,} by name"
        lines.append("next: give a narrower pattern.")
    elif not rows and "**" not in glob:
        lines.append("next: begin the pattern with `**/` to look in all directories.")
    return "\n".join(lines)


FIND_FILES = file_tool(_FIND, FindFiles, _find)
