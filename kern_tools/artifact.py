"""A result small enough to be stored with a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .result import ExecutionResult, FileInfo, RichResult

if TYPE_CHECKING:
    from .budget import Budget


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
    notes = _first_notes(result.runtime_notes, most)
    files = _first_files(result.files, most)
    values, incomplete = _values(result.results, budget.artifact_bytes)
    cut = max(len(result.stdout), len(result.code_stderr)) > most
    cut = cut or len(notes) < len(result.runtime_notes)
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


def _first_notes(notes: list[str], room: int) -> list[str]:
    kept: list[str] = []
    for note in notes:
        room -= len(note) + 1
        if room < 0:
            break
        kept.append(note)
    return kept


def _first_files(files: list[FileInfo], room: int) -> list[FileInfo]:
    kept: list[FileInfo] = []
    for file in files:
        room -= len(file.path)
        if room < 0:
            break
        kept.append(file)
    return kept


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
