"""The markdown fence around what a model wrote."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MARKS_MAX = 2_000
_MARK = r"^ {0,3}+(?P<mark>`{3,}+|~{3,}+)[ \t]*+"
_FENCE_LINE = re.compile(rf"{_MARK}(?P<info>[^\s`~]*+)[^`\n]*+$", re.MULTILINE)
_BARE_LINE = re.compile(rf"{_MARK}\r?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block, from the first fence line of a text to the last that closes it.

    Attributes:
        content: Everything between the two lines, byte for byte.
        info: The word after the opening marks, or the empty string.
        before: Text in front of the block, without outer blanks.
        after: Text behind the block, without outer blanks.
        closed: A closing line was found.
        several: The content has fence lines that could end or begin a block itself.
    """

    content: str
    info: str
    before: str
    after: str
    closed: bool
    several: bool

    @property
    def alone(self) -> bool:
        """Nothing but this one block is there."""
        return self.closed and not (self.several or self.before or self.after)


def find_fence(text: str) -> Fence | None:
    """Find the fenced block that a text is, or holds.

    Args:
        text: What a model wrote.

    Returns:
        The block, or None where no line opens one, or far too many could.

    Source:
        https://spec.commonmark.org/0.31.2/#fenced-code-blocks
    """
    if not 0 < text.count("```") + text.count("~~~") <= _MARKS_MAX:
        return None
    opening = _FENCE_LINE.search(text)
    if opening is None:
        return None
    mark, start = opening["mark"], opening.end()
    closings = [
        line for line in _BARE_LINE.finditer(text, start) if _pairs(mark, line["mark"])
    ]
    end, rest = (
        (closings[-1].start(), closings[-1].end())
        if closings
        else (len(text), len(text))
    )
    content = text[start:end].removeprefix("\n")
    return Fence(
        content=content,
        info=opening["info"],
        before=text[: opening.start()].strip(),
        after=text[rest:].strip(),
        closed=bool(closings),
        several=any(
            _pairs(mark, line["mark"]) for line in _FENCE_LINE.finditer(content)
        ),
    )


def _pairs(opening: str, mark: str) -> bool:
    return mark[0] == opening[0] and len(mark) >= len(opening)
