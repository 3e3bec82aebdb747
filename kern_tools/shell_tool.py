"""The shell tool of the OpenAI API: several commands, each with its own outcome.

A `shell_call` brings commands, in order, and limits on the time and the characters of
all of them together; each command is a call of `run_command`.

Source: `ResponseFunctionShellToolCall` of the OpenAI SDK.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field

from .arguments import read_arguments
from .code_tools import RUN_COMMAND, RunCommand
from .events import OnOutput, OutputEvent
from .reply import Reply, TextPart
from .reply_text import bad_arguments, text_reply, with_notes
from .result import ExecutionResult
from .sandbox import Sandbox
from .saying import saying
from .shell_output import ShellReply, output_of
from .toolspec import Arguments, ToolSpec

_SHELL = "shell"
_LEAST_S = 0.001


class ShellCommands(Arguments):
    """Arguments of `shell`: the `action` of a `shell_call`."""

    commands: list[str]
    """The commands to run, in order."""
    timeout_ms: float | None = Field(default=None, gt=0)
    """Milliseconds that all of them may take; the usual limit for each when null."""
    max_output_length: int | None = Field(default=None, ge=0)
    """The most characters to give back of all their output; the budget when null."""


def _run(
    sandbox: Sandbox,
    arguments: ShellCommands,
    call_id: str | None,
    on_output: OnOutput | None,
) -> Reply:
    script = _Script(sandbox, arguments, call_id, on_output)
    for step in script:
        with saying(takes_limit=False):  # That of the call is named otherwise.
            step.reply = RUN_COMMAND.run(
                sandbox, step.command, step.call_id, step.listener
            )
    return script.reply()


async def _arun(
    sandbox: Sandbox,
    arguments: ShellCommands,
    call_id: str | None,
    on_output: OnOutput | None,
) -> Reply:
    script = _Script(sandbox, arguments, call_id, on_output)
    for step in script:
        with saying(takes_limit=False):
            step.reply = await RUN_COMMAND.arun(
                sandbox, step.command, step.call_id, step.listener
            )
    return script.reply()


SHELL = ToolSpec(name=_SHELL, arguments=ShellCommands, run=_run, arun=_arun)


@dataclass(slots=True)
class _Step:
    """One command about to run; whoever runs it sets `reply`."""

    command: RunCommand
    call_id: str | None
    listener: OnOutput | None
    notes: tuple[str, ...]
    reply: Reply | None = None

    def answer(self) -> Reply:
        """Give the reply, with what was changed about the command."""
        assert self.reply is not None
        return with_notes(self.reply, self.notes)


class _Script:
    """The commands of one call; iterating gives those that can be run."""

    def __init__(
        self,
        sandbox: Sandbox,
        arguments: ShellCommands,
        call_id: str | None,
        on_output: OnOutput | None,
    ) -> None:
        self._arguments = arguments
        self._call_id = call_id
        self._on_output = on_output
        self._replies: list[Reply] = []
        most = arguments.max_output_length
        self._room = sandbox.config.budget.text_chars if most is None else most
        self._ends = None
        if arguments.timeout_ms is not None:
            self._ends = time.monotonic() + arguments.timeout_ms / 1000

    def __iter__(self) -> Iterator[_Step]:
        for number, written in enumerate(self._arguments.commands, 1):
            step = self._step(number, written)
            if isinstance(step, _Step):
                yield step
                self._replies.append(step.answer())
            else:
                self._replies.append(step)

    def _step(self, number: int, written: str) -> _Step | Reply:
        call_id = self._call_id
        if self._is_hopeless():
            why = "not run: the sandbox could not run the command before it."
            return text_reply(_SHELL, why, call_id, error="stopped")
        left_s = None if self._ends is None else self._ends - time.monotonic()
        if left_s is not None and left_s < _LEAST_S:
            why = "not run: the time of this call was over before its turn came."
            return text_reply(_SHELL, why, call_id, error="timeout")
        asked = {"command": written, "timeout_s": left_s}
        read = read_arguments(asked, RunCommand, code_field="command")
        if read.arguments is None:
            return bad_arguments(_SHELL, str(read.problem), call_id)
        listener = self._on_output
        if number > 1 and call_id is not None:
            # Kept output is named for the call: that of the first one has to stay.
            listener = _renamed(listener, call_id)
            call_id = f"{call_id}-{number}"
        return _Step(read.arguments, call_id, listener, read.repairs)

    def _is_hopeless(self) -> bool:
        results = (reply.result for reply in self._replies)
        return any(_is_operators(result) for result in results if result is not None)

    def reply(self) -> Reply:
        """Put the replies of all commands together."""
        if not self._replies:
            return bad_arguments(_SHELL, "`commands` is empty.", self._call_id)
        decided = _decisive(self._replies)
        text = _text(self._replies, decided)
        return ShellReply(
            name=_SHELL,
            parts=(TextPart(text),),
            result=self._result(decided, decided.result),
            stored=self._result(decided, decided.stored),
            error=decided.error,
            call_id=self._call_id,
            outputs=tuple(output_of(reply) for reply in self._replies),
            room=self._room,
            own_text=text,
        )

    def _result(
        self, decided: Reply, result: ExecutionResult | None
    ) -> ExecutionResult | None:
        """Give the result; where commands ran before, it is not worth a retry."""
        if result is None or decided is self._replies[0]:
            return result
        changed: dict[str, Any] = {"call_id": self._call_id or result.call_id}
        if result.fault is not None:
            changed["fault"] = result.fault.model_copy(update={"retryable": False})
        return result.model_copy(update=changed)


def _renamed(listener: OnOutput | None, call_id: str) -> OnOutput | None:
    if listener is None:
        return None

    def told(event: OutputEvent) -> None:
        listener(replace(event, call_id=call_id))

    return told


def _is_operators(result: ExecutionResult) -> bool:
    return result.fault is not None and result.fault.actor == "operator"


def _decisive(replies: Sequence[Reply]) -> Reply:
    faults = (reply for reply in replies if reply.fault_type is not None)
    failed = (r for r in replies if r.result is None or not r.result.success)
    return next(faults, None) or next(failed, replies[-1])


def _text(replies: Sequence[Reply], decided: Reply) -> str:
    if len(replies) == 1:
        return decided.text
    blocks = [
        f"command {number}: {reply.text}" for number, reply in enumerate(replies, 1)
    ]
    verdict = decided.text.split("\n", 1)[0]
    number = next(n for n, reply in enumerate(replies, 1) if reply is decided)
    return "\n".join([f"{verdict} (command {number} of {len(replies)})", *blocks])
