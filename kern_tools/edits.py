"""One exact replacement in the bytes of a file, and the lines that it changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

CONTEXT_LINES = 2
SPOTS_MAX = 100
"""Places whose lines are told; all are replaced."""


class NotFound(Exception):
    """The text to replace is nowhere in the file."""


class Ambiguous(Exception):
    """The text to replace is there more than once, and one place was meant.

    Attributes:
        count: How often it is there.
        lines: The lines where the first ones begin, from 1.
    """

    def __init__(self, count: int, lines: tuple[int, ...]) -> None:
        super().__init__(count)
        self.count = count
        self.lines = lines


class TooLarge(Exception):
    """The file would become larger than is written."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines of the old and the new file around some changes.

    Attributes:
        old_line: Where it begins in the old file, from 1.
        new_line: Where it begins in the new one.
        rows: `-` for an old line, `+` for a new one, a space for one of both; then the
            line, with its line feed where it has one.
    """

    old_line: int
    new_line: int
    rows: tuple[tuple[str, bytes], ...]

    def lines_of(self, mark: str) -> int:
        """Count the lines of the old file (`-`) or of the new one (`+`)."""
        return sum(1 for each, _ in self.rows if each in (" ", mark))


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement that was found to be possible.

    Attributes:
        content: The new bytes of the file.
        count: How many places were replaced.
        lines: The lines where the first ones began, from 1.
        hunks: The lines that these changed.
    """

    content: bytes
    count: int
    lines: tuple[int, ...]
    hunks: tuple[Hunk, ...]


def edit(
    data: bytes, old: bytes, new: bytes, *, everywhere: bool, max_bytes: int
) -> Edit:
    """Replace `old` by `new`; no other byte changes.

    Args:
        data: The file.
        old: What to replace, not empty.
        new: What to put there.
        everywhere: Replace every place, from the start on; else there has to be one.
        max_bytes: The largest file to make.

    Raises:
        NotFound: `old` is not there.
        Ambiguous: It is there more than once, overlapping places counted.
        TooLarge: The result would be larger than `max_bytes`.
    """
    count = data.count(old)
    if count == 0:
        raise NotFound
    if not everywhere:
        places = list(_spots(data, old, step=1))
        if len(places) > 1:
            raise Ambiguous(max(count, len(places)), _lines_at(data, places))
    if len(data) + count * (len(new) - len(old)) > max_bytes:
        raise TooLarge
    content = data.replace(old, new)
    spots = list(_spots(data, old, step=len(old)))
    hunks = tuple(_hunks(data, spots, old, new))
    return Edit(content, count, _lines_at(data, spots), hunks)


def _spots(data: bytes, old: bytes, *, step: int) -> Iterator[int]:
    found = data.find(old)
    for _ in range(SPOTS_MAX):
        if found < 0:
            return
        yield found
        found = data.find(old, found + step)


def _lines_at(data: bytes, spots: list[int]) -> tuple[int, ...]:
    lines: list[int] = []
    line, seen = 1, 0
    for spot in spots:
        line += data.count(b"\n", seen, spot)
        seen = spot
        lines.append(line)
    return tuple(lines)


@dataclass(frozen=True, slots=True)
class _Change:
    """Whole lines, from offset `start` to `end`, that become others."""

    start: int
    end: int
    before: list[bytes]
    after: list[bytes]


def _hunks(data: bytes, spots: list[int], old: bytes, new: bytes) -> Iterator[Hunk]:
    length = len(old)
    untold = data.find(old, spots[-1] + length) if len(spots) == SPOTS_MAX else -1
    grown = 0
    for group in _groups(data, _changes(data, spots, length, new)):
        begin, stop = _back(data, group[0].start), _on(data, group[-1].end)
        if 0 <= untold < stop:
            return
        line = data.count(b"\n", 0, begin) + 1
        rows = tuple(_rows(data, begin, stop, group))
        yield Hunk(line, line + grown, rows)
        grown += sum(len(each.after) - len(each.before) for each in group)


def _changes(
    data: bytes, spots: list[int], length: int, new: bytes
) -> Iterator[_Change]:
    """Give the lines that each place is in; places that share a line are one change."""
    at = 0
    while at < len(spots):
        start = data.rfind(b"\n", 0, spots[at]) + 1
        pieces, seen = list[bytes](), start
        end = start
        while at < len(spots) and (seen == start or spots[at] < end):
            pieces += [data[seen : spots[at]], new]
            seen = spots[at] + length
            end = (data.find(b"\n", seen) + 1) or len(data)
            at += 1
        after = _split(b"".join([*pieces, data[seen:end]]))
        yield _trimmed(start, end, _split(data[start:end]), after)


def _trimmed(start: int, end: int, before: list[bytes], after: list[bytes]) -> _Change:
    """Leave out the lines that stay, at both ends."""
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    rest = shorter - head
    tail = next((n for n in range(rest) if before[-1 - n] != after[-1 - n]), rest)
    until = len(before) - tail
    return _Change(
        start + sum(map(len, before[:head])),
        end - sum(map(len, before[until:])),
        before[head:until],
        after[head : len(after) - tail],
    )


def _groups(data: bytes, changes: Iterator[_Change]) -> Iterator[list[_Change]]:
    """Put changes together whose surroundings meet; there is at least one."""
    group = [next(changes)]
    for change in changes:
        between = data.count(b"\n", group[-1].end, change.start)
        if between > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(change)
    yield group


def _rows(
    data: bytes, begin: int, stop: int, group: list[_Change]
) -> Iterator[tuple[str, bytes]]:
    for change in group:
        yield from ((" ", line) for line in _split(data[begin : change.start]))
        yield from (("-", line) for line in change.before)
        yield from (("+", line) for line in change.after)
        begin = change.end
    yield from ((" ", line) for line in _split(data[begin:stop]))


def _back(data: bytes, start: int) -> int:
    for _ in range(CONTEXT_LINES):
        if start > 0:
            start = data.rfind(b"\n", 0, start - 1) + 1
    return start


def _on(data: bytes, end: int) -> int:
    for _ in range(CONTEXT_LINES):
        end = (data.find(b"\n", end) + 1) or len(data)
    return end


def _split(data: bytes) -> list[bytes]:
    *lines, last = data.split(b"\n")
    return [line + b"\n" for line in lines] + ([last] if last else [])
