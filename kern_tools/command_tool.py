"""The tool that runs a shell command."""

from __future__ import annotations

from functools import partial

from pydantic import BaseModel, ConfigDict, Field

from .events import OnOutput
from .names import BOX_ROOT
from .programs import arun_first, run_first
from .reply import Reply
from .runs import Run
from .sandbox import Sandbox
from .toolspec import ToolSpec

_NAME = "run_command"
_SHELLS = ("bash", "sh")


class RunCommand(BaseModel):
    """Arguments of `run_command`."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    command: str
    """A line of shell, or a script of several."""
    timeout_s: float | None = Field(default=None, ge=0.001)
    """Seconds after which the run is stopped; the usual limit when null."""


def _run(
    sandbox: Sandbox,
    arguments: RunCommand,
    call_id: str | None,
    on_output: OnOutput | None = None,
) -> Reply:
    run = Run.of(sandbox, _NAME, arguments.timeout_s)
    script = _script(sandbox, arguments.command)
    _, result = run_first(
        sandbox,
        {
            shell: partial(run.of_code, sandbox, script, shell, call_id, on_output)
            for shell in _SHELLS
        },
    )
    return run.reply(sandbox, result, call_id)


async def _arun(
    sandbox: Sandbox,
    arguments: RunCommand,
    call_id: str | None,
    on_output: OnOutput | None = None,
) -> Reply:
    run = Run.of(sandbox, _NAME, arguments.timeout_s)
    script = _script(sandbox, arguments.command)
    _, result = await arun_first(
        sandbox,
        {
            shell: partial(run.aof_code, sandbox, script, shell, call_id, on_output)
            for shell in _SHELLS
        },
    )
    return run.reply(sandbox, result, call_id)


def _script(sandbox: Sandbox, command: str) -> str:
    # A kernel's commands would begin in the directory that the last cell went to.
    return f"cd {BOX_ROOT}; {command}" if sandbox.config.mode == "kernel" else command


RUN_COMMAND = ToolSpec(
    name=_NAME,
    arguments=RunCommand,
    run=_run,
    arun=_arun,
    run_streaming=_run,
    arun_streaming=_arun,
    code_field="command",
)
