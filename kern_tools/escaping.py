r"""Text made safe to show a model: nothing hidden, nothing that moves a cursor.

What a program printed may hold terminal commands, invisible characters that carry text
of their own, and marks that reorder what a person reads. `escape` takes the first away
and spells the others out (`\u202e`), so that model and reader see the same thing.
Ordinary text passes unchanged, joiners inside emoji and non-Latin words included.
"""

from __future__ import annotations

import re

# Source: ECMA-48, 5th edition, sections 5.3, 5.4 and 5.6.
_TERMINAL = re.compile(
    r"[\x1b\x90\x98\x9b\x9d-\x9f](?:"
    r"(?:(?<=\x1b)\[|(?<=\x9b))[0-?]*+[ -/]*+[@-~]"  # colours, cursor, erase
    r"|(?:(?<=\x1b)[\]PX^_]|(?<=[\x90\x98\x9d-\x9f]))"  # titles, links, pictures
    r"[^\x00-\x1f\x7f-\x9f]*+(?:\x07|\x1b\\|\x9c)"
    r"|(?<=\x1b)(?:[ -/]++[0-~]|[0-OQ-WYZ\\`-~]))"  # character sets, short commands
)
_RETURNS = re.compile(r"\r++\n?")
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a]++"
)

_JOINABLE = (
    r"[\u0590-\u1fff\u2190-\ud7ff\uf900-\ufdff\ufe0e\ufe0f\ufe20-\ufefe"
    r"\U00010000-\U0001bc9f\U0001f000-\U0001faff]"
)
_UNSPACED = r"[\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff]"
_IDEOGRAPH = r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
_CONTEXTUAL = r"\u200b-\u200d\ufe00-\ufe0f\U000e0000-\U000e0fff"
_VARIABLE = rf"[^\s{_CONTEXTUAL}]"
# Three flags are spelled with tag characters; anywhere else those hide ASCII text.
# Source: https://www.unicode.org/reports/tr51/#valid-emoji-tag-sequences
_FLAG = "\U0001f3f4"
_FLAG_TAGS = "|".join(
    "".join(chr(0xE0000 + ord(letter)) for letter in f"gb{part}\x7f")
    for part in ("eng", "sct", "wls")
)
_OUT_OF_CONTEXT = re.compile(
    rf"[{_CONTEXTUAL}{_FLAG}](?:"
    rf"(?<={_FLAG})(?:{_FLAG_TAGS})"
    rf"|(?<!{_JOINABLE}[\u200c\u200d])(?<!{_UNSPACED}\u200b)(?<!{_FLAG})"
    rf"(?<!{_VARIABLE}[\ufe00-\ufe0f])(?<!{_IDEOGRAPH}[\U000e0100-\U000e01ef])"
    rf"[{_CONTEXTUAL}]*+)"
)
_ASCII_SAFE = bytes([*range(0x20, 0x7F), 0x09, 0x0A])


def escape(text: str) -> str:
    r"""Make text safe to show, in time linear in its length.

    Terminal sequences are removed. Any run of `\r`, with the `\n` after it, reads as
    one `\n`: each state of a progress bar keeps its own line and nothing is
    overwritten. Other control, bidi and invisible characters and lone surrogates are
    spelled as Python spells them (`\x07`, `\u202e`). A joiner stays where the
    character before it takes one (emoji, Persian, Hindi), a zero-width space after
    scripts written without spaces, a variation selector behind a character to vary.

    Args:
        text: What a program wrote, or a name it chose.

    Returns:
        Text that encodes as UTF-8, whose only control characters are `\n` and `\t`.
    """
    if text.isascii() and not text.encode("ascii").translate(None, _ASCII_SAFE):
        return text
    hidden = _HIDDEN.search(text) is not None
    if hidden:
        text = _RETURNS.sub("\n", _TERMINAL.sub("", text))
    if not text.isascii():
        text = _OUT_OF_CONTEXT.sub(_unless_flag, text)
    return _HIDDEN.sub(_spelled, text) if hidden else text


def escape_line(text: str) -> str:
    r"""Make text safe to show inside one line: `\n`, `\r` and `\t` are spelled too."""
    spelled = text.replace("\r", r"\r").replace("\n", r"\n").replace("\t", r"\t")
    return escape(spelled)


def _unless_flag(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith(_FLAG) else _spelled(match)


def _spelled(match: re.Match[str]) -> str:
    """Spell a run; backslash escapes are ASCII, so a plain cut of `ascii` will do."""
    return ascii(match[0])[1:-1]
