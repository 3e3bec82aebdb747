"""The one form of a value that a model is given."""

from __future__ import annotations

import pytest

from kern_tools.result import RichResult
from kern_tools.shown import can_be_shown, image_of, text_of

FORMS = {
    "plain": ({"text/html": "<b>x</b>", "text/plain": "x y"}, "x y"),
    "markdown": ({"text/html": "<b>x</b>", "text/markdown": "**x**"}, "**x**"),
    "json": ({"text/html": "<b>x</b>", "application/json": "[1]"}, "[1]"),
    "html": (
        {"text/html": "<style>p{}</style><tr><td>a</td><td>1&lt;2</td></tr><p>b"},
        "a\t1<2\nb",
    ),
    "html, unclosed": ({"text/html": "a<SCRIPT>b<script>c"}, "a"),
    "html, broken": ({"text/html": "a < b <p x<br>c"}, "a < b <p x\nc"),
    "latex": ({"text/latex": "$x$"}, "$x$"),
    "svg": ({"image/svg+xml": "<svg/>"}, "<svg/>"),
    "other": ({"application/pdf": "JVBERi0="}, None),
    "image": ({"text/plain": "<Figure 1x1>", "image/png": "iVBO"}, None),
    "image, telling": ({"text/plain": "score 0.7", "image/png": "iVBO"}, "score 0.7"),
    "image, html": ({"text/html": "<img>", "image/png": "iVBO"}, None),
}


@pytest.mark.parametrize(("data", "shown"), FORMS.values(), ids=FORMS)
def test_the_shortest_form_that_says_it_is_shown(
    data: dict[str, str], shown: str | None
) -> None:
    """Plain text before Markdown, JSON, the text of HTML, LaTeX and SVG source."""
    assert text_of(RichResult(data=data)) == shown


def test_embedded_data_is_replaced_by_its_length() -> None:
    """An image inside Markdown or HTML is not text for a model."""
    source = f"![chart](data:image/png;base64,{'iVBORw0K' * 100})."
    shown = text_of(RichResult(data={"text/markdown": source}))
    assert shown == "![chart](data:image/png;base64,[800 characters left out])."


def test_wrapped_embedded_data_is_replaced_too() -> None:
    """Encoders that break lines are as common as those that do not."""
    wrapped = "\n".join(["A" * 76] * 9)
    source = f"data:image/png;base64,{wrapped}\nand text"
    shown = text_of(RichResult(data={"text/markdown": source}))
    assert shown == "data:image/png;base64,[692 characters left out]\nand text"


def test_an_image_is_preferred_to_the_text_beside_it() -> None:
    """PNG before JPEG; other kinds of image are not passed on."""
    both = RichResult(data={"image/jpeg": "/9j/", "image/png": "iVBO"})
    assert image_of(both) == ("image/png", "iVBO")
    assert image_of(RichResult(data={"image/tiff": "SUkq"})) is None


def test_a_value_without_a_form_for_models_is_known() -> None:
    """So that it can be named instead of dropped."""
    assert not can_be_shown(RichResult(data={"application/pdf": "JVBERi0="}))
    assert can_be_shown(RichResult(data={"image/png": "iVBO"}))
