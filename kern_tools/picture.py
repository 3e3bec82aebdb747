"""Images as code made them: read just far enough to know that they are images."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass

MIMES = ("image/png", "image/jpeg")
"""The kinds that rich values come in; files may be GIF and WebP too."""

# Source: https://docs.anthropic.com/en/docs/build-with-claude/vision; a provider that
# refuses one image refuses the whole conversation that holds it.
SIDE_MAX_PX = 8000

_PNG_START = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
_PNG_END = b"\x00\x00\x00\x00IEND\xaeB`\x82"
_JPEG_START = b"\xff\xd8\xff"
_JPEG_END = b"\xff\xd9"


class PictureError(ValueError):
    """What the code showed cannot be passed on as an image; the message says why."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One image and what its header says."""

    mime: str
    data: bytes
    width_px: int
    height_px: int


def decode(mime: str, encoded: str) -> Picture:
    """Read an image from base64, as rich results carry it.

    Raises:
        PictureError: Not base64, or what `inspect` raises.
    """
    try:
        data = base64.b64decode(encoded)
    except (binascii.Error, ValueError) as error:
        raise PictureError("not valid base64") from error
    return inspect(mime, data)


def inspect(mime: str, data: bytes) -> Picture:
    """Check that bytes are an image that can be passed on; its header gives the size.

    Args:
        mime: What `mime_of` gives, or the code declared.
        data: The whole file.

    Raises:
        PictureError: Not that kind of image, cut short, or over `SIDE_MAX_PX`; or
            `mime` is no kind of image that we know.
    """
    if mime not in _EXTENTS:
        raise PictureError("not a kind of image that can be shown")
    extent = _EXTENTS[mime](data)
    if extent is None or 0 in extent:
        whole = "complete" if mime in MIMES else "complete, still"
        raise PictureError(f"not a {whole} {mime}")
    width_px, height_px = extent
    if max(extent) > SIDE_MAX_PX:
        raise PictureError(f"{width_px}x{height_px}, over {SIDE_MAX_PX:,} a side")
    return Picture(mime, data, width_px, height_px)


def mime_of(head: bytes) -> str | None:
    """Tell the kind of an image file by its first bytes, never by its name.

    Source: https://mimesniff.spec.whatwg.org/#image-type-pattern-matching-algorithm.
    """
    if head.startswith(_PNG_START[:8]):
        return "image/png"
    if head.startswith(_JPEG_START):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:14] == b"WEBPVP":
        return "image/webp"
    return None


def _png_extent(data: bytes) -> tuple[int, int] | None:
    """Source: https://www.w3.org/TR/png-3/#11IHDR."""
    if not data.startswith(_PNG_START) or not data.endswith(_PNG_END):
        return None
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


def _jpeg_extent(data: bytes) -> tuple[int, int] | None:
    """Walk the segments to the frame header. Source: ITU-T T.81, annex B."""
    if not data.startswith(_JPEG_START) or not data.endswith(_JPEG_END):
        return None
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = data[at + 5 : at + 7], data[at + 7 : at + 9]
            return int.from_bytes(width), int.from_bytes(height)
        at += 1 if marker == 0xFF else 2 + int.from_bytes(data[at + 2 : at + 4])
    return None


def _gif_extent(data: bytes) -> tuple[int, int] | None:
    """Source: https://www.w3.org/Graphics/GIF/spec-gif89a.txt, section 18."""
    if len(data) < 14 or not data.endswith(b";") or b"NETSCAPE2.0" in data:
        return None
    return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")


def _webp_extent(data: bytes) -> tuple[int, int] | None:
    """Source: https://developers.google.com/speed/webp/docs/riff_container."""
    if len(data) < 30 or len(data) < int.from_bytes(data[4:8], "little") + 8:
        return None
    kind = data[12:16]
    if kind == b"VP8X" and not data[20] & 0x02:
        width = int.from_bytes(data[24:27], "little") + 1
        return width, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width = int.from_bytes(data[26:28], "little") & 0x3FFF
        return width, int.from_bytes(data[28:30], "little") & 0x3FFF
    return None


_EXTENTS: Mapping[str, Callable[[bytes], tuple[int, int] | None]] = {
    "image/png": _png_extent,
    "image/jpeg": _jpeg_extent,
    "image/gif": _gif_extent,
    "image/webp": _webp_extent,
}
