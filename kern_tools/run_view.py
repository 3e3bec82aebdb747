"""A run as a person is shown it: what was written, what came of it, who ended it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from .escaping import escape_line
from .jsontext import NotJson, is_object, read_json
from .markup import SVG
from .names import shown_name
from .quantities import count, seconds, size
from .rendering import signal_name, state_notes
from .reply import Reply
from .result import ExecutionResult, FileInfo, RichResult
from .run_record import Called, Ended
from .values import image_of, text_of

SHOWN_MAX_CHARS = 20_000
"""Longer text is shown by its head and its tail."""
_VALUES_MAX = 20
_FILES_MAX = 20
_INLINE_MAX_CHARS = 80
_PYTHON = "python"
CODE = ("code", "command")
"""The arguments that are a program, shown first and whole."""

State = Literal["running", "ok", "failed", "fault"]


@dataclass(frozen=True, slots=True)
class Block:
    """Text under a name of ours.

    Attributes:
        name: `stdout`, `value`, or the name of an argument; `code` for code.
        text: As it was written; a display has to make it safe.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """An image: base64, or SVG source where `mime` says so."""

    mime: str
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """What a display shows of one call.

    Attributes:
        tool: The tool's name, on one line.
        state: `fault` where the sandbox or we refused, `failed` where the code did.
        verdict: A word or two, such as `exit 1` or `timeout`.
        took: How long it took, with its unit; empty while it runs.
        language: What its code is written in.
        options: The short arguments, as `name=value`, on one line.
        wrote: The long ones, code first.
        streams: What was printed, stderr first.
        values: What the code showed, in its order.
        remarks: What else is to be known, each on one line: our words on a fault, what
            was lost or done again, the files that were changed.
        read: All that the model reads.
    """

    tool: str
    state: State
    verdict: str
    took: str
    language: str
    options: str
    wrote: tuple[Block, ...]
    streams: tuple[Block, ...]
    values: tuple[Block | Drawn, ...]
    remarks: tuple[str, ...]
    read: str


def view_of(call: Called) -> CallView:
    """Put together what is shown of a call, also while it runs."""
    reply = call.reply
    result = None if reply is None else reply.result
    state, verdict = _verdict(reply)
    language, options, wrote = _arguments(call.written)
    read = "" if reply is None else reply.text
    return CallView(
        tool=escape_line(call.tool),
        state=state,
        verdict=verdict,
        took="" if call.duration_ms is None else _took(call.duration_ms),
        language=language,
        options=options,
        wrote=wrote,
        streams=tuple(_streams(call, result)),
        values=tuple(_values(reply, result)),
        remarks=() if reply is None else tuple(_remarks(reply)),
        read=_clipped(read),
    )


def ending(entry: Ended) -> str:
    """Say in one line how a loop ended."""
    finished = entry.finished
    said = [f"ended: {finished.reason}", count(finished.turns, "turn")]
    if entry.elapsed_s is not None:
        said.append(seconds(round(entry.elapsed_s, 1)))
    if finished.input_tokens or finished.output_tokens:
        tokens = f"{finished.input_tokens:,} tokens in, {finished.output_tokens:,} out"
        said.append(tokens)
    return escape_line(", ".join(said))


def _took(duration_ms: float) -> str:
    if duration_ms < 1000:
        return f"{duration_ms:.0f} ms"
    return seconds(round(duration_ms / 1000, 1))


def _verdict(reply: Reply | None) -> tuple[State, str]:
    if reply is None:
        return "running", "running"
    if reply.fault_type is not None:
        return "fault", escape_line(str(reply.fault_type))
    if reply.error is not None:
        state: State = "fault" if reply.is_error else "failed"
        return state, escape_line(reply.error).replace("_", " ")
    if reply.result is None:
        return "ok", "ok"
    exit_code, signal = reply.result.exit_code, reply.result.signal
    ended = f"exit {exit_code}"
    if signal is not None:
        ended += f" ({signal_name(signal)})"
    return "failed" if exit_code else "ok", ended


def _remarks(reply: Reply) -> Iterator[str]:
    result = reply.result
    if reply.replayed:
        yield "the first reply to this call, given again; nothing ran"
    if reply.repeats:
        yield f"the same call had failed {count(reply.repeats, 'time')} in a row before"
    if result is None:
        return
    if result.fault is not None:  # what the model is told first, or the fault's own
        yield escape_line(reply.text.partition("\n")[0] or result.fault.message)
    yield from state_notes(result)
    if result.attempts > 1:
        yield f"made {count(result.attempts, 'time')}"
    if result.raised_timeout_s is not None:
        yield f"with its limit raised to {seconds(result.raised_timeout_s)}"
    if result.files or result.files_omitted:
        yield f"files: {_files(result.files, result.files_omitted)}"


def _arguments(written: str | None) -> tuple[str, str, tuple[Block, ...]]:
    """Give the language, the short arguments and the long; what is no JSON is code."""
    if not written:
        return _PYTHON, "", ()
    try:
        read, _ = read_json(written)
    except NotJson:
        return _PYTHON, "", (Block("code", _clipped(written)),)
    if not is_object(read):
        return _PYTHON, "", (Block("arguments", _clipped(written)),)
    given = {name: value for name, value in read.items() if value is not None}
    long = [name for name, value in given.items() if _is_long(name, value)]
    short = (f"{n}={_json(v)}" for n, v in given.items() if n not in long)
    names = sorted(long, key=lambda name: name not in CODE)
    names = sorted(long, key=lambda name: name not in CODE)
    blocks = (Block(escape_line(n), _clipped(_text(given[n]))) for n in names)
    language = given.get("language", "bash" if "command" in given else _PYTHON)
    return str(language), escape_line(", ".join(short)), tuple(blocks)


def _is_long(name: str, value: Any) -> bool:
    return name in CODE or len(_json(value)) > _INLINE_MAX_CHARS or "\n" in str(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _streams(call: Called, result: ExecutionResult | None) -> Iterator[Block]:
    if result is not None:
        texts = {"stderr": result.code_stderr, "stdout": result.stdout}
    elif call.reply is None:
        texts = {name: call.streams.get(name, "") for name in ("stderr", "stdout")}
    else:  # no code ran: what the tool answered is all there is
        texts = {"reply": call.reply.text}
    for name, text in texts.items():
        if text:
            yield Block(name, _clipped(text))


def _values(
    reply: Reply | None, result: ExecutionResult | None
) -> Iterator[Block | Drawn]:
    values = [] if result is None else result.results
    for value in values[:_VALUES_MAX]:
        yield from _value(value)
    if len(values) > _VALUES_MAX:
        yield Block("more", f"{count(len(values) - _VALUES_MAX, 'value')} not shown")
    # An artifact may lack the images, which were too large for it; the reply has them.
    if reply is not None and not any(map(image_of, values)):
        for image in reply.images:
            yield Drawn(image.mime, image.base64)


def _value(value: RichResult) -> Iterator[Block | Drawn]:
    image = image_of(value)
    if image is not None:
        yield Drawn(*image)
    elif value.svg is not None:
        yield Drawn(SVG, value.svg)
    text = text_of(value) if image is not None or value.svg is None else value.text
    if text:
        yield Block("value", _clipped(text))


def _files(files: list[FileInfo], omitted: int) -> str:
    named = [
        f"{shown_name(file.path)} ({size(file.size)}, {file.change})"
        for file in files[:_FILES_MAX]
    ]
    more = len(files) - len(named) + omitted
    return ", ".join([*named, *([f"{more:,} more"] if more else [])])


def _clipped(text: str) -> str:
    excess = len(text) - SHOWN_MAX_CHARS
    if excess <= 0:
        return text
    half = SHOWN_MAX_CHARS // 2
    gap = f"\n[{count(excess, 'character')} not shown]\n"
    return f"{text[:half]}{gap}{text[-half:]}"
