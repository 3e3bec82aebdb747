"""Rich values as a model is given them: one text each, or one image."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from kern_tools.config import Budget
from kern_tools.reply import ImagePart
from kern_tools.result import RichResult
from kern_tools.values import can_be_shown, image_of, pictures_of, text_of


def png(width: int = 640, height: int = 480, filler: int = 0) -> str:
    """Make a PNG, in base64, as large as its header says and `filler` bytes more."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes((width + 1) * min(height, 500)))
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", rows)
    chunks += chunk(b"teXt", bytes(filler)) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunks).decode("ascii")


def shown(encoded: str, mime: str = "image/png") -> RichResult:
    """Make a value that is an image."""
    return RichResult(data={"text/plain": "<Image>", mime: encoded})


def test_images_are_parts_named_in_the_text() -> None:
    """In order, each with the size from its own header."""
    small, tall = png(64, 48), png(10, 20)
    pictures = pictures_of([shown(small), shown(tall)], Budget(), None)
    assert pictures.lines == ("image 1: image/png 64x48", "image 2: image/png 10x20")
    assert [part.base64 for part in pictures.parts] == [small, tall]


def test_a_saved_image_is_named_by_its_path() -> None:
    """The path is what the caller says, and is given only where it says one."""
    paths = iter(["chart\n.png", None])
    numbers: list[int] = []

    def save(number: int, image: ImagePart) -> str | None:
        numbers.append(number)
        return next(paths)

    values = [shown(png()), shown("AAA"), shown(png())]
    pictures = pictures_of(values, Budget(), save)
    assert pictures.lines == (
        "image 1: image/png 640x480, saved as chart\\x0a.png",
        "image 2: image/png, left out: not valid base64",
        "image 3: image/png 640x480",
    )
    assert numbers == [1, 3]


@pytest.mark.parametrize(
    ("encoded", "why"),
    [
        ("%%%", "left out: not a complete image/png"),
        ("AAA", "left out: not valid base64"),
        ("\u2603", "left out: not valid base64"),
        (png()[:400], "left out: not a complete image/png"),
        (base64.b64encode(b"<svg/>").decode(), "left out: not a complete image/png"),
        (png(0, 0), "left out: not a complete image/png"),
        (png(9000, 1), "left out: 9000x1, over 8,000 a side"),
    ],
)
def test_what_a_provider_would_refuse_is_left_out_by_name(
    encoded: str, why: str
) -> None:
    """One image that is refused would cost the whole conversation."""
    pictures = pictures_of([shown(encoded)], Budget(), None)
    assert pictures.lines == (f"image 1: image/png, {why}",)
    assert pictures.parts == ()


def test_an_image_over_the_budget_is_saved_and_not_shown() -> None:
    """It can still be used by the code of a later call."""
    values = [shown(png(filler=2048))]
    pictures = pictures_of(values, Budget(image_bytes=2048), lambda number, image: "a")
    (line,) = pictures.lines
    assert line.startswith("image 1: image/png 640x480, saved as a, left out: its ")
    assert line.endswith(" are over the 2 KiB an image may have")
    assert pictures.parts == ()


@pytest.mark.parametrize(
    ("most", "last"),
    [
        (2, "4 images left out: a reply carries at most 2 images"),
        (0, "6 images left out: a reply carries at most 0 images"),
    ],
)
def test_images_over_the_number_are_counted(most: int, last: str) -> None:
    """The first ones are shown, the others are not forgotten."""
    pictures = pictures_of([shown(png())] * 6, Budget(images=most), None)
    assert len(pictures.parts) == most
    assert pictures.lines[-1] == last


FRAMES = {
    "baseline": b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", 48, 64) + bytes(10),
    "progressive": b"\xff\xc2\x00\x11\x08" + struct.pack(">HH", 48, 64) + bytes(10),
    "padded": b"\xff\xff\xff\xc0\x00\x11\x08" + struct.pack(">HH", 48, 64) + bytes(10),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_jpeg_is_measured_by_its_frame_header(frame: bytes) -> None:
    """Other segments and padding come before it."""
    data = b"\xff\xd8\xff\xe0\x00\x10" + bytes(14) + frame + b"\xff\xd9"
    encoded = base64.b64encode(data).decode("ascii")
    pictures = pictures_of([shown(encoded, "image/jpeg")], Budget(), None)
    assert pictures.lines == ("image 1: image/jpeg 64x48",)


@pytest.mark.parametrize("tail", [b"\xff\xda", b"\xff\xc4\x00\x00", b"\xff\xff\xff"])
def test_a_jpeg_without_a_frame_is_no_image(tail: bytes) -> None:
    """The walk over its segments ends, wherever they lead."""
    encoded = base64.b64encode(b"\xff\xd8\xff" + tail * 50 + b"\xff\xd9").decode()
    pictures = pictures_of([shown(encoded, "image/jpeg")], Budget(), None)
    assert pictures.lines == (
        "image 1: image/jpeg, left out: not a complete image/jpeg",
    )


FORMS = {
    "plain": ({"text/html": "<b>x</b>", "text/plain": "x y"}, "x y"),
    "bare": ({"text/html": "<b>x</b>", "text/plain": "<T object at 0x1>"}, "x"),
    "bare, alone": ({"text/plain": "<T object at 0x1>"}, "<T object at 0x1>"),
    "bare, html of nothing": ({"text/html": "<p>", "text/plain": "<T 1>"}, "<T 1>"),
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
