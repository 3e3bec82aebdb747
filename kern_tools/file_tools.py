"""The tools that read, write and list files of the workspace."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from .escaping import escape_line
from .excerpt import fenced
from .faults import WorkspaceError
from .listing import Files
from .names import shown_name
from .pagetext import page_text
from .quantities import count, size
from .reply import Reply, TextPart
from .sandbox import Sandbox
from .toolspec import ToolSpec, text_reply
from .visuals import picture_parts

_LISTED_MAX_FILES = 200
_LINES_MAX = 10**12
_OWN_CHARS = 200
_SHOWN_MAX_CHARS = 160
_HEAD_BYTES = 8192
_BINARY_HEAD_BYTES = 64


def _without_nul(path: str) -> str:
    position = path.find("\0")
    if position >= 0:
        raise ValueError(
            f"holds a NUL at character {position + 1}, which no file name has"
        )
    return path


Path = Annotated[str, AfterValidator(_without_nul)]


class _Arguments(BaseModel):
    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


class ReadFile(_Arguments):
    """Arguments of `read_file`."""

    path: Path
    """The file, relative to the workspace or below /workspace."""
    offset: int | None = Field(default=None, ge=1, le=_LINES_MAX)
    """The first line to read, counted from 1; the start of the file when null."""
    limit: int | None = Field(default=None, ge=1, le=_LINES_MAX)
    """How many lines to read; as many as fit one reply when null."""


class WriteFile(_Arguments):
    """Arguments of `write_file`."""

    path: Path
    """The file, relative to the workspace; directories above it are made."""
    content: str
    """All that the file shall hold, stored as UTF-8 exactly as given."""


class ListFiles(_Arguments):
    """Arguments of `list_files`."""

    path: Path | None = None
    """The directory to list with all below it; the whole workspace when null."""


def _read(sandbox: Sandbox, arguments: ReadFile, call_id: str | None) -> Reply:
    budget = sandbox.config.budget
    with sandbox.workspace.open_file(arguments.path) as file:
        total_bytes = os.fstat(file.fileno()).st_size
        head = file.read(_HEAD_BYTES)
        file.seek(0)
        shown = _shown(arguments.path)
        parts = picture_parts(file, head, total_bytes, shown, budget)
        if parts is None and b"\0" in head:
            parts = (TextPart(_described(head, total_bytes, shown)),)
        if parts is None:
            text = page_text(
                file,
                shown,
                first=arguments.offset or 1,
                count=arguments.limit,
                max_chars=budget.text_chars,
            )
            parts = (TextPart(text),)
    return Reply(name="read_file", parts=parts, call_id=call_id)


def _described(head: bytes, total_bytes: int, shown: str) -> str:
    first = head[:_BINARY_HEAD_BYTES].hex(" ")
    return (
        f"ok, {shown} is binary, {size(total_bytes)}; it is not shown as text\n"
        f"first bytes: {first}\n"
        "next: read it with code that knows its format."
    )


def _write(sandbox: Sandbox, arguments: WriteFile, call_id: str | None) -> Reply:
    content = arguments.content
    sandbox.workspace.write_file(arguments.path, content)
    written = count(len(content.encode()), "byte")
    lines = content.count("\n") + (not content.endswith("\n") and content != "")
    text = f"ok, wrote {_shown(arguments.path)}, {written}, {count(lines, 'line')}"
    return text_reply("write_file", text, call_id)


def _list(sandbox: Sandbox, arguments: ListFiles, call_id: str | None) -> Reply:
    path = arguments.path or ""
    files = sandbox.workspace.list_files(path, limit=_LISTED_MAX_FILES)
    rows = _rows(files, sandbox.config.budget.text_chars - _OWN_CHARS)
    least = "" if files.complete else "at least "
    head = f"ok, {least}{count(files.total, 'file')}"
    if path:
        head += f" in {_shown(path)}"
    if not rows:
        return text_reply("list_files", head, call_id)
    lines = [head, "bytes and path:", fenced("\n".join(rows))]
    if len(rows) < files.total:
        lines[0] += f", the first {len(rows):,} by name"
        lines.append("next: list one directory of it, or search it with code.")
    return text_reply("list_files", "\n".join(lines), call_id)


def _rows(files: Files, room: int) -> list[str]:
    rows: list[str] = []
    for file in files:
        row = f"{file.size:>12,}  {shown_name(file.path)}"
        room -= len(row) + 1
        if room < 0:
            break
        rows.append(row)
    return rows


def _shown(path: str) -> str:
    shown = shown_name(path)
    if len(shown) <= _SHOWN_MAX_CHARS:
        return shown
    half = _SHOWN_MAX_CHARS // 2
    return f"{shown[:half]}...{shown[-half:]}"


_Do = Callable[[Sandbox, Any, str | None], Reply]


def _spec(
    name: str, arguments: type[BaseModel], do: _Do, *, in_thread: bool = True
) -> ToolSpec:
    def run(sandbox: Sandbox, given: Any, call_id: str | None) -> Reply:
        try:
            return do(sandbox, given, call_id)
        except WorkspaceError as error:
            said = str(error)
            text = f"error: {error.code}. {said[0].upper()}{said[1:]}."
            return text_reply(name, escape_line(text), call_id, error=error.code)

    async def arun(sandbox: Sandbox, given: Any, call_id: str | None) -> Reply:
        if in_thread:
            return await asyncio.to_thread(run, sandbox, given, call_id)
        return run(sandbox, given, call_id)

    return ToolSpec(name=name, arguments=arguments, run=run, arun=arun)


READ_FILE = _spec("read_file", ReadFile, _read)
# A thread would go on writing after its call was cancelled.
WRITE_FILE = _spec("write_file", WriteFile, _write, in_thread=False)
LIST_FILES = _spec("list_files", ListFiles, _list)
