"""Where a snapshot comes from: told in it, and compared with where it is restored."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .contents import Refusal
from .names import shown_name

if TYPE_CHECKING:
    from .config import SandboxConfig
    from .image import ImageRef

FORMAT = 1
"""The number of the format, raised when older readers would misread it."""
_NOTED = 50
_WORD_LENGTH = 200


class Origin(BaseModel):
    """What a snapshot says about the sandbox it was made of.

    It is what a file says: nothing in it is applied when a snapshot is restored.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    format: int = FORMAT
    """The number of the snapshot's format."""
    kern_tools: str
    """The version that made it."""
    created: datetime
    """When, with a time zone."""
    machine: str
    """The processor's architecture, as `platform.machine` names it."""
    python: str | None = None
    """The version of Python that its code ran on; None where that is not known."""
    image: str | None = None
    """The reference of the image; None for a workspace without a sandbox."""
    config: dict[str, Any] = Field(default_factory=lambda: {})
    """The sandbox's options as `SandboxConfig.public` gives them, without secrets."""

    @classmethod
    def here(cls, config: SandboxConfig | None, image: ImageRef | None) -> Origin:
        """Describe a sandbox of this process, or this process alone."""
        from . import __version__

        ours = image is None or image.host_python
        return cls(
            kern_tools=__version__,
            created=datetime.now(UTC),
            machine=platform.machine(),
            python=platform.python_version() if ours else None,
            image=None if image is None else image.reference,
            config={} if config is None else config.public(),
        )

    @classmethod
    def parsed(cls, info: bytes) -> Origin:
        """Read what stands in a snapshot.

        Raises:
            Refusal: `newer_format`, or it cannot be understood.
        """
        try:
            version = _Version.model_validate_json(info)
            if version.format > FORMAT:
                why = f"its format is {version.format}, and this version of kern-tools"
                remedy = f"knows {FORMAT}: use the {version.kern_tools[:40]!r} it names"
                raise Refusal(f"{why} {remedy}, or a newer one", "newer_format")
            return cls.model_validate_json(info)
        except ValidationError as error:
            why = error.errors(include_url=False, include_input=False)[0]["msg"]
            raise Refusal(f"what it says about itself cannot be read: {why}") from None

    def notes(self, here: Origin) -> Iterator[str]:
        """Tell what differs between this origin and another, one sentence each."""
        if self.python and here.python and self.python != here.python:
            yield f"made with Python {_word(self.python)}, this is {here.python}"
        if self.machine != here.machine:
            yield f"made on {_word(self.machine)}, this is {here.machine}"
        if self.image and here.image and self.image != here.image:
            yield f"made in the image {_word(self.image)}, this one is {here.image}"
        if self.config and here.config:
            yield from _option_notes(self.config, here.config)


class _Version(BaseModel):
    """What every format says."""

    format: int = Field(ge=1)
    kern_tools: str = "unknown"


def _option_notes(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    if there.get("mode") != here["mode"]:
        yield f"made with mode={_word(there.get('mode'))!r}, this is {here['mode']!r}"
    for option, noun in (("packages", "package"), ("env", "variable")):
        for name in _names(there.get(option)):
            if name not in here[option]:
                yield f"made with the {noun} {name!r}, which this sandbox has not"


def _names(value: object) -> list[str]:
    if not isinstance(value, list):
        return []
    return [_word(name) for name in cast("list[object]", value)[:_NOTED]]


def _word(value: object) -> str:
    """Bound what a file says, and keep it on one line."""
    return shown_name(str(value)[:_WORD_LENGTH])
