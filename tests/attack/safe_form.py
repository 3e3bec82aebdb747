"""What a model may see of text, said a second time: one character after the other.

`kern_tools.escaping` says it in regular expressions. This is slow and plain, and shares
nothing with it but the ranges of Unicode that both take from the same sources.
"""

from __future__ import annotations

from collections.abc import Iterable

# Source: ECMA-48, 5th edition, sections 5.3, 5.4 and 5.6.
_STRING_STARTS = {"\x90", "\x98", "\x9d", "\x9e", "\x9f"}
_STRING_STARTS_AFTER_ESCAPE = set("]PX^_")
_SHORT_COMMANDS = {
    chr(n) for n in range(0x30, 0x7F) if chr(n) not in _STRING_STARTS_AFTER_ESCAPE
} - {"["}


def _ranges(*pairs: tuple[int, int]) -> frozenset[str]:
    return frozenset(chr(n) for first, last in pairs for n in range(first, last + 1))


_CONTROLS = _ranges((0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F))
_INVISIBLE = _CONTROLS | _ranges(
    *((0xAD, 0xAD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160)),
    *((0x17B4, 0x17B5), (0x200E, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F)),
    *((0x3164, 0x3164), (0xD800, 0xDFFF), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0)),
    *((0xFFF9, 0xFFFB), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A)),
)
_JOINERS = _ranges((0x200C, 0x200D))
_ZERO_WIDTH_SPACE = "\u200b"
_VARIATIONS = _ranges((0xFE00, 0xFE0F))
_TAGS_AND_MORE_VARIATIONS = _ranges((0xE0000, 0xE0FFF))
_IDEOGRAPHIC_VARIATIONS = _ranges((0xE0100, 0xE01EF))
_IN_CONTEXT_ONLY = (
    _JOINERS | {_ZERO_WIDTH_SPACE} | _VARIATIONS | _TAGS_AND_MORE_VARIATIONS
)
_UNSPACED = _ranges((0x0E00, 0x109F), (0x1780, 0x17FF), (0x1950, 0x19FF))
_FLAG = "\U0001f3f4"
_FLAGS = tuple(
    "".join(chr(0xE0000 + ord(letter)) for letter in f"gb{nation}\x7f")
    for nation in ("eng", "sct", "wls")
)


def _is_joinable(char: str) -> bool:
    point = ord(char)
    return (
        0x0590 <= point <= 0x1FFF
        or 0x2190 <= point <= 0xD7FF
        or 0xF900 <= point <= 0xFDFF
        or point in (0xFE0E, 0xFE0F)
        or 0xFE20 <= point <= 0xFEFE
        or 0x10000 <= point <= 0x1BC9F
        or 0x1F000 <= point <= 0x1FAFF
    )


def _is_ideograph(char: str) -> bool:
    point = ord(char)
    return (
        0x3400 <= point <= 0x4DBF
        or 0x4E00 <= point <= 0x9FFF
        or 0xF900 <= point <= 0xFAFF
        or 0x20000 <= point <= 0x3FFFF
    )


def safe_form(text: str) -> str:
    """Give what is to be seen of `text`, whatever is in it."""
    if any(char in _INVISIBLE for char in text):
        text = _without_returns(_without_commands(text))
    return "".join(_spelled(text))


def _without_commands(text: str) -> str:
    kept: list[str] = []
    at = 0
    while at < len(text):
        end = _end_of_command(text, at)
        if end == at:
            kept.append(text[at])
            end += 1
        at = end
    return "".join(kept)


def _end_of_command(text: str, at: int) -> int:
    """Give where the command that begins here ends; `at` where none does."""
    if text[at] == "\x9b":
        return _end_of_sequence(text, at, at + 1)
    if text[at] in _STRING_STARTS:
        return _end_of_string(text, at, at + 1)
    if text[at] != "\x1b" or at + 1 == len(text):
        return at
    after = text[at + 1]
    if after == "[":
        return _end_of_sequence(text, at, at + 2)
    if after in _STRING_STARTS_AFTER_ESCAPE:
        return _end_of_string(text, at, at + 2)
    if after in _SHORT_COMMANDS:
        return at + 2
    end = _skip(text, at + 1, " ", "/")
    found = end > at + 1 and end < len(text) and "0" <= text[end] <= "~"
    return end + 1 if found else at


def _end_of_sequence(text: str, start: int, at: int) -> int:
    at = _skip(text, _skip(text, at, "0", "?"), " ", "/")
    return at + 1 if at < len(text) and "@" <= text[at] <= "~" else start


def _end_of_string(text: str, start: int, at: int) -> int:
    while at < len(text) and text[at] not in _CONTROLS and text[at] not in "\t\n":
        at += 1
    if text[at : at + 1] in ("\x07", "\x9c"):
        return at + 1
    return at + 2 if text[at : at + 2] == "\x1b\\" else start


def _skip(text: str, at: int, first: str, last: str) -> int:
    while at < len(text) and first <= text[at] <= last:
        at += 1
    return at


def _without_returns(text: str) -> str:
    kept: list[str] = []
    previous = ""
    for char in text:
        if char == "\r" and previous != "\r":
            kept.append("\n")
        elif char != "\r" and not (char == "\n" and previous == "\r"):
            kept.append(char)
        previous = char
    return "".join(kept)


def _spelled(text: str) -> Iterable[str]:
    at = 0
    is_run = False  # what follows a character out of its context is out of it too
    while at < len(text):
        char = text[at]
        flag = next(
            (f for f in _FLAGS if char == _FLAG and text.startswith(f, at + 1)), ""
        )
        if flag:
            yield char + flag
            at += 1 + len(flag)
            is_run = False
            continue
        is_run = char in _IN_CONTEXT_ONLY and (is_run or not _is_in_context(text, at))
        yield ascii(char)[1:-1] if is_run or char in _INVISIBLE else char
        at += 1


def _is_in_context(text: str, at: int) -> bool:
    char, before = text[at], text[at - 1 : at] if at else ""
    if not before:
        return False
    if char in _JOINERS:
        return _is_joinable(before)
    if char == _ZERO_WIDTH_SPACE:
        return before in _UNSPACED
    if char in _VARIATIONS:
        return not before.isspace() and before not in _IN_CONTEXT_ONLY
    return char in _IDEOGRAPHIC_VARIATIONS and _is_ideograph(before)
