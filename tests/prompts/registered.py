"""All claims, and how a text is read as claims."""

from __future__ import annotations

from collections.abc import Iterator

from .bounds import BOUNDS
from .box_claims import BOX
from .claim import Claim, Said, claims_in
from .fault_claims import FAULTS
from .file_claims import FILE_TOOLS
from .hint_claims import HINTS
from .place import PLACE
from .replies import REPLIES
from .tool_claims import TOOLS
from .work import WORK

CLAIMS: tuple[Claim, ...] = (
    *(*PLACE, *BOUNDS, *BOX, *WORK, *REPLIES),
    *(*TOOLS, *FILE_TOOLS, *FAULTS, *HINTS),
)
HEADINGS = ("What holds there:", "How to work:", "Replies:", "")


def lines_of(text: str) -> list[str]:
    """Take a text apart where no claim goes over the end of a line.

    The example is one piece; headings and the marks of lists are left out.
    """
    start = text.find("Example: ")
    text, example = (text, "") if start < 0 else (text[:start], text[start:])
    lines = [line.removeprefix("- ") for line in text.split("\n")]
    return [line for line in (*lines, example) if line not in HEADINGS]


def read(text: str) -> Iterator[tuple[Claim, Said]]:
    """Read a text as claims.

    Raises:
        Unclaimed: Words of it are neither a heading nor a claim.
    """
    for line in lines_of(text):
        yield from claims_in(line, CLAIMS)
