"""Pages of a text file, read in one pass over a stream and never held whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

SCANNED_MAX_BYTES = 256 << 20
"""Lines further in are not counted; a sparse file has no end that is worth reading."""

_CHUNK_BYTES = 1 << 20


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
