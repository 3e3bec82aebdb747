"""What a tool call gives back: parts for the model, and the result for code."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from .faults import FaultType
from .result import ExecutionResult


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text for the model; never holds base64."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """One image for the model, named in the text part before it."""

    mime: str
    data: bytes

    @property
    def base64(self) -> str:
        """The bytes as base64 text."""
        return base64.b64encode(self.data).decode("ascii")

    @property
    def data_url(self) -> str:
        """The image as a `data:` URL."""
        return f"data:{self.mime};base64,{self.base64}"


Part = TextPart | ImagePart


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One tool call's answer.

    Attributes:
        name: The tool that was called.
        parts: What the model reads: one `TextPart`, then the images.
        result: The run, or None where nothing ran.
        stored: The run as `artifact` has it, where the budget cuts it down.
        error: None, `bad_arguments`, or the code of a file error.
        call_id: The framework's id of the call.
    """

    name: str
    parts: tuple[Part, ...]
    result: ExecutionResult | None = None
    stored: ExecutionResult | None = None
    error: str | None = None
    call_id: str | None = None

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "\n".join(p.text for p in self.parts if isinstance(p, TextPart))

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """The image parts, in order."""
        return tuple(p for p in self.parts if isinstance(p, ImagePart))

    @property
    def fault_type(self) -> FaultType | str | None:
        """`result.fault.type`, or None."""
        return None if self.result is None else self.result.fault_type

    @property
    def is_error(self) -> bool:
        """What a framework's error status says: a fault or unusable arguments."""
        return self.fault_type is not None or self.error == "bad_arguments"

    @property
    def artifact(self) -> dict[str, Any]:
        """Plain JSON for code: the result, or `fault`, `error` and `tool`."""
        result = self.result if self.stored is None else self.stored
        if result is not None:
            return result.model_dump(mode="json", by_alias=True)
        return {"fault": None, "error": self.error, "tool": self.name}


def result_of_artifact(artifact: object) -> ExecutionResult | None:
    """Read a result back from what `Reply.artifact` became in a framework.

    Args:
        artifact: Any object; a dict made by `Reply.artifact` is recognised.

    Returns:
        The result, or None for anything else.
    """
    if not isinstance(artifact, dict) or "exitCode" not in artifact:
        return None
    return ExecutionResult.model_validate(artifact)
