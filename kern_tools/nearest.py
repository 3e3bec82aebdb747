"""Where a text that is not in a file nearly is, and how the two differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

NEAREST_MAX_CHARS = 1 << 20
"""Nothing is looked for in larger files."""
_LINES_TRIED = 40


@dataclass(frozen=True, slots=True)
class Nearest:
    """Lines of a file that are like the text.

    Attributes:
        first: The first one, from 1.
        last: The last one.
        differs: How they differ, a clause; empty where no more than a line is alike.
        remedy: What to do, after `next:`.
    """

    first: int
    last: int
    differs: str
    remedy: str = "take `old` from there, character by character."


def nearest(text: str, old: str) -> Nearest | None:
    """Find what was probably meant, in time linear in the file.

    Args:
        text: The file.
        old: What is not in it.

    Returns:
        The place, or None where no line is like it.
    """
    if len(text) > NEAREST_MAX_CHARS:
        return None
    return next(filter(None, _ways(text, old)), None)


def _ways(text: str, old: str) -> Iterator[Nearest | None]:
    yield _other_line_ends(text, old)
    yield _same(text, old, _squeezed, "the same but for white space")
    yield _same(text, _unescaped(old), _squeezed, "the same once escapes are read")
    yield _same(text, old, _lowered, "the same but for upper and lower case")
    yield _one_line(text, old)


def _other_line_ends(text: str, old: str) -> Nearest | None:
    kind, end = ("CRLF", r"\r\n") if "\r\n" in text else ("LF", r"\n")
    remedy = f"write {end} where lines of `old` and `new` end."
    found = _place(text.replace("\r\n", "\n"), old.replace("\r\n", "\n"))
    return found and Nearest(*found, f"the same, but end in {kind}", remedy)


def _same(
    text: str, old: str, alike: Callable[[str], str], differs: str
) -> Nearest | None:
    """Find `old` after both were made alike, which keeps the number of lines."""
    needle = alike(old).strip("\n")
    found = _place(alike(text), needle) if needle.strip() else None
    return found and Nearest(*found, differs)


def _place(hay: str, needle: str) -> tuple[int, int] | None:
    at = hay.find(needle)
    if at < 0:
        return None
    first = hay.count("\n", 0, at) + 1
    return first, first + needle.rstrip("\n").count("\n")


def _squeezed(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))


def _lowered(text: str) -> str:
    return _squeezed(text).lower()


def _unescaped(text: str) -> str:
    for written, meant in ((r"\n", "\n"), (r"\t", "\t"), (r"\"", '"'), (r"\'", "'")):
        text = text.replace(written, meant)
    return text


def _one_line(text: str, old: str) -> Nearest | None:
    """Find the longest line of `old` that is in the file, and what is around it."""
    hay = f"\n{_squeezed(text)}\n"
    lines = _squeezed(old).split("\n")
    tried = enumerate(lines[:_LINES_TRIED])
    for index, line in sorted(tried, key=lambda each: -len(each[1])):
        at = hay.find(f"\n{line}\n") if line else -1
        if at >= 0:
            first = hay.count("\n", 0, at + 1) - index
            last = min(first + len(lines) - 1, text.count("\n") + 1)
            return Nearest(max(first, 1), last, "")
    return None
