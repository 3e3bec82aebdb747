"""What a tool call gives back: parts for the model, and the result for code.

Code finds it as an artifact: JSON, small enough to be stored with a conversation.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .faults import FaultType
from .result import ExecutionResult, RichResult

if TYPE_CHECKING:
    from .config import Budget

_T = TypeVar("_T")
_NOT_RUN = ("bad_arguments", "stopped")


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
        error: None, `bad_arguments`, the code of a file error, or `stopped` where a
            policy had ended the loop.
        call_id: The framework's id of the call.
        repeats: How often in a row the same call had failed before; as in the result.
        replayed: It is the first reply to this call, given again; nothing ran.
    """

    name: str
    parts: tuple[Part, ...]
    result: ExecutionResult | None = None
    stored: ExecutionResult | None = None
    error: str | None = None
    call_id: str | None = None
    repeats: int = 0
    replayed: bool = False

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
        """What a framework's error status says: a fault, or nothing was run."""
        return self.fault_type is not None or self.error in _NOT_RUN

    @property
    def artifact(self) -> dict[str, Any]:
        """Plain JSON for code: the result, or `fault`, `error`, `tool`, `repeats`."""
        result = self.result if self.stored is None else self.stored
        if result is not None:
            return result.model_dump(mode="json", by_alias=True)
        plain = {"fault": None, "error": self.error, "tool": self.name}
        return {**plain, "repeats": self.repeats} if self.repeats else plain


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


def member(holder: object, name: str, default: object = None) -> Any:
    """Read a part by its key or by its attribute.

    Args:
        holder: A mapping, or any other object.
        name: The part's name.
        default: What to give where it is not there.

    Returns:
        The part, or `default`.
    """
    if type(holder) is dict or isinstance(holder, Mapping):  # the first is quicker
        return cast("Mapping[str, Any]", holder).get(name, default)
    return getattr(holder, name, default)


def bounded(result: ExecutionResult, budget: Budget) -> ExecutionResult:
    """Cut a result down to what an artifact may hold.

    Streams keep their head and set `truncated`; `stdout_bytes` and `stderr_bytes` still
    tell how much was written. Files and rich values keep the first ones, and of a value
    that is too large the smallest forms, so that its text outlives its image;
    `files_omitted` and `results_omitted` count what is incomplete.

    Args:
        result: All of it; it stays as it is.
        budget: `artifact_chars` of each stream, of kern's notes and of the files'
            paths; `artifact_bytes` of all rich values.

    Returns:
        The result itself where all of it fits, else a smaller one.
    """
    most = budget.artifact_chars
    said = result.runtime_notes
    notes = _first(said, (len(note) + 1 for note in said), most)
    files = _first(result.files, (len(file.path) for file in result.files), most)
    values, incomplete = _values(result.results, budget.artifact_bytes)
    cut = max(len(result.stdout), len(result.code_stderr)) > most
    cut = cut or len(notes) < len(said)
    files_omitted = len(result.files) - len(files)
    if not cut and not files_omitted and not incomplete:
        return result
    smaller = {
        "stdout": result.stdout[:most],
        "code_stderr": result.code_stderr[:most],
        "runtime_notes": notes,
        "truncated": result.truncated or cut,
        "files": files,
        "files_omitted": result.files_omitted + files_omitted,
        "results": values,
        "results_omitted": result.results_omitted + incomplete,
    }
    return result.model_copy(update=smaller)


def _first(values: list[_T], sizes: Iterable[int], room: int) -> list[_T]:
    ends = zip(values, accumulate(sizes), strict=True)
    return [value for value, end in ends if end <= room]


def _values(values: list[RichResult], room: int) -> tuple[list[RichResult], int]:
    """Keep what there is room for; count the values that are not whole any more."""
    kept: list[RichResult] = []
    incomplete = 0
    for value in values:
        data, taken = _forms(value, room)
        room -= taken
        incomplete += len(data) < len(value.data)
        if len(data) == len(value.data):
            kept.append(value)
        elif data:
            kept.append(RichResult(data=data))
    return kept, incomplete


def _forms(value: RichResult, room: int) -> tuple[dict[str, str], int]:
    """Choose the smallest forms of a value, in their order, and add up their bytes."""
    sizes = {mime: _size_bytes(mime + text) for mime, text in value.data.items()}
    taken = 0
    chosen: set[str] = set()
    for mime in sorted(sizes, key=sizes.__getitem__):
        if taken + sizes[mime] <= room:
            taken += sizes[mime]
            chosen.add(mime)
    return {mime: value.data[mime] for mime in sizes if mime in chosen}, taken


def _size_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
