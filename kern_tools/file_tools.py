"""The tools that read, write and list files of the workspace."""

from __future__ import annotations

import os
from typing import BinaryIO

from pydantic import Field

from .config import Budget
from .excerpt import fenced, fitting
from .filespec import (
    FilePath,
    file_tool,
    only_writer,
    shown_path,
)
from .names import shown_name
from .pages import page_text
from .picture import PictureError, inspect, mime_of
from .quantities import count, size
from .reply import ImagePart, Part, Reply, TextPart
from .reply_text import text_reply
from .sandbox import Sandbox
from .saying import room_left
from .toolspec import Arguments

_LISTED_MAX_FILES = 200
_LINES_MAX = 10**12
_OWN_CHARS = 200
_HEAD_BYTES = 8192
_BINARY_HEAD_BYTES = 64


class ReadFile(Arguments):
    """Arguments of `read_file`."""

    path: FilePath
    """The file, relative to the workspace or below /workspace."""
    offset: int | None = Field(default=None, ge=1, le=_LINES_MAX)
    """The first line to read, counted from 1; the start of the file when null."""
    limit: int | None = Field(default=None, ge=1, le=_LINES_MAX)
    """How many lines to read; as many as fit one reply when null."""


class WriteFile(Arguments):
    """Arguments of `write_file`."""

    path: FilePath
    """The file, relative to the workspace; directories above it are made."""
    content: str
    """All that the file shall hold, stored as UTF-8 exactly as given."""


class ListFiles(Arguments):
    """Arguments of `list_files`."""

    path: FilePath | None = None
    """The directory to list with all below it; the whole workspace when null."""


def _read(sandbox: Sandbox, arguments: ReadFile, call_id: str | None) -> Reply:
    budget = room_left(sandbox.config.budget)
    with sandbox.workspace.open_file(arguments.path) as file:
        total_bytes = file.seek(0, os.SEEK_END)
        file.seek(0)
        head = file.read(_HEAD_BYTES)
        file.seek(0)
        shown = shown_path(arguments.path)
        parts: tuple[Part, ...]
        if (mime := mime_of(head)) is not None:
            parts = _picture(file, mime, total_bytes, shown, budget)
        elif b"\0" in head:
            parts = (TextPart(_described(head, total_bytes, shown)),)
        else:
            text = page_text(
                file,
                shown,
                first=arguments.offset or 1,
                count=arguments.limit,
                max_chars=budget.text_chars,
            )
            parts = (TextPart(text),)
    return Reply(name="read_file", parts=parts, call_id=call_id)


def _picture(
    file: BinaryIO, mime: str, total_bytes: int, shown: str, budget: Budget
) -> tuple[Part, ...]:
    """Give text and image; text alone where it is broken or over the budget."""
    if budget.images == 0 or total_bytes > budget.image_bytes:
        most = size(budget.image_bytes)
        why = f"over {most}" if budget.images else "this sandbox shows no images"
        text = f"ok, {shown} is {mime} of {size(total_bytes)}; not shown: {why}"
        return (TextPart(text),)
    try:
        picture = inspect(mime, file.read(budget.image_bytes))
    except PictureError as error:
        return (TextPart(f"ok, {shown} begins as {mime} but is not shown: {error}"),)
    extent = f"{picture.width_px}x{picture.height_px}"
    text = f"ok, image 1: {mime} {extent}, saved as {shown}"
    return TextPart(text), ImagePart(mime, picture.data)


def _described(head: bytes, total_bytes: int, shown: str) -> str:
    first = head[:_BINARY_HEAD_BYTES].hex(" ")
    return (
        f"ok, {shown} is binary, {size(total_bytes)}; it is not shown as text\n"
        f"first bytes: {first}\n"
        "next: read it with code that knows its format."
    )


def _write(sandbox: Sandbox, arguments: WriteFile, call_id: str | None) -> Reply:
    content = arguments.content
    with only_writer(sandbox.workspace):
        sandbox.workspace.write_file(arguments.path, content)
    written = count(len(content.encode()), "byte")
    lines = content.count("\n") + (not content.endswith("\n") and content != "")
    text = f"ok, wrote {shown_path(arguments.path)}, {written}, {count(lines, 'line')}"
    return text_reply("write_file", text, call_id)


def _list(sandbox: Sandbox, arguments: ListFiles, call_id: str | None) -> Reply:
    path = arguments.path or ""
    files = sandbox.workspace.list_files(path, limit=_LISTED_MAX_FILES)
    named = (f"{file.size:>12,}  {shown_name(file.path)}" for file in files)
    rows = fitting(named, room_left(sandbox.config.budget).text_chars - _OWN_CHARS)
    least = "" if files.complete else "at least "
    head = f"ok, {least}{count(files.total, 'file')}"
    if path:
        head += f" in {shown_path(path)}"
    if not rows:
        return text_reply("list_files", head, call_id)
    lines = [head, "bytes and path:", fenced("\n".join(rows))]
    if len(rows) < files.total:
        lines[0] += f", the first {len(rows):,} by name"
        lines.append("next: list one directory of it, or search it with code.")
    return text_reply("list_files", "\n".join(lines), call_id)


READ_FILE = file_tool("read_file", ReadFile, _read)
WRITE_FILE = file_tool("write_file", WriteFile, _write, in_thread=False)
LIST_FILES = file_tool("list_files", ListFiles, _list)
