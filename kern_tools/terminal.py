"""A run on a terminal, printed line by line while it goes on; plain text elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import StringIO

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from .ansi import Style, spans
from .escaping import escape, escape_line
from .events import OutputEvent
from .loop_events import LoopEvent, TextPiece
from .markup import SVG
from .picture import PictureError, decode
from .quantities import count
from .run_record import Called, Ended, Entry, Said
from .run_view import CODE, Block, CallView, Drawn, ending, view_of

_THEME = "ansi_dark"
"""Made of the terminal's own colours, so that it is legible on any."""
_INDENT = "  "
_BARS = {"stdout": "", "stderr": "err", "reply": ""}
_STATES = {"running": "dim", "ok": "green", "failed": "yellow", "fault": "red"}


@dataclass(slots=True)
class _Heard:
    """What was printed of a call's streams so far.

    Attributes:
        chars: How many characters came, by stream.
        rest: The line of each that has no end yet.
        is_whole: Nothing was lost on the way.
    """

    chars: dict[str, int] = field(default_factory=dict[str, int])
    rest: dict[str, str] = field(default_factory=dict[str, str])
    is_whole: bool = True


class TerminalDisplay:
    """Prints entries as they come, each line once.

    What code wrote stands behind a bar, and what a model wrote is set in, so that
    neither can pass for a line of ours.

    Args:
        screen: Where to print; by default stdout.
        code: Print what is run, too.
    """

    def __init__(self, screen: Console | None = None, *, code: bool = True) -> None:
        self._screen = screen or Console(highlight=False)
        self._code = code
        self._heard: dict[Called, _Heard] = {}
        self._speech: Said | None = None
        self._is_inside_line = False

    def show(self, entry: Entry, event: LoopEvent | None = None) -> None:
        """Print what is new of an entry.

        Args:
            entry: What was added or has changed.
            event: What changed it; None where all of it is to be printed.
        """
        match entry:
            case Said():
                self._said(entry, event)
            case Called():
                self._called(entry, event)
            case Ended():
                self._line(ending(entry), "dim")

    def _line(self, text: str | Text, style: str = "") -> None:
        if self._is_inside_line:
            self._screen.print()
            self._is_inside_line = False
        shown = Text(text, style) if isinstance(text, str) else text
        self._screen.print(shown, soft_wrap=True)

    def _said(self, entry: Said, event: LoopEvent | None) -> None:
        if entry is not self._speech:
            self._speech = entry
            self._line(f"turn {entry.turn}", "dim")
        said = event.text if isinstance(event, TextPiece) else entry.text
        if said:
            start = "" if self._is_inside_line else _INDENT
            text = start + escape(said).replace("\n", f"\n{_INDENT}")
            self._screen.print(Text(text), end="", soft_wrap=True)
            self._is_inside_line = True

    def _called(self, entry: Called, event: LoopEvent | None) -> None:
        if entry not in self._heard:
            self._heard[entry] = _Heard()
            self._begin(view_of(entry))
        if isinstance(event, OutputEvent):
            self._hear(entry, event)
        elif entry.reply is not None:
            self._end(entry)
        elif event is None:
            for block in view_of(entry).streams:
                self._bars(entry, block.name, block.text.removesuffix("\n"))

    def _begin(self, view: CallView) -> None:
        options = f" {view.options}" if view.options else ""
        self._line(Text.assemble("> ", (view.tool, "bold"), options))
        syntax = Syntax("", view.language, theme=_THEME)
        for block in view.wrote if self._code else ():
            text = escape(block.text)
            code = syntax.highlight(text) if block.name in CODE else Text(text)
            code.rstrip()
            for line in code.split("\n", allow_blank=True):
                self._line(Text.assemble(_INDENT, line))

    def _hear(self, entry: Called, event: OutputEvent) -> None:
        heard, name = self._heard[entry], event.stream
        if event.dropped_bytes:
            heard.is_whole = False
            lost = count(event.dropped_bytes, "byte")
            self._bars(entry, name, f"[{lost} came too fast to be shown]")
        heard.chars[name] = heard.chars.get(name, 0) + len(event.text)
        *lines, heard.rest[name] = (heard.rest.get(name, "") + event.text).split("\n")
        if lines:
            self._bars(entry, name, "\n".join(lines))

    def _bars(self, entry: Called, name: str, text: str) -> None:
        """Print text of a call behind a bar that tells what it is, line by line."""
        shown = Text()
        for span in spans(text):
            shown.append(span.text, _style(span.style))
        whose = f"{escape_line(entry.call_id)} " if len(self._heard) > 1 else ""
        bar = f"{whose}{_BARS.get(name, name)}| "
        for line in shown.split("\n", allow_blank=True):
            self._line(Text.assemble((bar, "red" if name == "stderr" else "dim"), line))

    def _end(self, entry: Called) -> None:
        view = view_of(entry)
        for block in _unheard(entry, self._heard[entry], view):
            self._bars(entry, block.name, block.text.removesuffix("\n"))
        for value in view.values:
            if isinstance(value, Drawn):
                self._line(f"image: {_extent(value)}")
            else:
                self._bars(entry, value.name, value.text.removesuffix("\n"))
        verdict = Text.assemble("= ", (view.verdict, f"bold {_STATES[view.state]}"))
        self._line(verdict.append(f"  {view.took}", "dim"))
        for line in view.remarks:
            self._line(line)
        del self._heard[entry]


def plain_text(entries: Iterable[Entry], title: str = "") -> str:
    """Give entries as text without colours, as a terminal shows them."""
    screen = Console(file=StringIO(), highlight=False, color_system=None)
    display = TerminalDisplay(screen)
    with screen.capture() as captured:
        if title:
            screen.print(Text(escape_line(title)), soft_wrap=True)
        for entry in entries:
            display.show(entry)
    return captured.get()


def _unheard(entry: Called, heard: _Heard, view: CallView) -> Iterator[Block]:
    """Give what was not printed while it was written."""
    result = None if entry.reply is None else entry.reply.result
    for block in view.streams:
        chars = heard.chars.get(block.name)
        if chars is None:
            yield block
            continue
        rest = heard.rest[block.name]
        if heard.is_whole and result is not None:
            whole = result.stdout if block.name == "stdout" else result.code_stderr
            rest += whole[chars:]
        if rest:
            yield Block(block.name, rest)


def _extent(value: Drawn) -> str:
    """Say what an image is, as its bytes have it."""
    if value.mime == SVG:
        return SVG
    try:
        picture = decode(value.mime, value.data)
    except PictureError as problem:
        return f"{escape_line(value.mime)}, {problem}"
    return f"{picture.mime} {picture.width_px}x{picture.height_px}"


def _style(style: Style) -> str:
    words = [name for name in ("bold", "italic", "underline") if getattr(style, name)]
    if style.colour is not None:
        words.append(f"bright_{style.colour}" if style.bright else style.colour)
    return " ".join(words)
