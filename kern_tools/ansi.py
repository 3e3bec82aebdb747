r"""The colours that a program gave its output, as data; nothing else that steers.

Of the terminal's commands only those for colour and weight mean anything here, and only
where they cannot hide text: no background, no concealment, no colour but the eight
named ones and their bright twins. The text itself is made safe by `escaping.escape`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from .escaping import escape

# Source: ECMA-48, 5th edition, 8.3.117, "select graphic rendition".
_GRAPHIC = re.compile(r"(?:\x1b\[|\x9b)([0-9;]{0,64})m")

COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_OF_PALETTE, _OF_CUBE = 5, 2


@dataclass(frozen=True, slots=True)
class Style:
    """How a span looks.

    Attributes:
        colour: One of `COLOURS`, or None for the usual one.
        bright: The brighter twin of that colour.
        bold: Heavier letters.
        italic: Slanted letters.
        underline: A line below.
    """

    colour: str | None = None
    bright: bool = False
    bold: bool = False
    italic: bool = False
    underline: bool = False


PLAIN = Style()

_SWITCHES: dict[int, dict[str, Any]] = {
    1: {"bold": True},
    3: {"italic": True},
    4: {"underline": True},
    22: {"bold": False},
    23: {"italic": False},
    24: {"underline": False},
}


@dataclass(frozen=True, slots=True)
class Span:
    """Text of one style, safe to show."""

    text: str
    style: Style = PLAIN


def spans(text: str, style: Style = PLAIN) -> Iterator[Span]:
    """Split text at its changes of style, in time linear in its length.

    Args:
        text: What a program wrote.
        style: How its first letter looks.

    Yields:
        The parts in order, none empty; joined they hold no control character but
        newlines and tabs.
    """
    start = 0
    for command in _GRAPHIC.finditer(text):
        if safe := escape(text[start : command.start()]):
            yield Span(safe, style)
        style = _changed(style, command[1])
        start = command.end()
    if safe := escape(text[start:]):
        yield Span(safe, style)


def _changed(style: Style, parameters: str) -> Style:
    numbers = [int(number or 0) for number in parameters.split(";")]
    while numbers:
        number = numbers.pop(0)
        if number in (38, 48):  # more numbers follow: 5 and one, or 2 and three
            kind, *of_kind = [*numbers, 0, 0][:2]
            del numbers[: 4 if kind == _OF_CUBE else 2]
            if number == 38:
                style = _coloured(style, *(of_kind if kind == _OF_PALETTE else ()))
        else:
            style = _switched(style, number)
    return style


def _coloured(style: Style, number: int = -1) -> Style:
    if 0 <= number < 16:
        return replace(style, colour=COLOURS[number % 8], bright=number >= 8)
    return replace(style, colour=None, bright=False)


def _switched(style: Style, number: int) -> Style:
    if number == 0:
        return PLAIN
    if number in _SWITCHES:
        return replace(style, **_SWITCHES[number])
    for first, shift in ((30, 0), (90, 8)):
        if first <= number < first + 8:
            return _coloured(style, number - first + shift)
    return _coloured(style) if number == 39 else style
