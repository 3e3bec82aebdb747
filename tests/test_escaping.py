"""What is shown of text that a program wrote."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kern_tools.escaping import escape, escape_line

from .depth import examples

ORDINARY = {
    "spaces": "tab\tand\nnew line",
    "accents": "naïve café, Straße",
    "cyrillic": "Съешь ещё этих мягких булок",
    "hebrew": "עברית שלום",
    "arabic": "العربية",
    "persian": "می\u200cشود",
    "hindi": "क्\u200dष",
    "thai": "ภาษา\u200bไทย",
    "mongolian": "ᠮᠠ\u180b",
    "chinese": "漢字かな",
    "variant": "葛\U000e0100",
    "korean": "한국어 ᄒ",
    "family": "👨\u200d👩\u200d👧",
    "heart": "❤\ufe0f\u200d🔥",
    "keycap": "1\ufe0f\u20e3",
    "skin": "👍🏽",
    "england": "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "private use": "\ue000",
}
UNSAFE = {
    "colour": ("\x1b[31mred\x1b[0m", "red"),
    "title": ("\x1b]0;t\x07 ok", " ok"),
    "link": ("\x1b]8;;http://x\x1b\\here\x1b]8;;\x1b\\", "here"),
    "eight-bit": ("a\x9b31mb", "ab"),
    "character set": ("\x1b(Bx", "x"),
    "reset": ("\x1bcx", "x"),
    "unfinished": ("\x1b]no end\nnext", "\\x1b]no end\nnext"),
    "nested": ("\x1b\x1b[0m[31m", "\\x1b[31m"),
    "bell and nul": ("a\x07\0b", "a\\x07\\x00b"),
    "backspace": ("ab\x08c", "ab\\x08c"),
    "windows": ("a\r\nb\r\r\nc", "a\nb\nc"),
    "progress": ("10%\r20%\r30%\n", "10%\n20%\n30%\n"),
    "override": ("user\u202enimda", "user\\u202enimda"),
    "isolate": ("\u2066x\u2069", "\\u2066x\\u2069"),
    "zero width": ("fa\u200bu\u200dlt\u2060", "fa\\u200bu\\u200dlt\\u2060"),
    "byte order": ("\ufeffid,name", "\\ufeffid,name"),
    "soft hyphen": ("o\xadk", "o\\xadk"),
    "line separator": ("a\u2028b\x85c", "a\\u2028b\\x85c"),
    "tags": ("\U000e0041\U000e0042", "\\U000e0041\\U000e0042"),
    "tags on a flag": ("🏴\U000e0041", "🏴\\U000e0041"),
    "tags on a face": ("🙂\U000e0100\U000e0101", "🙂\\U000e0100\\U000e0101"),
    "many joiners": ("👨\u200d\u200d\u200d", "👨\u200d\\u200d\\u200d"),
    "many selectors": ("a\ufe0f\ufe0f", "a\ufe0f\\ufe0f"),
    "surrogate": ("\ud800", "\\ud800"),
    "inside a sequence": ("\x1b[31\u200bm", "\\x1b[31\\u200bm"),
}


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY)
def test_ordinary_text_is_not_changed(text: str) -> None:
    """Scripts and emoji that need joiners and selectors keep them."""
    assert escape(text) == text


@pytest.mark.parametrize(("text", "shown"), UNSAFE.values(), ids=UNSAFE)
def test_what_moves_or_hides_is_removed_or_spelled(text: str, shown: str) -> None:
    """Terminal commands go; what cannot be seen is spelled as Python spells it."""
    assert escape(text) == shown


def test_a_line_stays_one_line() -> None:
    """Line breaks and tabs are spelled where text stands inside a line of ours."""
    assert escape_line("a\r\nb\tc\x1b[0m") == "a\\r\\nb\\tc"


NASTY = st.sampled_from(
    "\x1b[]0m\x07\\\r\n\t\x9b\x9d\u200d\ufe0f\U000e0100\U0001f3f4\U000e0067\u202e\ud800👨é"
)
TEXTS = st.lists(NASTY | st.text(max_size=3)).map("".join)


@examples(50, 1000)
@given(TEXTS)
def test_no_control_is_left(text: str) -> None:
    """Whatever comes in, what goes out can be encoded, and moves nothing."""
    shown = escape(text)
    controls = {c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")}
    assert controls <= {"\n", "\t"}
    assert shown.encode("utf-8").decode("utf-8") == shown


@examples(50, 1000)
@given(TEXTS)
def test_escaping_twice_changes_nothing_more(text: str) -> None:
    """What is safe to show passes as it is."""
    assert escape(escape(text)) == escape(text)


@examples(50, 1000)
@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_letters_and_signs_pass(text: str) -> None:
    """Nothing that can be seen is ever changed, whatever its script."""
    visible = text.translate(dict.fromkeys([0x115F, 0x1160, 0x3164, 0xFFA0]))
    assert escape(visible) == visible
