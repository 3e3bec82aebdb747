"""Pages of a text file, in the words and fences that a model reads.

A file is read in one pass over a stream and never held whole.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import BinaryIO

from .escaping import escape
from .excerpt import fenced
from .quantities import count as counted
from .quantities import line_span

SCANNED_MAX_BYTES = 256 << 20
"""Lines further in are not counted; a sparse file has no end that is worth reading."""

_CHUNK_BYTES = 1 << 20
_OWN_CHARS = 500
"""Kept free for our own lines."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some lines of a file.

    Attributes:
        lines: Without their line feeds; the last one may be cut.
        total: How many lines the file has.
        exact: The file was read to its end, so that `total` is not a lower bound.
        cut: The last line goes on after what is here.
    """

    lines: tuple[bytes, ...]
    total: int
    exact: bool
    cut: bool


def read_page(
    stream: BinaryIO,
    first: int,
    count: int,
    *,
    max_bytes: int,
    scanned_max_bytes: int = SCANNED_MAX_BYTES,
) -> Page:
    """Read lines `first` to `first + count - 1`, and count all there are.

    Args:
        stream: Binary, at the start of the file.
        first: The first line wanted, 1 for the first of the file.
        count: How many lines at most.
        max_bytes: How much of them to keep at most.
        scanned_max_bytes: Where to stop looking for line feeds.

    Returns:
        The page; without lines where the file has fewer than `first`.
    """
    kept = bytearray()
    feeds = scanned = 0
    ended = True
    while chunk := stream.read(_CHUNK_BYTES):
        found = chunk.count(b"\n")
        start = first - 1 - feeds
        if start <= found and len(kept) <= max_bytes:
            kept += _wanted(chunk, start, start + count)
        feeds += found
        scanned += len(chunk)
        ended = chunk.endswith(b"\n")
        if scanned >= scanned_max_bytes:
            break
    exact = not stream.read(1) if scanned >= scanned_max_bytes else True
    cut = len(kept) > max_bytes
    lines = bytes(kept[:max_bytes]).split(b"\n") if kept else []
    if lines and not cut and kept.endswith(b"\n"):
        lines.pop()
    total = feeds if ended else feeds + 1
    return Page(tuple(lines), total, exact, cut)


def _wanted(chunk: bytes, start: int, stop: int) -> bytes:
    """Cut from `chunk` what stands after `start` line feeds, up to `stop` of them."""
    if stop <= 0:
        return b""
    if start > 0:
        chunk, stop = chunk.split(b"\n", start)[start], stop - start
    parts = chunk.split(b"\n", stop)
    return chunk if len(parts) <= stop else chunk[: len(chunk) - len(parts[-1])]


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
    head = f"ok, {line_span(first, last)} of {total} in {shown}"
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
