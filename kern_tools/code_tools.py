"""The tool that runs code."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from .events import OnOutput
from .reply import Reply
from .runs import Run
from .sandbox import Sandbox
from .toolspec import ToolSpec


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


def _run(
    sandbox: Sandbox,
    arguments: RunCode,
    call_id: str | None,
    on_output: OnOutput | None = None,
) -> Reply:
    run = Run.of(sandbox, "run_code", arguments.timeout_s)
    code, language = arguments.code, arguments.language or "python"
    result = run.of_code(sandbox, code, language, call_id, on_output)
    return run.reply(sandbox, result, call_id)


async def _arun(
    sandbox: Sandbox,
    arguments: RunCode,
    call_id: str | None,
    on_output: OnOutput | None = None,
) -> Reply:
    run = Run.of(sandbox, "run_code", arguments.timeout_s)
    code, language = arguments.code, arguments.language or "python"
    result = await run.aof_code(sandbox, code, language, call_id, on_output)
    return run.reply(sandbox, result, call_id)


RUN_CODE = ToolSpec(
    name="run_code",
    arguments=RunCode,
    run=_run,
    arun=_arun,
    run_streaming=_run,
    arun_streaming=_arun,
    code_field="code",
)
