"""What a value looks like to a model: one text, or one image."""

from __future__ import annotations

import html
import re

from .picture import MIMES
from .quantities import count
from .result import RichResult

_TEXT_FORMS = (
    "text/plain",
    "text/markdown",
    "application/json",
    "text/html",
    "text/latex",
    "image/svg+xml",
)
_BARE_REPR = re.compile(r"<[^<>\n]*>")
_UNSEEN = re.compile(
    r"<(head|script|style|template)\b[^<>]*+>.*?(?:</\1\b[^<>]*+>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_CELL_END = re.compile(r"</t[dh]\b[^<>]*+>", re.IGNORECASE)
_LINE_TAG = re.compile(
    r"</?(?:br|div|h[1-6]|hr|li|p|pre|table|tr)\b[^<>]*+>", re.IGNORECASE
)
_TAG = re.compile(r"</?[a-z!][^<>]*+>", re.IGNORECASE)
_INLINE_DATA = re.compile(
    r"(data:[\w.+-]++/[\w.+-]++(?:;(?!base64)[\w=.+-]++)*+;base64,)"
    r"((?:[A-Za-z0-9+/=%]++|\s(?=[A-Za-z0-9+/=%]{60}))*+)"
)


def image_of(value: RichResult) -> tuple[str, str] | None:
    """Give MIME type and base64 of the image form of a value, if it has one."""
    return next(((m, value.data[m]) for m in MIMES if m in value.data), None)


def text_of(value: RichResult) -> str | None:
    """Give the text form of a value that says most in the fewest characters.

    Plain text, else Markdown, JSON, the text of HTML, LaTeX, SVG source. Beside an
    image, a plain text such as `<Figure size 640x480>` says nothing more and is left
    out. Data embedded in base64 is replaced by its length.

    Returns:
        The text, or None where the value has no text form.
    """
    mime = next((mime for mime in _TEXT_FORMS if mime in value.data), None)
    if mime is None:
        return None
    text = value.data[mime]
    says_more = mime == "text/plain" and not _BARE_REPR.fullmatch(text.strip())
    if image_of(value) is not None and not says_more:
        return None
    return _without_inline_data(_html_text(text) if mime == "text/html" else text)


def can_be_shown(value: RichResult) -> bool:
    """Tell whether a value has any form that a model can be given."""
    return any(mime in value.data for mime in (*_TEXT_FORMS, *MIMES))


def _without_inline_data(text: str) -> str:
    return _INLINE_DATA.sub(
        lambda found: f"{found[1]}[{count(len(found[2]), 'character')} left out]", text
    )


def _html_text(source: str) -> str:
    """Drop the tags; a row becomes a line, its cells are set apart by tabs."""
    text = _CELL_END.sub("\t", _UNSEEN.sub("", source))
    text = html.unescape(_TAG.sub("", _LINE_TAG.sub("\n", text)))
    lines = (line.strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line)
