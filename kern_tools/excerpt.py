"""Text of others inside text of ours: fences it cannot hold, and cuts that show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .quantities import count

_BACKTICKS = re.compile("`{3,}")
_TILDES = re.compile("~{3,}")
_LONG_FENCE = 8


def fence_for(text: str) -> str:
    """Choose a fence that does not occur in `text`."""
    backticks = _beyond(_BACKTICKS, "```", text)
    if backticks <= _LONG_FENCE:
        return "`" * backticks
    tildes = _beyond(_TILDES, "~~~", text)
    return "~" * tildes if tildes < backticks else "`" * backticks


def fenced(text: str, fence: str | None = None) -> str:
    """Put `text` between two fence lines; a missing final newline is added."""
    return "".join(_fenced(text, fence or fence_for(text)))


@dataclass(frozen=True, slots=True)
class Passage:
    """Something the code wrote, under a heading of ours.

    Attributes:
        name: `stderr`, `stdout`, `value` and the like.
        text: All of it, made safe to show.
        origin: What `text` is of what was written, where it is not all.
    """

    name: str
    text: str
    origin: str = ""

    def whole(self) -> str:
        """Give the heading and the text between fences."""
        return "".join(self.pieces())

    def pieces(self) -> tuple[str, ...]:
        """Give what `whole()` joins, to be joined with more: the text may be large."""
        heading = f"{self.name} ({self.origin})" if self.origin else self.name
        return f"{heading}:\n", *_fenced(self.text, fence_for(self.text))

    def need(self, room: int) -> int:
        """Give the length of `whole()`, or any number over `room` where it is more."""
        return len(self.whole()) if len(self.text) < room else len(self.text) + 1

    def within(self, room: int, kept_in: str | None = None) -> str | None:
        """Give as much of the head and the tail as `room` characters hold.

        Args:
            room: The characters there are, heading and fences included.
            kept_in: Where all of the text can be read.

        Returns:
            `whole()` where it fits, else head and tail with what is missing counted
            between them, or None where not even a heading fits.
        """
        if self.need(room) <= room:
            return self.whole()
        length = min(len(self.text), max(room, 0))
        while length > 0:
            head, tail = _ends(self.text, length)
            excerpt = self._cut(head, tail, kept_in)
            excess = len(excerpt) - room
            if excess <= 0:
                return excerpt
            # Fences grow with what they hold: going down by halves at most finds
            # the room that a shorter fence leaves.
            shown = len(head) + len(tail)
            length = max(shown - excess, shown // 2)
        heading = self._cut_heading(0, kept_in)
        return heading if len(heading) <= room else None

    def _cut(self, head: str, tail: str, kept_in: str | None) -> str:
        fence = fence_for(f"{head}\n{tail}")
        shown = len(head) + len(tail)
        left_out = count(len(self.text) - shown, "character")
        blocks = [
            self._cut_heading(shown, kept_in),
            fenced(head, fence),
            f"[{left_out} left out]",
            *([fenced(tail, fence)] if tail else []),
        ]
        return "\n".join(blocks)

    def _cut_heading(self, shown: int, kept_in: str | None) -> str:
        origin = f"{self.origin}; " if self.origin else ""
        where = f", all of it in {kept_in}" if kept_in else ""
        characters = count(len(self.text), "character")
        return f"{self.name} ({origin}{shown:,} of {characters}{where}):"


def arrange(
    passages: Sequence[Passage], room: int, kept_in: str | None = None
) -> list[str | None]:
    """Give each passage its share of `room`, newlines between them included.

    A passage takes what it needs as long as that is half of what is left, or as those
    after it leave room; so the first is heard whatever the others say.
    """
    needs = [passage.need(room) + 1 for passage in passages]
    shown: list[str | None] = []
    later = sum(needs)
    for passage, need in zip(passages, needs, strict=True):
        later -= need
        share = max(room // 2, room - later) if later else room
        block = passage.within(share - 1, kept_in)
        room -= len(block) + 1 if block else 0
        shown.append(block)
    return shown


def fits(passages: Sequence[Passage], room: int) -> bool:
    """Tell whether all passages fit uncut."""
    return sum(passage.need(room) + 1 for passage in passages) <= room


def fitting(rows: Iterable[str], room: int) -> list[str]:
    """Keep the first rows, as many as `room` characters hold with their newlines."""
    kept: list[str] = []
    for row in rows:
        room -= len(row) + 1
        if room < 0:
            break
        kept.append(row)
    return kept


def _fenced(text: str, fence: str) -> tuple[str, str, str]:
    newline = "" if text.endswith("\n") or not text else "\n"
    return f"{fence}\n", text, f"{newline}{fence}"


def _beyond(marks: re.Pattern[str], shortest: str, text: str) -> int:
    """Give a length over that of any run of marks that could be a fence."""
    if shortest not in text:
        return len(shortest)
    return max(map(len, marks.findall(text))) + 1


def _ends(text: str, length: int) -> tuple[str, str]:
    """Take head and tail of `length` characters at most, at line ends where near."""
    head = text[: length - length // 2]
    tail = text[len(text) - length // 2 :]
    end = head.rfind("\n") + 1
    start = tail.find("\n") + 1
    return (
        head[:end] if end > len(head) * 0.8 else head,
        tail[start:] if start < len(tail) * 0.2 else tail,
    )
