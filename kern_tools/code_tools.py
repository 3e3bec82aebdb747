"""The tool that runs code."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from .artifact import bounded
from .facts import SandboxFacts
from .faults import SandboxClosed, WorkspaceError
from .rendering import render
from .reply import ImagePart, Reply
from .result import ExecutionResult
from .sandbox import Sandbox
from .toolspec import ToolSpec, with_notes


class RunCode(BaseModel):
    """Arguments of `run_code`."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    code: str
    """The source to run, whole and as it is: no markdown fence around it."""
    language: Literal["python", "bash", "sh", "node"] | None = None
    """What the source is written in; python when null."""
    timeout_s: float | None = Field(default=None, ge=0.001)
    """Seconds after which the run is stopped; the usual limit when null."""


def _run(sandbox: Sandbox, arguments: RunCode, call_id: str | None) -> Reply:
    request = _Request.of(sandbox, arguments)
    result = sandbox.run_code(
        arguments.code, request.language, timeout_s=request.timeout_s, call_id=call_id
    )
    return request.reply(sandbox, result, call_id)


async def _arun(sandbox: Sandbox, arguments: RunCode, call_id: str | None) -> Reply:
    request = _Request.of(sandbox, arguments)
    result = await sandbox.arun_code(
        arguments.code, request.language, timeout_s=request.timeout_s, call_id=call_id
    )
    return request.reply(sandbox, result, call_id)


@dataclass(frozen=True, slots=True)
class _Request:
    """What the arguments come to in one sandbox."""

    language: str
    timeout_s: float | None
    facts: SandboxFacts
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, sandbox: Sandbox, arguments: RunCode) -> Self:
        facts = sandbox.describe()
        language, most = arguments.language or "python", facts.timeout_max_s
        if arguments.timeout_s is None or arguments.timeout_s <= most:
            return cls(language, arguments.timeout_s, facts)
        note = f"ran with timeout_s {most:g}, the most that this sandbox allows"
        return cls(language, most, facts, (note,))

    def reply(
        self, sandbox: Sandbox, result: ExecutionResult, call_id: str | None
    ) -> Reply:
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
            name="run_code",
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


RUN_CODE = ToolSpec(
    name="run_code", arguments=RunCode, run=_run, arun=_arun, code_field="code"
)
