"""The tool that replaces text in a file of the workspace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import AfterValidator

from .edits import Ambiguous, Edit, Hunk, NotFound, TooLarge, edit
from .escaping import escape
from .excerpt import fenced, fitting
from .faults import WorkspaceError
from .filespec import (
    FilePath,
    file_tool,
    only_writer,
    shown_path,
)
from .nearest import Nearest, nearest
from .quantities import count, line_span, size
from .reply import Reply
from .reply_text import bad_arguments, text_reply
from .sandbox import Sandbox
from .saying import room_left
from .toolspec import Arguments
from .workspace import Workspace

EDIT_MAX_BYTES = 4 << 20
"""The largest file that is edited, before and after."""

_NAME = "edit_file"
_LINES_NAMED = 10
_LINES_SHOWN = 12
_LINE_MAX_CHARS = 300
_OWN_CHARS = 500


def _not_empty(old: str) -> str:
    if not old:
        raise ValueError(
            "is empty: give the text to replace, or make a file with write_file"
        )
    return old


class EditFile(Arguments):
    """Arguments of `edit_file`."""

    path: FilePath
    """The file, relative to the workspace or below /workspace."""
    old: Annotated[str, AfterValidator(_not_empty)]
    """The text to replace, exactly as it is in the file."""
    new: str
    """The text to put there; empty to take `old` out."""
    replace_all: bool | None = None
    """Replace every place where `old` is; it has to be there once when null."""


def _edit(sandbox: Sandbox, arguments: EditFile, call_id: str | None) -> Reply:
    old, new = arguments.old.encode(), arguments.new.encode()
    if old == new:
        why = "`old` and `new` are the same. Send what is to be different."
        return bad_arguments(_NAME, why, call_id)
    workspace, path = sandbox.workspace, arguments.path
    room = room_left(sandbox.config.budget).text_chars
    with only_writer(workspace):
        data = _read(workspace, path)
        text = _decoded(data, path)
        try:
            done = edit(
                *(data, old, new),
                everywhere=bool(arguments.replace_all),
                max_bytes=EDIT_MAX_BYTES,
            )
        except NotFound:
            said = _not_found(text, arguments, room)
            return text_reply(_NAME, said, call_id, error="no_match")
        except Ambiguous as error:
            said = _ambiguous(error, path)
            return text_reply(_NAME, said, call_id, error="ambiguous")
        except TooLarge:
            raise _too_large(path, "it would become") from None
        workspace.write_file(path, done.content)
    return text_reply(_NAME, _done(done, data, arguments, room), call_id)


def _read(workspace: Workspace, path: str) -> bytes:
    try:
        return workspace.read_file(path, max_bytes=EDIT_MAX_BYTES)
    except WorkspaceError as error:
        if error.code != "too_large":
            raise
        raise _too_large(path, "it is") from None


def _decoded(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WorkspaceError(
            f"cannot edit {path[:200]!r}: line {line:,} is not UTF-8; change it with"
            " code that reads bytes",
            code="bad_data",
            path=path,
        ) from None


def _too_large(path: str, it_is: str) -> WorkspaceError:
    return WorkspaceError(
        f"cannot edit {path[:200]!r}: {it_is} larger than {size(EDIT_MAX_BYTES)};"
        " change it with code",
        code="too_large",
        path=path,
    )


def _not_found(text: str, arguments: EditFile, room: int) -> str:
    head = f"error: no_match. `old` is not in {shown_path(arguments.path)}"
    near = nearest(text, arguments.old)
    if near is None:
        return f"{head}.\nnext: read the file, and take `old` from it as it is."
    where = line_span(near.first, near.last)
    if not near.differs:
        lead = f"{head}. Nearest {_verb(near)} its {where}:"
    else:
        lead = f"{head}. Its {where} {_verb(near)} {near.differs}:"
    last = min(near.last, near.first + _LINES_SHOWN - 1)
    shown = [_text(line) for line in text.split("\n")[near.first - 1 : last]]
    body = fitting(shown, room - len(lead) - len(near.remedy) - _OWN_CHARS // 5)
    return "\n".join([lead, fenced("\n".join(body)), f"next: {near.remedy}"])


def _verb(near: Nearest) -> str:
    return "is" if near.first == near.last else "are"


def _ambiguous(error: Ambiguous, path: str) -> str:
    return (
        f"error: ambiguous. `old` is in {shown_path(path)} {error.count:,} times,"
        f" {_lines(error.lines, error.count)}; nothing was changed.\n"
        "next: give more of the text around the one you mean, or set replace_all."
    )


def _done(done: Edit, data: bytes, arguments: EditFile, room: int) -> str:
    places = count(done.count, "place")
    shown = shown_path(arguments.path)
    head = f"ok, edited {shown}, {places}, {_lines(done.lines, done.count)}"
    notes = _notes(data, done.content)
    room -= _OWN_CHARS + sum(map(len, notes))
    crlf = _only_crlf(data) and _only_crlf(done.content)
    rows = [row for hunk in done.hunks for row in _rows(hunk, crlf=crlf)]
    body = fitting(rows, room)
    if len(body) < len(rows) or done.count > len(done.lines):
        notes.append("note: not all changes are shown.")
    blocks = [fenced("\n".join(body))] if body else []
    return "\n".join([head, *notes, *blocks])


def _lines(lines: Sequence[int], total: int) -> str:
    """Name lines, the first ones of `total` places."""
    named = list(dict.fromkeys(f"{line:,}" for line in lines))
    if len(named) == 1 and total == len(lines):
        return f"line {named[0]}"
    more = len(named) > _LINES_NAMED or total > len(lines)
    return f"lines {', '.join(named[:_LINES_NAMED])}{' and more' if more else ''}"


def _notes(data: bytes, content: bytes) -> list[str]:
    if not _only_crlf(data):
        return []
    if _only_crlf(content):
        return ["note: its lines end in CRLF."]
    return ["note: its lines ended in CRLF, and some end in LF now."]


def _only_crlf(data: bytes) -> bool:
    return data.count(b"\r\n") == data.count(b"\n") > 0


def _rows(hunk: Hunk, *, crlf: bool) -> Iterator[str]:
    """Give a hunk as lines of a unified diff."""
    old, new = hunk.lines_of("-"), hunk.lines_of("+")
    yield f"@@ -{hunk.old_line},{old} +{hunk.new_line},{new} @@"
    for mark, line in hunk.rows:
        text = line.decode().removesuffix("\n")
        yield mark + _text(text.removesuffix("\r") if crlf else text)
        if not line.endswith(b"\n"):
            yield r"\ No newline at end of file"


def _text(line: str) -> str:
    r"""Make one line safe to show and short; a `\r` is seen."""
    text = escape(line.replace("\r", r"\r"))
    cut = len(text) - _LINE_MAX_CHARS
    return text if cut <= 0 else f"{text[:_LINE_MAX_CHARS]}... [{cut:,} more]"


EDIT_FILE = file_tool(_NAME, EditFile, _edit, in_thread=False)
