"""What the tools that run something share: the limit of a call, and its reply."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from .artifact import bounded
from .events import OnOutput
from .facts import SandboxFacts
from .faults import SandboxClosed, WorkspaceError
from .rendering import render
from .reply import ImagePart, Reply
from .result import ExecutionResult
from .sandbox import Sandbox
from .toolspec import with_notes


@dataclass(frozen=True, slots=True)
class Run:
    """What one call comes to in one sandbox.

    Attributes:
        tool: The tool that was called.
        timeout_s: The call's limit; None for the usual one.
        facts: What is true of the sandbox.
        notes: Clauses for the model on what was changed about the call.
    """

    tool: str
    timeout_s: float | None
    facts: SandboxFacts
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, sandbox: Sandbox, tool: str, timeout_s: float | None) -> Self:
        """Bring the limit that a model asked for within what the sandbox allows."""
        facts = sandbox.describe()
        most = facts.timeout_max_s
        if timeout_s is None or timeout_s <= most:
            return cls(tool, timeout_s, facts)
        note = f"ran with timeout_s {most:g}, the most that this sandbox allows"
        return cls(tool, most, facts, (note,))

    def of_code(
        self,
        sandbox: Sandbox,
        code: str,
        language: str,
        call_id: str | None,
        on_output: OnOutput | None = None,
    ) -> ExecutionResult:
        """Run code within the limit, for a caller who may listen."""
        limit_s = self.timeout_s
        if on_output is None:
            return sandbox.run_code(code, language, timeout_s=limit_s, call_id=call_id)
        call = sandbox.stream_code(code, language, timeout_s=limit_s, call_id=call_id)
        return call.run(on_output)

    async def aof_code(
        self,
        sandbox: Sandbox,
        code: str,
        language: str,
        call_id: str | None,
        on_output: OnOutput | None = None,
    ) -> ExecutionResult:
        """Do the same, natively async."""
        limit_s = self.timeout_s
        if on_output is None:
            return await sandbox.arun_code(
                code, language, timeout_s=limit_s, call_id=call_id
            )
        call = sandbox.stream_code(code, language, timeout_s=limit_s, call_id=call_id)
        return await call.arun(on_output)

    def reply(
        self, sandbox: Sandbox, result: ExecutionResult, call_id: str | None
    ) -> Reply:
        """Say what came of it; what there is no room for is kept in files."""
        keeper = _Keeper(sandbox, result.call_id or "call")
        budget = sandbox.config.budget
        parts = render(
            result,
            facts=self.facts,
            budget=budget,
            timeout_s=self.timeout_s,
            spill=keeper.spill,
            save_image=keeper.save_image,
        )
        reply = Reply(
            name=self.tool,
            parts=parts,
            result=result,
            stored=bounded(result, budget),
            call_id=call_id,
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
