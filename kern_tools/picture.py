"""Images as code made them: read just far enough to know that they are images."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

MIMES = ("image/png", "image/jpeg")

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
        mime: One of `MIMES`, as declared by the code or by the first bytes.
        data: The whole file.

    Raises:
        PictureError: Not that kind of image, cut short, or over `SIDE_MAX_PX`.
    """
    extent = _png_extent(data) if mime == "image/png" else _jpeg_extent(data)
    if extent is None or 0 in extent:
        raise PictureError(f"not a complete {mime}")
    width_px, height_px = extent
    if max(extent) > SIDE_MAX_PX:
        raise PictureError(f"{width_px}x{height_px}, over {SIDE_MAX_PX:,} a side")
    return Picture(mime, data, width_px, height_px)


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
