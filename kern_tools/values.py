"""The rich values of a result as a model is given them: one text each, or one image."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .names import shown_name
from .picture import MIMES, Picture, PictureError, decode
from .quantities import count, size
from .reply import ImagePart
from .result import RichResult

if TYPE_CHECKING:
    from .config import Budget

Save = Callable[[int, ImagePart], str | None]
"""Keeps the image of that number and gives its path, or None where it could not."""

_PLAIN = "text/plain"
_TEXT_FORMS = (
    _PLAIN,
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

    Plain text, else Markdown, JSON, the text of HTML, LaTeX, SVG source. A plain text
    such as `<Figure size 640x480>` says nothing: any other form comes before it, and
    beside an image it is left out. Data embedded in base64 is replaced by its length.

    Returns:
        The text, or None where the value has no text form.
    """
    forms = [mime for mime in _TEXT_FORMS if mime in value.data]
    plain = value.data.get(_PLAIN)
    says_nothing = plain is not None and _BARE_REPR.fullmatch(plain.strip()) is not None
    if image_of(value) is not None:
        forms = [] if plain is None or says_nothing else [_PLAIN]
    elif says_nothing:
        forms = [*forms[1:], _PLAIN]
    texts = (_shown(mime, value.data[mime]) for mime in forms)
    return next((text for text in texts if text), "" if forms else None)


def can_be_shown(value: RichResult) -> bool:
    """Tell whether a value has any form that a model can be given."""
    return any(mime in value.data for mime in (*_TEXT_FORMS, *MIMES))


def _shown(mime: str, text: str) -> str:
    return _without_inline_data(_html_text(text) if mime == "text/html" else text)


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


@dataclass(frozen=True, slots=True)
class Pictures:
    """The images of one result.

    Attributes:
        lines: What the text says about them, one line each.
        parts: The images themselves, in the same order.
    """

    lines: tuple[str, ...]
    parts: tuple[ImagePart, ...]


def pictures_of(
    values: Sequence[RichResult], budget: Budget, save: Save | None
) -> Pictures:
    """Take the images of `values`, in order, as far as the budget goes.

    Args:
        values: The rich values of a call.
        budget: `images` of them at most, each of `image_bytes` at most.
        save: Keeps each of them; None keeps none.

    Returns:
        The images, and a line for each; what is left out is said or counted.
    """
    found = [image for image in map(image_of, values) if image is not None]
    taken = found[: budget.images]
    lines: list[str] = []
    parts: list[ImagePart] = []
    for number, (mime, encoded) in enumerate(taken, 1):
        try:
            line, part = _picture(number, decode(mime, encoded), budget, save)
        except PictureError as problem:
            line, part = f"{mime}, left out: {problem}", None
        lines.append(f"image {number}: {line}")
        parts += [part] if part is not None else []
    if len(found) > len(taken):
        left_out = count(len(found) - len(taken), "image")
        most = count(budget.images, "image")
        lines.append(f"{left_out} left out: a reply carries at most {most}")
    return Pictures(tuple(lines), tuple(parts))


def _picture(
    number: int, picture: Picture, budget: Budget, save: Save | None
) -> tuple[str, ImagePart | None]:
    line = f"{picture.mime} {picture.width_px}x{picture.height_px}"
    part = ImagePart(picture.mime, picture.data)
    path = save(number, part) if save is not None else None
    if path is not None:
        line += f", saved as {shown_name(path)}"
    if len(part.data) <= budget.image_bytes:
        return line, part
    excess = f"its {size(len(part.data))} are over the {size(budget.image_bytes)}"
    return f"{line}, left out: {excess} an image may have", None
