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
_TAG = re.compile(r"(<[^<>]*>)")
_TAG_NAME = re.compile(r"</?\s*([a-zA-Z0-9]+)")
_UNSEEN_TAGS = frozenset({"script", "style", "head", "template"})
_LINE_TAGS = frozenset(
    {"br", "div", "h1", "h2", "h3", "h4", "hr", "li", "p", "pre", "table", "tr"}
)
_CELL_TAGS = frozenset({"td", "th"})
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
    pieces: list[str] = []
    unseen = ""
    for piece in _TAG.split(source):
        tag = _tag_name(piece)
        if unseen:
            unseen = "" if tag == f"/{unseen}" else unseen
        elif tag in _UNSEEN_TAGS:
            unseen = tag
        else:
            pieces.append(_seen(piece, tag))
    lines = html.unescape("".join(pieces)).split("\n")
    return "\n".join(line.strip() for line in lines if not line.isspace() and line)


def _tag_name(piece: str) -> str:
    found = _TAG_NAME.match(piece) if piece.startswith("<") else None
    if found is None:
        return ""
    closing = "/" if piece.startswith("</") else ""
    return closing + found[1].lower()


def _seen(piece: str, tag: str) -> str:
    if not piece.startswith("<") or not piece.endswith(">"):
        return piece
    name = tag.removeprefix("/")
    if name in _LINE_TAGS:
        return "\n"
    return "\t" if tag.startswith("/") and name in _CELL_TAGS else ""
