r"""A reader of replies that knows nothing but how they are laid out.

It is the tests' oracle: it takes the text that a model reads and gives back who ended
the run and what the code wrote, or refuses the text. It imports nothing of the project,
so that a mistake there cannot be repeated here. What it knows:

    verdict                       always the first line
    note: ...                     any number
    no output ...                 only where nothing stands in fences
    name (what is shown of it):   stderr, stdout, value, value 7
    fence, text, the same fence   once, or twice around `[N characters left out]`
    image, value, files, next     lines of ours again, in this order
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

_SIGNAL = r"(?: \((?P<signal>SIG[A-Z0-9+-]+|signal \d+)\))?"
_NEAR = r"(?:, took (?P<taken>[\d,.]+) s of (?P<limit>[\d,.]+) s)?"
_OK = re.compile(rf"ok{_NEAR}")
_EXIT = re.compile(rf"exit (?P<code>-?\d+){_SIGNAL}{_NEAR}")
_FAULT = re.compile(r"fault: (?P<type>\w+)\.(?: (?P<said>.+))?")
_HEADING = re.compile(
    r"(?P<name>stderr|stdout|value(?: \d+)?)(?: \((?P<about>[^()]*)\))?:"
)
_ORIGIN = re.compile(r"first (?P<kept>[\d,.]+ \w+) of (?P<written>[\d,.]+ \w+)")
_CUT = re.compile(
    r"(?P<shown>[\d,]+) of (?P<all>[\d,]+) characters?"
    r"(?:, all of it in (?P<path>\S.*))?"
)
_LEFT_OUT = re.compile(r"\[(?P<count>[\d,]+) characters? left out\]")
_FENCE = re.compile(r"`{3,}|~{3,}")
_NO_OUTPUT = ("no output", "no output: print what you need to see")
_LATER = tuple(
    re.compile(pattern)
    for pattern in (
        r"image \d+: .+",
        r"[\d,]+ images? left out: a reply carries at most .+",
        r"value left out: .*",
        r"[\d,]+ more values? left out",
        r"files: .+",
        r"next: .+",
    )
)
_PLAIN = r"[\w.+@%=/-]+(?: [\w.+@%=/-]+)*"
_ROW_END = r" \((?P<size>[\d,]+) bytes?, (?P<change>created|modified)\)(?:, |\Z)"
_NAMES = tuple(
    re.compile(f"(?P<name>{name}){_ROW_END}")
    for name in (
        _PLAIN,
        r'"[^"]*"',
        r"'[^']*'",
        r"`[^`]*`",
        r'"(?:[^"\\]|\\.)*"',
    )
)
_MORE = re.compile(r"[\d,]+ more")
_COUNT = re.compile(r"[\d,]+ files?")

Row = tuple[str, int, str]
"""Path, bytes and change of a file."""


class Unreadable(ValueError):
    """The text is no reply: a line of it stands where no such line may stand."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who ended the run, as the first line says it.

    Attributes:
        kind: How it ended.
        fault: The fault's type.
        exit_code: The code's own exit code; None where a fault ended it.
        signal: The name of the signal that ended the code by itself.
        said: The words after a fault's type.
    """

    kind: Literal["ok", "exit", "fault"]
    fault: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    said: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """What stands in fences under one heading.

    Attributes:
        pieces: All of it, or head and tail, or nothing where not even a head fits.
        characters: How many there are in all; None where nothing was cut.
        left_out: How many of them are not shown.
        origin: The bytes that were kept and written, in words, where some were dropped.
        kept_in: Where all of it can be read.
    """

    pieces: tuple[str, ...]
    characters: int | None = None
    left_out: int = 0
    origin: tuple[str, str] | None = None
    kept_in: str | None = None

    @property
    def is_whole(self) -> bool:
        """Nothing is missing."""
        return self.characters is None


@dataclass(slots=True)
class Reading:
    """A reply, taken apart again."""

    verdict: Verdict
    notes: list[str] = field(default_factory=list[str])
    shown: dict[str, Shown] = field(default_factory=dict[str, Shown])
    lines: list[str] = field(default_factory=list[str])
    is_silent: bool = False

    def stream(self, name: str) -> str:
        """Give a stream of which all is shown; empty where the reply has none."""
        if name not in self.shown:
            return ""
        (text,) = self.shown[name].pieces
        assert self.shown[name].is_whole
        return text

    def line(self, start: str) -> str | None:
        """Give what stands behind the start of the only line that has it."""
        found = [line for line in self.lines if line.startswith(start)]
        assert len(found) <= 1
        return found[0].removeprefix(start) if found else None

    def files(self) -> list[Row]:
        """Give the files that are named."""
        said = self.line("files: ")
        return [] if said is None else files_in(said)


def read_reply(text: str) -> Reading:
    """Take a reply of a tool that runs code apart.

    Args:
        text: All that the model reads.

    Returns:
        Its parts.

    Raises:
        Unreadable: It is no such reply.
    """
    if text.splitlines() != text.split("\n"):
        raise Unreadable("it has line breaks of more than one kind")
    first, *rest = text.split("\n")
    reading = Reading(_verdict(first))
    lines = _Lines(rest)
    _read_notes(lines, reading)
    _read_passages(lines, reading)
    _read_later(lines, reading)
    return reading


class _Lines:
    """Lines, of which the next one can be looked at."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    @property
    def next(self) -> str | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def take(self) -> str:
        line = self.next
        if line is None:
            raise Unreadable("it ends in the middle")
        self._at += 1
        return line

    def until(self, end: str) -> Iterator[str]:
        while (line := self.take()) != end:
            yield line


def _verdict(line: str) -> Verdict:
    if _OK.fullmatch(line):
        return Verdict("ok", exit_code=0)
    if found := _EXIT.fullmatch(line):
        return Verdict("exit", exit_code=int(found["code"]), signal=found["signal"])
    if found := _FAULT.fullmatch(line):
        return Verdict("fault", fault=found["type"], said=found["said"] or "")
    raise Unreadable(f"no verdict: {line[:80]!r}")


def _read_notes(lines: _Lines, reading: Reading) -> None:
    while lines.next is not None and lines.next.startswith("note: "):
        reading.notes.append(lines.take().removeprefix("note: "))
    if lines.next in _NO_OUTPUT:
        lines.take()
        reading.is_silent = True


def _read_passages(lines: _Lines, reading: Reading) -> None:
    while lines.next is not None and (heading := _HEADING.fullmatch(lines.next)):
        lines.take()
        if heading["name"] in reading.shown or reading.is_silent:
            raise Unreadable(f"{heading['name']} stands where it must not")
        reading.shown[heading["name"]] = _shown(lines, heading["about"])


def _shown(lines: _Lines, about: str | None) -> Shown:
    origin, _, cut = (about or "").rpartition("; ")
    if about and not origin and _ORIGIN.fullmatch(about):
        origin, cut = about, ""
    first_of = _ORIGIN.fullmatch(origin)
    if origin and not first_of:
        raise Unreadable(f"no origin: {origin!r}")
    kept = (first_of["kept"], first_of["written"]) if first_of else None
    if not cut:
        return Shown((_fenced(lines),), origin=kept)
    return _excerpt(lines, cut, kept)


def _excerpt(lines: _Lines, cut: str, origin: tuple[str, str] | None) -> Shown:
    counts = _CUT.fullmatch(cut)
    if not counts:
        raise Unreadable(f"nothing that counts: {cut!r}")
    shown, characters = _number(counts["shown"]), _number(counts["all"])
    left_out, pieces = characters - shown, tuple[str, ...]()
    if shown:
        head, between = _fenced(lines), _LEFT_OUT.fullmatch(lines.take())
        if not between or _number(between["count"]) != left_out:
            raise Unreadable("what is left out is not what is missing")
        tail = [_fenced(lines)] if _FENCE.fullmatch(lines.next or "") else []
        pieces = (head, *tail)
    return Shown(pieces, characters, left_out, origin, counts["path"])


def _fenced(lines: _Lines) -> str:
    fence = lines.take()
    if not _FENCE.fullmatch(fence):
        raise Unreadable(f"no fence: {fence[:80]!r}")
    return "".join(f"{line}\n" for line in lines.until(fence))


def _read_later(lines: _Lines, reading: Reading) -> None:
    place = 0
    while lines.next is not None:
        line = lines.take()
        kinds = [n for n, kind in enumerate(_LATER) if kind.fullmatch(line)]
        if not kinds or kinds[0] < place:
            raise Unreadable(f"a line that is not ours: {line[:80]!r}")
        place = kinds[0]
        reading.lines.append(line)


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def files_in(said: str) -> list[Row]:
    """Read a list of files in the only way in which it can be read.

    Args:
        said: What stands behind `files: `.

    Raises:
        Unreadable: There is no way, or more than one.
    """
    ways = list(_ways(said, 0))
    if len(ways) != 1:
        raise Unreadable(f"{len(ways)} ways to read the files: {said[:200]!r}")
    return ways[0]


def _ways(said: str, start: int) -> Iterator[list[Row]]:
    last = _COUNT if start == 0 else _MORE
    if start == len(said) or last.fullmatch(said, start):
        yield []
    for pattern in _NAMES:
        found = pattern.match(said, start)
        if found is None:
            continue
        name = _name(found["name"], is_json=pattern is _NAMES[-1])
        if name is None:
            continue
        row = (name, _number(found["size"]), found["change"])
        for rest in _ways(said, found.end()):
            yield [row, *rest]


def _name(written: str, *, is_json: bool) -> str | None:
    """Undo the quotes; JSON is only for names that hold every kind of them."""
    if not is_json:
        return written[1:-1] if written[0] in "\"'`" else written
    try:
        name = str(json.loads(written, strict=False))
    except ValueError:
        return None
    return name if all(mark in name for mark in "\"'`") else None
