"""The images of a result: decoded, named in the text, handed on within the budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .names import shown_name
from .picture import Picture, PictureError, decode
from .quantities import count, size
from .reply import ImagePart
from .result import RichResult
from .shown import image_of

if TYPE_CHECKING:
    from .config import Budget

Save = Callable[[int, ImagePart], str | None]
"""Keeps the image of that number and gives its path, or None where it could not."""


@dataclass(frozen=True, slots=True)
class Gallery:
    """The images of one result.

    Attributes:
        lines: What the text says about them, one line each.
        parts: The images themselves, in the same order.
    """

    lines: tuple[str, ...]
    parts: tuple[ImagePart, ...]


def hang(values: Sequence[RichResult], budget: Budget, save: Save | None) -> Gallery:
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
            line, part = _hang_one(number, decode(mime, encoded), budget, save)
        except PictureError as problem:
            line, part = f"{mime}, left out: {problem}", None
        lines.append(f"image {number}: {line}")
        parts += [part] if part is not None else []
    if len(found) > len(taken):
        left_out = count(len(found) - len(taken), "image")
        most = count(budget.images, "image")
        lines.append(f"{left_out} left out: a reply carries at most {most}")
    return Gallery(tuple(lines), tuple(parts))


def _hang_one(
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
