"""How much of a result is shown and stored."""

from __future__ import annotations

from dataclasses import dataclass, fields

from .option_checks import whole
from .options import Options

_LEAST_TEXT_CHARS = 256


@dataclass(frozen=True, kw_only=True)
class Budget(Options):
    """How much of one result a model, and a checkpoint, is given."""

    text_chars: int = 8_000
    """Characters of text in one reply, stderr first; the rest goes to a file."""
    images: int = 4
    """Images in one reply; further ones are named, not shown."""
    image_bytes: int = 4 << 20
    """Bytes of one image; a larger one is named, not shown."""
    artifact_chars: int = 64_000
    """Characters of each stream, and of all file names, in an artifact, which is what
    checkpoints store."""
    artifact_bytes: int = 1 << 20
    """Bytes of all rich values in an artifact."""

    def __post_init__(self) -> None:
        for option in fields(self):
            unit = option.name.rpartition("_")[2]
            low = _LEAST_TEXT_CHARS if option.name == "text_chars" else 0
            check = whole(low, 1 << 30, unit)
            check(f"budget.{option.name}", getattr(self, option.name))
