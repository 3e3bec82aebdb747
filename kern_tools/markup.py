"""What code wrote, as HTML that can do nothing: escaped text and inert images.

All markup that shows something from a box is made here. Text is escaped. An image is
checked to be one. SVG and HTML are programs as much as pictures, so SVG is shown as an
image, in which browsers run no script and load nothing, and HTML as its source.

Source: https://www.w3.org/TR/SVG2/conform.html#processing-modes, on what `img` allows.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape as quoted

from .ansi import Style, spans
from .escaping import escape_line
from .picture import MIMES, PictureError, decode

SVG = "image/svg+xml"
_TEXTS = ("text/plain", "text/markdown", "application/json", "text/latex", "text/html")

# Legible on white and on black alike.
_HUES = {
    "black": "#6e7781",
    "red": "#cf222e",
    "green": "#1a7f37",
    "yellow": "#9a6700",
    "blue": "#0969da",
    "magenta": "#8250df",
    "cyan": "#1b7c83",
    "white": "#8c959f",
}


def coloured(text: str) -> str:
    """Show text with the colours that the program gave it.

    Returns:
        Escaped text, with `span`s; for the inside of a `pre`.
    """
    return "".join(_span(span.text, span.style) for span in spans(text))


def stream(text: str, bar: str = "#8c959f") -> str:
    """Show what was printed, as a block of its own; nothing where that is nothing.

    Args:
        text: What a program wrote.
        bar: The colour of the line at its side.
    """
    style = f"border-left:3px solid {bar};padding-left:.6em;white-space:pre-wrap"
    return f'<pre style="{style}">{coloured(text)}</pre>' if text else ""


def value(data: Mapping[str, str]) -> str:
    """Show a rich value in the best of its forms that is safe to show.

    Args:
        data: MIME type to content, as in `RichResult.data`.
    """
    for mime in MIMES:
        if mime in data:
            return image(mime, data[mime])
    if SVG in data:
        return svg(data[SVG])
    return stream(next((data[mime] for mime in _TEXTS if data.get(mime)), ""))


def image(mime: str, encoded: str) -> str:
    """Show an image.

    Args:
        mime: PNG, JPEG, GIF or WebP.
        encoded: Base64, which may be anything.

    Returns:
        An `img`, or the reason why there is none, escaped.
    """
    try:
        picture = decode(mime, encoded)
    except PictureError as problem:
        return f"<em>{quoted(escape_line(mime))} left out: {quoted(str(problem))}</em>"
    extent = f"{picture.width_px}x{picture.height_px}"
    return _img(mime, picture.data, f"{mime} {extent}")


def svg(source: str) -> str:
    """Show SVG as an image: no script of it runs, and it loads nothing."""
    return _img(SVG, source.encode("utf-8", "replace"), SVG)


def _img(mime: str, data: bytes, alt: str) -> str:
    encoded = base64.b64encode(data).decode("ascii")
    style = "max-width:100%"
    return f'<img alt="{alt}" style="{style}" src="data:{mime};base64,{encoded}">'


def _span(text: str, style: Style) -> str:
    rules = [
        f"color:{_HUES[style.colour]}" if style.colour else "",
        "font-weight:bold" if style.bold else "",
        "font-style:italic" if style.italic else "",
        "text-decoration:underline" if style.underline else "",
    ]
    kept = ";".join(filter(None, rules))
    return f'<span style="{kept}">{quoted(text)}</span>' if kept else quoted(text)
