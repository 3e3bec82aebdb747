"""Colours that a program gave its output."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kern_tools.ansi import PLAIN, Span, Style, spans
from kern_tools.escaping import escape

STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
PIECES = [
    "\x1b[",
    "\x9b",
    "m",
    ";",
    "31",
    "38;5;1",
    "48;2;",
    "0",
    "text",
    "\x1b]8;;",
    "\x07",
]


@pytest.mark.parametrize(
    ("command", "style"),
    [
        ("31", Style(colour="red")),
        ("92", Style(colour="green", bright=True)),
        ("1;4", Style(bold=True, underline=True)),
        ("38;5;12;3", Style(colour="blue", bright=True, italic=True)),
        ("35;39", PLAIN),
        ("1;22", PLAIN),
        ("31;0", PLAIN),
        ("", PLAIN),
    ],
)
def test_colour_and_weight_are_kept(command: str, style: Style) -> None:
    """What a test runner or a compiler marks stays marked."""
    assert list(spans(f"\x1b[{command}mx")) == [Span("x", style)]


@pytest.mark.parametrize(
    "command",
    [
        "8",
        "7",
        "5",
        "40",
        "107",
        "38;2;255;255;255",
        "48;5;231",
        "38;5;231",
        "38",
        "99",
    ],
)
def test_no_style_hides_text(command: str) -> None:
    """Concealment, backgrounds and colours of one's own are not taken over."""
    assert list(spans(f"\x1b[{command}mx")) == [Span("x")]


def test_the_numbers_of_a_colour_are_no_commands_of_their_own() -> None:
    """38;2;1;4;8 is one colour: neither bold nor underlined."""
    assert list(spans("\x1b[48;2;1;4;3mx")) == [Span("x")]


def test_a_style_lasts_until_it_is_changed() -> None:
    """Each change begins a new span."""
    red, bold = Style(colour="red"), Style(colour="red", bold=True)
    text = "a\x1b[31mb\x1b[1mc\x1b[0md"
    assert list(spans(text)) == [
        Span("a"),
        Span("b", red),
        Span("c", bold),
        Span("d"),
    ]


def test_without_colours_it_is_the_text_a_model_reads() -> None:
    """Both go through the same escaping."""
    text = "tab\tbell\x07 title\x1b]0;x\x07 \u202egnp.exe"
    assert list(spans(text)) == [Span(escape(text))]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3)).map("".join))
def test_nothing_that_steers_a_terminal_is_left(text: str) -> None:
    """Whatever is cut out where, what is joined again holds no control character."""
    assert not STEERING.search("".join(span.text for span in spans(text)))
