"""What came of the commands of a `shell_call`, in the words of the OpenAI API.

Source: `ResponseFunctionShellCallOutputContent` of the OpenAI SDK.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .escaping import escape
from .faults import FaultType
from .quantities import count
from .reply import Reply
from .result import ExecutionResult

_NOT_RUN = 126
"""What a shell gives for a command that it cannot execute."""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What came of one command, as a `shell_call_output` has it.

    Attributes:
        stdout: What it wrote, made safe to show.
        stderr: The same; where the sandbox has something to say, that comes first.
        exit_code: Its exit code, or None where its time was over.
    """

    stdout: str
    stderr: str
    exit_code: int | None

    @property
    def content(self) -> dict[str, Any]:
        """An element of the item's `output`."""
        outcome: dict[str, Any] = {"type": "timeout"}
        if self.exit_code is not None:
            outcome = {"type": "exit", "exit_code": self.exit_code}
        return {"stdout": self.stdout, "stderr": self.stderr, "outcome": outcome}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellReply(Reply):
    """The reply to a `shell_call`; `result` is that of the command that decided.

    That is the first one with a fault, else the first one that failed, else the last.

    Attributes:
        outputs: What came of each command, in order.
        room: How many characters of them there is room for.
        own_text: The text before anything was put above it, or a note into it.
    """

    outputs: tuple[CommandOutput, ...]
    room: int
    own_text: str


def shell_contents(reply: Reply) -> list[dict[str, Any]]:
    """Give the `output` of a `shell_call_output`.

    Args:
        reply: What answers the call; one that ran nothing is told as one command that
            could not be executed.

    Returns:
        One content for each command, in order, within `max_output_length`; what was
        added to the reply is in the first one.
    """
    if not isinstance(reply, ShellReply):
        return [CommandOutput("", reply.text, _NOT_RUN).content]
    first, *others = reply.outputs
    first = replace(first, stderr=_above(_added(reply), first.stderr))
    return [output.content for output in _within((first, *others), reply.room)]


def output_of(reply: Reply) -> CommandOutput:
    """Make the output of one command of the reply to it."""
    result = reply.result
    if result is None:
        code = None if reply.error == "timeout" else _NOT_RUN
        return CommandOutput("", reply.text, code)
    timed_out = result.fault_type == FaultType.TIMEOUT
    return CommandOutput(
        escape(result.stdout),
        _above(_verdict(reply, result), escape(result.code_stderr)),
        None if timed_out else result.exit_code,
    )


def _verdict(reply: Reply, result: ExecutionResult) -> str:
    """Give what the sandbox has to say: the lines of its own in a reply."""
    first, *lines = reply.text.split("\n")
    notes = _leading_notes(lines)
    if result.fault is None:
        return "\n".join(notes)
    advice = [line for line in lines[-1:] if line.startswith("next: ")]
    return "\n".join([first, *notes, *advice])


def _leading_notes(lines: Sequence[str]) -> list[str]:
    notes: list[str] = []
    for line in lines:
        if not line.startswith("note: "):
            break
        notes.append(line)
    return notes


def _added(reply: ShellReply) -> str:
    """Give the lines above the verdict that are not the reply's own, and its notes."""
    lines, own = reply.text.split("\n"), reply.own_text.split("\n")
    verdict = lines.index(own[0])
    after = 1 + len(lines) - len(own)
    return "\n".join([*lines[:verdict], *lines[verdict + 1 : after]])


def _above(said: str, stderr: str) -> str:
    return f"{said}\n{stderr}" if said else stderr


def _within(outputs: Sequence[CommandOutput], room: int) -> Iterator[CommandOutput]:
    """Share `room` characters: what one command does not need is left to the others."""
    for number, output in enumerate(outputs):
        share = room // (len(outputs) - number)
        needed = len(output.stdout)
        stderr = _cut(output.stderr, max(share // 2, share - needed))
        stdout = _cut(output.stdout, share - len(stderr))
        room -= len(stdout) + len(stderr)
        yield replace(output, stdout=stdout, stderr=stderr)


def _cut(text: str, room: int) -> str:
    """Keep head and tail, with what is missing counted between them."""
    if len(text) <= room:
        return text
    mark = f"\n[{count(len(text), 'character')}, cut here]\n"
    shown = room - len(mark)
    if shown < len(mark):
        return text[: max(room, 0)]
    return text[: shown - shown // 2] + mark + text[len(text) - shown // 2 :]
