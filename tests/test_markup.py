"""What code wrote, as HTML that can do nothing."""

from __future__ import annotations

import base64
from html.parser import HTMLParser

import pytest

from kern_tools import ExecutionResult, RichResult, SandboxFault
from kern_tools.ansi import COLOURS
from kern_tools.markup import coloured, image, svg, value
from tests.depth import crossed

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAA"
    "CklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
HOSTILE = (
    "<script>alert(1)</script>",
    "</pre><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "<!-- --><iframe srcdoc='<script>alert(1)</script>'>",
    "javascript:alert(1)",
    "&lt;script&gt;alert(1)",
    "\x1b[31m<b>\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07",
)


class _Tags(HTMLParser):
    """Collects every tag, with its attributes, and the text between."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def names(page: str) -> set[str]:
    """Name the tags of a page."""
    return {tag for tag, _ in _Tags(page).tags}


@pytest.mark.parametrize("text", HOSTILE)
def test_text_makes_no_tag(text: str) -> None:
    """Whatever a program prints, a browser shows it and does nothing."""
    assert names(coloured(text)) <= {"span"}


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("mime", ["text/html", "text/markdown", "text/latex", "text/x"])
def test_no_form_of_a_value_makes_a_tag(mime: str, text: str) -> None:
    """HTML is shown as its source; a browser would run it."""
    assert names(value({mime: text})) <= {"pre", "span"}


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("mime", ["image/png", "image/jpeg", "image/x'><b>"])
def test_what_is_no_image_makes_no_image(mime: str, text: str) -> None:
    """The base64 of an image may be anything too."""
    assert names(image(mime, text)) == {"em"}
    assert names(image(mime, base64.b64encode(text.encode()).decode())) == {"em"}


def test_an_image_is_shown_from_its_own_bytes() -> None:
    """The page holds it; nothing is loaded from anywhere."""
    ((tag, attributes),) = _Tags(value({"image/png": PIXEL, "text/plain": "x"})).tags
    assert tag == "img"
    assert attributes["src"] == f"data:image/png;base64,{PIXEL}"
    assert attributes["alt"] == "image/png 1x1"


def test_svg_is_an_image_never_markup() -> None:
    """In an `img` no script of it runs and it loads nothing."""
    source = "<svg onload='alert(1)'><script>alert(1)</script>\ud800</svg>"
    ((tag, attributes),) = _Tags(svg(source)).tags
    kind, _, data = str(attributes["src"]).partition(",")
    assert (tag, kind) == ("img", "data:image/svg+xml;base64")
    assert base64.b64decode(data).startswith(b"<svg onload")


@pytest.mark.parametrize("colour", COLOURS)
def test_each_colour_is_drawn(colour: str) -> None:
    """A span says it itself, so that no style sheet is needed."""
    page = coloured(f"\x1b[{30 + COLOURS.index(colour)}mx")
    ((tag, attributes),) = _Tags(page).tags
    assert tag == "span"
    assert str(attributes["style"]).startswith("color:#")


def test_weights_are_drawn() -> None:
    """Bold, italic and underlined."""
    ((_, attributes),) = _Tags(coloured("\x1b[1;3;4mx")).tags
    style = "font-weight:bold;font-style:italic;text-decoration:underline"
    assert attributes["style"] == style


# -- what a notebook asks of a result


@pytest.mark.parametrize("text", HOSTILE)
def test_a_result_can_be_shown_whatever_it_holds(text: str) -> None:
    """Streams, values and a kern's new fault: nothing of them is markup."""
    result = ExecutionResult(
        stdout=text,
        code_stderr=text,
        fault=SandboxFault(type=text, message=text),
        results=[RichResult(data={mime: text}) for mime in ("text/html", "image/png")],
    )
    bundle = result._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]
    assert names(bundle["text/html"]) <= {"b", "pre", "span", "em"}
    assert "\x1b" not in bundle["text/plain"]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("mime", ["text/html", "image/svg+xml", "image/png"])
def test_a_single_value_can_be_shown(mime: str, text: str) -> None:
    """A notebook is offered no form that it would run."""
    bundle = RichResult(data={mime: text})._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]
    assert set(bundle) == {"text/plain", "text/html"}
    assert names(bundle["text/html"]) <= {"pre", "span", "img", "em"}


def test_a_result_shows_verdict_streams_and_charts() -> None:
    """What a person looks for first."""
    result = ExecutionResult(
        stdout="hello",
        exit_code=3,
        duration_ms=1234,
        results=[RichResult(data={"image/png": PIXEL})],
    )
    page = result._repr_mimebundle_()["text/html"]  # pyright: ignore[reportPrivateUsage]
    shown = _Tags(page)
    assert "exit 3, 1,234 ms" in shown.text
    assert "hello" in shown.text
    assert "img" in names(page)
