"""A page of a text file in the words and fences that a model reads."""

from __future__ import annotations

import codecs
from typing import BinaryIO

from .escaping import escape
from .excerpt import fenced
from .pages import Page, read_page
from .quantities import count as counted

_OWN_CHARS = 500
"""Kept free for our own lines."""


def page_text(
    stream: BinaryIO, shown: str, *, first: int, count: int | None, max_chars: int
) -> str:
    """Show lines of a text file, with where they stand and how to read on.

    Args:
        stream: Binary, at the start of the file.
        shown: The file's name, safe to show.
        first: The first line wanted, from 1.
        count: How many lines, or None for as many as fit.
        max_chars: How long the whole text may be.

    Returns:
        A verdict line; then, where there are such lines, what to know of them, the
        lines between fences, and what to do next.
    """
    room = max(max_chars - _OWN_CHARS, max_chars // 2)
    page = read_page(stream, first, min(count or room, room), max_bytes=4 * room)
    least = "" if page.exact else "at least "
    total = f"{least}{page.total:,}"
    if not page.lines:
        past = f"; line {first:,} is past its end" if page.total else ""
        return f"ok, {shown} has {least}{counted(page.total, 'line')}{past}"
    lines, cut = _fitting(page, room)
    last = first + len(lines) - 1
    head = f"ok, {_span(first, last)} of {total} in {shown}"
    body = "\n".join(lines) + ("" if cut else "\n")
    notes = _notes(page, last, body, cut)
    return "\n".join([head, *notes, fenced(body), *_next(last, page.total, cut)])


def _fitting(page: Page, room: int) -> tuple[list[str], bool]:
    """Give the lines that fit, and whether the one line there is was cut."""
    whole = page.lines[:-1] if page.cut and len(page.lines) > 1 else page.lines
    lines: list[str] = []
    for line in whole:
        text = _decoded(line)
        if lines and len(text) + 1 > room:
            break
        lines.append(text[:room])
        if len(text) > room:
            return lines, True
        room -= len(text) + 1
    return lines, page.cut and len(page.lines) == 1


def _decoded(line: bytes) -> str:
    # What ends in half a character was cut there by us.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return escape(decoder.decode(line.removesuffix(b"\r")))


def _span(first: int, last: int) -> str:
    return f"line {first:,}" if first == last else f"lines {first:,}-{last:,}"


def _next(last: int, total: int, cut: bool) -> list[str]:
    ways = ["print the rest of that line with code"] if cut else []
    ways += [f"read on with offset {last + 1}"] if last < total else []
    return [f"next: {', or '.join(ways)}."] if ways else []


def _notes(page: Page, last: int, body: str, cut: bool) -> list[str]:
    notes: list[str] = []
    if cut:
        kept = counted(len(body), "character")
        notes.append(f"note: line {last:,} is longer; its first {kept} are below.")
    if any(line.endswith(b"\r") for line in page.lines):
        notes.append("note: its lines end in CRLF.")
    if "\ufffd" in body and not any(b"\xef\xbf\xbd" in line for line in page.lines):
        notes.append("note: not all of it is UTF-8; bad bytes read \ufffd.")
    return notes
