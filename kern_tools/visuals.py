"""Image files as parts: by what their first bytes say, never by their name."""

from __future__ import annotations

import base64
from typing import BinaryIO

from .config import Budget
from .picture import SIDE_MAX_PX, PictureError, decode
from .quantities import size
from .reply import ImagePart, Part, TextPart


def picture_parts(
    file: BinaryIO, head: bytes, total_bytes: int, shown: str, budget: Budget
) -> tuple[Part, ...] | None:
    """Give an image file as parts for a model.

    Args:
        file: Binary, at its start.
        head: Its first bytes.
        total_bytes: Its size.
        shown: Its name, safe to show.
        budget: How much a model is given.

    Returns:
        Text and image; text alone where the image is broken or over the budget; None
        where the file is no PNG, JPEG, GIF or WebP.
    """
    mime = _mime(head)
    if mime is None:
        return None
    if budget.images == 0 or total_bytes > budget.image_bytes:
        most = size(budget.image_bytes)
        why = f"over {most}" if budget.images else "this sandbox shows no images"
        text = f"ok, {shown} is {mime} of {size(total_bytes)}; not shown: {why}"
        return (TextPart(text),)
    data = file.read(budget.image_bytes)
    try:
        width_px, height_px = _extent(mime, data)
    except PictureError as error:
        return (TextPart(f"ok, {shown} begins as {mime} but is not shown: {error}"),)
    text = f"ok, image 1: {mime} {width_px}x{height_px}, saved as {shown}"
    return TextPart(text), ImagePart(mime, data)


def _mime(head: bytes) -> str | None:
    """Source: https://mimesniff.spec.whatwg.org/#image-type-pattern-matching-algorithm."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:14] == b"WEBPVP":
        return "image/webp"
    return None


def _extent(mime: str, data: bytes) -> tuple[int, int]:
    if mime in ("image/png", "image/jpeg"):
        picture = decode(mime, base64.b64encode(data).decode("ascii"))
        return picture.width_px, picture.height_px
    extent = _gif_extent(data) if mime == "image/gif" else _webp_extent(data)
    if extent is None or 0 in extent:
        raise PictureError(f"not a complete, still {mime}")
    if max(extent) > SIDE_MAX_PX:
        raise PictureError(f"{extent[0]}x{extent[1]}, over {SIDE_MAX_PX:,} a side")
    return extent


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
