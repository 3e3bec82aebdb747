"""A result as the parts a model reads.

The first line is ours and says who ended the run; what the code wrote stands in fences
that it cannot contain; everything between is ours again:

    exit 1
    stderr:
    ```
    ...
    ```
    files: a.png (12,345 bytes, created)
    next: ...
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from .escaping import escape, escape_line
from .excerpt import Passage, arrange, fits
from .facts import SandboxFacts
from .faults import SandboxFault
from .hints import hint_for
from .names import shown_name
from .prompting import advice, ran, repair
from .quantities import count, seconds, size
from .reply import Part, TextPart
from .result import ExecutionResult, FileInfo, RichResult
from .values import Save, can_be_shown, pictures_of, text_of

if TYPE_CHECKING:
    from .config import Budget

Spill = Callable[[str], str | None]

_LINE_MAX_CHARS = 400
_VALUES_MAX = 20
_FILES_MAX = 20
_PLAIN_MIME = re.compile(r"[\w.+-]+/[\w.+-]+")
_PLAIN_NAME = re.compile(r"[\w.+@%=/-]+(?: [\w.+@%=/-]+)*")


def render(
    result: ExecutionResult,
    *,
    facts: SandboxFacts,
    budget: Budget,
    timeout_s: float | None = None,
    spill: Spill | None = None,
    save_image: Save | None = None,
    images: Literal["parts", "none"] = "parts",
) -> tuple[Part, ...]:
    """Make the parts a model reads of what one call produced.

    Reads no clock and no file; the same result gives the same parts.

    Args:
        result: What the call produced.
        facts: What is true of the sandbox it ran in.
        budget: How many characters and images there may be.
        timeout_s: The limit of this call; None for the usual one.
        spill: Keeps the whole output where some was cut and gives its path, or None
            where it could not; called once at most.
        save_image: Keeps an image and gives its path; called once for each in the text.
        images: `none` leaves the images to the text, which names them.

    Returns:
        One `TextPart` of 1 to `budget.text_chars` characters, then the `ImagePart`s.
    """
    streams = _streams(result, facts)
    passages = [*streams, *_values(result.results)]
    pictures = pictures_of(result.results, budget, save_image)
    top = [_verdict(result, facts, timeout_s), *_notes(result, facts, streams)]
    if not passages and not pictures.lines:
        top += _no_output(result)
    bottom = [
        *pictures.lines,
        *_values_left_out(result),
        *_files(result.files, result.files_omitted, budget.text_chars // 8),
        *_next(result, facts, timeout_s),
    ]
    text = _compose(top, passages, bottom, budget.text_chars, spill)
    return (TextPart(text), *(pictures.parts if images == "parts" else ()))


def state_notes(result: ExecutionResult) -> list[str]:
    """Say what a call found gone that earlier ones had made, as clauses."""
    if result.files_lost:
        return ["started anew: files and names of earlier calls are gone"]
    if result.state_new:
        return ["started anew: files are kept, all else of earlier calls is gone"]
    return []


def _compose(
    top: list[str],
    passages: list[Passage],
    bottom: list[str],
    room: int,
    spill: Spill | None,
) -> str:
    room += 1  # for the newline that the last line does without
    verdict, *notes = top
    top = [_short(verdict, min(_LINE_MAX_CHARS, room - 1))]
    top += _as_fit(notes, room - _taken(top))
    room -= _taken(top)
    bottom = _as_fit(bottom, room // 2 if passages else room)
    room -= _taken(bottom)
    kept_in = None
    if spill is not None and not fits(passages, room):
        pieces = (piece for each in passages for piece in (*each.pieces(), "\n"))
        kept_in = spill("".join(pieces))
    shown = arrange(passages, room, kept_in and shown_name(kept_in))
    return "\n".join([*top, *(block for block in shown if block), *bottom])


def _as_fit(lines: list[str], room: int) -> list[str]:
    """Keep the lines there is room for; the last ones matter most."""
    kept: list[str] = []
    for line in reversed(lines):
        if _taken([*kept, line]) <= room:
            kept.append(line)
    return kept[::-1]


def _taken(lines: list[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _short(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[: most - 4]} ..."


def _verdict(
    result: ExecutionResult, facts: SandboxFacts, timeout_s: float | None
) -> str:
    if result.fault is not None:
        return _fault(result.fault, _kept(result, facts))
    verdict = "ok" if result.success else f"exit {result.exit_code}"
    if result.signal is not None:
        verdict += f" ({signal_name(result.signal)})"
    limit_s = facts.timeout_s if timeout_s is None else timeout_s
    # A call that came near its limit is worth a warning; else time is for people.
    if 2 * result.duration_ms < 1000 * limit_s:
        return verdict
    taken_s = round(result.duration_ms / 1000, 1)
    return f"{verdict}, took {seconds(taken_s)} of {seconds(limit_s)}"


def _fault(fault: SandboxFault, kept: str) -> str:
    message = escape_line(fault.message).strip().rstrip(".")
    sentences = [f"fault: {escape_line(fault.type)}."]
    if message:
        sentences.append(f"{message[0].upper()}{message[1:]}.")
    if ran(fault):
        sentences.append(kept)
    return " ".join(sentences)


def _kept(result: ExecutionResult, facts: SandboxFacts) -> str:
    if result.state_lost:
        return "Names of earlier calls are lost, files are kept."
    if facts.mode == "kernel":
        return "Names and files of earlier calls are kept."
    return "Files are kept."


def signal_name(number: int) -> str:
    """Give `SIGSEGV` for 11, and `signal 99` where a number has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _no_output(result: ExecutionResult) -> list[str]:
    if result.success:
        return ["no output: print what you need to see"]
    return ["no output"] if result.fault is None or ran(result.fault) else []


def _notes(
    result: ExecutionResult, facts: SandboxFacts, streams: list[Passage]
) -> list[str]:
    notes = state_notes(result)
    if result.state_lost and result.fault is None:
        notes.append("names of earlier calls are lost with their box, files are kept")
    if result.lossy:
        notes.append("output was not valid UTF-8; the bad bytes read U+FFFD")
    if result.truncated and not any(stream.origin for stream in streams):
        notes.append(f"output over {size(facts.max_output_bytes)} was discarded")
    return [f"note: {note}." for note in notes]


def _streams(result: ExecutionResult, facts: SandboxFacts) -> list[Passage]:
    most = facts.max_output_bytes
    streams = (
        ("stderr", escape(result.code_stderr), result.stderr_bytes),
        ("stdout", escape(result.stdout), result.stdout_bytes),
    )
    passages: list[Passage] = []
    for name, text, written in streams:
        over = result.truncated and written > most
        origin = f"first {size(most)} of {size(written)}" if over else ""
        if text:
            passages.append(Passage(name, text, origin))
    return passages


def _values(values: list[RichResult]) -> list[Passage]:
    shown = (escape(text_of(value) or "") for value in values[:_VALUES_MAX])
    texts = [text for text in shown if text]
    if len(texts) == 1:
        return [Passage("value", texts[0])]
    return [Passage(f"value {number}", text) for number, text in enumerate(texts, 1)]


def _values_left_out(result: ExecutionResult) -> list[str]:
    shown, more = result.results[:_VALUES_MAX], result.results[_VALUES_MAX:]
    lines = [
        f"value left out: {_short(', '.join(map(_form, value.formats())), 100)}"
        for value in shown
        if not can_be_shown(value)
    ]
    left_out = len(more) + result.results_omitted
    if left_out:
        lines.append(f"{count(left_out, 'more value')} left out")
    return lines


def _files(files: list[FileInfo], omitted: int, room: int) -> list[str]:
    named: list[str] = []
    for file in files[:_FILES_MAX]:
        size_bytes = count(file.size, "byte")
        row = f"{_quoted(shown_name(file.path))} ({size_bytes}, {file.change})"
        room -= len(row) + 2
        if room < 0:
            break
        named.append(row)
    more = len(files) - len(named) + omitted
    if more:
        named.append(f"{more:,} more" if named else count(more, "file"))
    return [f"files: {', '.join(named)}"] if named else []


def _form(mime: str) -> str:
    """Name a form of a value, whose MIME type is any text that the code chose."""
    return mime if _PLAIN_MIME.fullmatch(mime) else _in_quotes(escape_line(mime))


def _quoted(name: str) -> str:
    """Quote a name that could be taken for what stands around it."""
    return name if _PLAIN_NAME.fullmatch(name) else _in_quotes(name)


def _in_quotes(name: str) -> str:
    mark = next((mark for mark in "\"'`" if mark not in name), None)
    return f"{mark}{name}{mark}" if mark else json.dumps(name, ensure_ascii=False)


def _next(
    result: ExecutionResult, facts: SandboxFacts, timeout_s: float | None
) -> list[str]:
    hint = hint_for(result, facts)
    if hint is not None:
        return [f"next: {repair(hint, facts)}"]
    if result.fault is not None:
        return [f"next: {advice(result.fault, facts, timeout_s=timeout_s)}"]
    return []
