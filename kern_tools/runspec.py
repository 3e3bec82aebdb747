"""What the tools that run something share: the call's limit, its reply, its program."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

from .events import OnOutput
from .facts import SandboxFacts
from .faults import FaultType, SandboxClosed, WorkspaceError
from .rendering import render
from .reply import ImagePart, Reply, bounded
from .reply_text import note_lines, with_notes
from .result import ExecutionResult
from .sandbox import Sandbox
from .saying import advisable, room_left, saying

if TYPE_CHECKING:
    from .streaming import CallStream

_ABSENT: set[tuple[str, str]] = set()
"""Image and program, as learnt from use: a program that is not there runs nothing."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Run:
    """One call of a tool, and what it comes to in its sandbox.

    Attributes:
        sandbox: Where it runs.
        tool: The tool that was called.
        call_id: The framework's id of the call.
        facts: What is true of the sandbox.
        timeout_s: The call's limit; None for the usual one.
        notes: Clauses for the model on what was changed about the call.
        on_output: Who listens to the code, or None.
    """

    sandbox: Sandbox
    tool: str
    call_id: str | None
    facts: SandboxFacts
    timeout_s: float | None = None
    notes: tuple[str, ...] = ()
    on_output: OnOutput | None = None

    @classmethod
    def of(
        cls,
        sandbox: Sandbox,
        tool: str,
        call_id: str | None,
        timeout_s: float | None = None,
        on_output: OnOutput | None = None,
    ) -> Self:
        """Bring the limit that a model asked for within what the sandbox allows."""
        facts = sandbox.describe()
        most = facts.timeout_max_s
        notes: tuple[str, ...] = ()
        if timeout_s is not None and timeout_s > most:
            timeout_s = most
            notes = (f"ran with timeout_s {most:g}, the most that this sandbox allows",)
        facts = advisable(facts)
        return cls(sandbox, tool, call_id, facts, timeout_s, notes, on_output)

    def code(self, code: str, language: str) -> ExecutionResult:
        """Run code within the limit."""
        if self.on_output is not None:
            return self._stream(code, language).run(self.on_output)
        return self.sandbox.run_code(
            code, language, timeout_s=self.timeout_s, call_id=self.call_id
        )

    async def acode(self, code: str, language: str) -> ExecutionResult:
        """Do the same, natively async."""
        if self.on_output is not None:
            return await self._stream(code, language).arun(self.on_output)
        return await self.sandbox.arun_code(
            code, language, timeout_s=self.timeout_s, call_id=self.call_id
        )

    def _stream(self, code: str, language: str) -> CallStream:
        return self.sandbox.stream_code(
            code, language, timeout_s=self.timeout_s, call_id=self.call_id
        )

    def reply(self, result: ExecutionResult) -> Reply:
        """Say what came of it; what there is no room for is kept in files."""
        keeper = _Keeper(self.sandbox, result.call_id or "call")
        budget = self.sandbox.config.budget
        with saying(note_lines(self.notes)):
            room = room_left(budget)
        parts = render(
            result,
            facts=self.facts,
            budget=room,
            timeout_s=self.timeout_s,
            spill=keeper.spill,
            save_image=keeper.save_image,
        )
        reply = Reply(
            name=self.tool,
            parts=parts,
            result=result,
            stored=bounded(result, budget),
            call_id=self.call_id,
        )
        return with_notes(reply, self.notes)


@dataclass(frozen=True, slots=True)
class _Keeper:
    """Keeps what a reply has no room for; where it cannot, the reply names no file."""

    sandbox: Sandbox
    call_id: str

    def spill(self, text: str) -> str | None:
        with suppress(WorkspaceError, SandboxClosed):
            return self.sandbox.workspace.spill(self.call_id, text)
        return None

    def save_image(self, number: int, image: ImagePart) -> str | None:
        with suppress(WorkspaceError, SandboxClosed):
            return self.sandbox.workspace.keep_image(
                self.call_id, number, image.mime, image.data
            )
        return None


def run_first(
    sandbox: Sandbox, ways: Mapping[str, Callable[[], ExecutionResult]]
) -> tuple[str, ExecutionResult]:
    """Run the first program that the image has.

    Args:
        sandbox: Where it runs.
        ways: How to run each, by its name, the best first.

    Returns:
        The program, and what came of it: of the last one where there is none.
    """
    tried: ExecutionResult | None = None
    name, result = "", None
    for name, run in _worth_trying(sandbox, ways):
        result = _after(tried, run())
        if not _lacks(sandbox, name, result):
            break
        tried = result
    assert result is not None
    return name, result


async def arun_first(
    sandbox: Sandbox, ways: Mapping[str, Callable[[], Awaitable[ExecutionResult]]]
) -> tuple[str, ExecutionResult]:
    """Do as `run_first`, natively async."""
    tried: ExecutionResult | None = None
    name, result = "", None
    for name, run in _worth_trying(sandbox, ways):
        result = _after(tried, await run())
        if not _lacks(sandbox, name, result):
            break
        tried = result
    assert result is not None
    return name, result


def _worth_trying(sandbox: Sandbox, ways: Mapping[str, _T]) -> Iterator[tuple[str, _T]]:
    *_, last = ways
    for name, run in ways.items():
        if name == last or not _is_absent(sandbox, name):
            yield name, run


def _lacks(sandbox: Sandbox, program: str, result: ExecutionResult) -> bool:
    fault = result.fault
    if fault is None or fault.type != FaultType.EXEC_FAILED:
        return False
    if fault.reason != "not_found":
        return False
    if _is_of_image(sandbox):
        _ABSENT.add((sandbox.config.image, program))
    return True


def _is_absent(sandbox: Sandbox, program: str) -> bool:
    return _is_of_image(sandbox) and (sandbox.config.image, program) in _ABSENT


def _is_of_image(sandbox: Sandbox) -> bool:
    """Whether the image alone says what is found; a `PATH` may lead past it."""
    return "PATH" not in sandbox.config.env


def _after(tried: ExecutionResult | None, result: ExecutionResult) -> ExecutionResult:
    """Keep what a call that ran nothing had to tell of the box before it."""
    if tried is None:
        return result
    told = {"state_new": tried.state_new, "files_lost": tried.files_lost}
    return result.model_copy(update={name: True for name, on in told.items() if on})
