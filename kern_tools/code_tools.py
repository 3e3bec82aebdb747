"""The tools that run code, and a shell command."""

from __future__ import annotations

from functools import partial

from pydantic import Field

from .events import OnOutput
from .languages import Language
from .names import BOX_ROOT
from .reply import Reply
from .runspec import Run, arun_first, run_first
from .sandbox import Sandbox
from .toolspec import Arguments, ToolSpec

_CODE, _COMMAND = "run_code", "run_command"
_SHELLS = ("bash", "sh")


class RunCode(Arguments):
    """Arguments of `run_code`."""

    code: str
    """The source to run, whole and as it is: no markdown fence around it."""
    language: Language | None = None
    """What the source is written in; python when null."""
    timeout_s: float | None = Field(default=None, ge=0.001)
    """Seconds after which the run is stopped; the usual limit when null."""


class RunCommand(Arguments):
    """Arguments of `run_command`."""

    command: str
    """A line of shell, or a script of several."""
    timeout_s: float | None = Field(default=None, ge=0.001)
    """Seconds after which the run is stopped; the usual limit when null."""


def _run_code(
    sandbox: Sandbox,
    arguments: RunCode,
    call_id: str | None,
    on_output: OnOutput | None,
) -> Reply:
    run = Run.of(sandbox, _CODE, call_id, arguments.timeout_s, on_output)
    return run.reply(run.code(arguments.code, arguments.language or "python"))


async def _arun_code(
    sandbox: Sandbox,
    arguments: RunCode,
    call_id: str | None,
    on_output: OnOutput | None,
) -> Reply:
    run = Run.of(sandbox, _CODE, call_id, arguments.timeout_s, on_output)
    return run.reply(await run.acode(arguments.code, arguments.language or "python"))


RUN_CODE = ToolSpec(
    name=_CODE, arguments=RunCode, run=_run_code, arun=_arun_code, code_field="code"
)


def _run_command(
    sandbox: Sandbox,
    arguments: RunCommand,
    call_id: str | None,
    on_output: OnOutput | None,
) -> Reply:
    run = Run.of(sandbox, _COMMAND, call_id, arguments.timeout_s, on_output)
    script = _script(sandbox, arguments.command)
    ways = {shell: partial(run.code, script, shell) for shell in _SHELLS}
    return run.reply(run_first(sandbox, ways)[1])


async def _arun_command(
    sandbox: Sandbox,
    arguments: RunCommand,
    call_id: str | None,
    on_output: OnOutput | None,
) -> Reply:
    run = Run.of(sandbox, _COMMAND, call_id, arguments.timeout_s, on_output)
    script = _script(sandbox, arguments.command)
    ways = {shell: partial(run.acode, script, shell) for shell in _SHELLS}
    return run.reply((await arun_first(sandbox, ways))[1])


def _script(sandbox: Sandbox, command: str) -> str:
    # A kernel's commands would begin in the directory that the last cell went to.
    return f"cd {BOX_ROOT}; {command}" if sandbox.config.mode == "kernel" else command


RUN_COMMAND = ToolSpec(
    name=_COMMAND,
    arguments=RunCommand,
    run=_run_command,
    arun=_arun_command,
    code_field="command",
)
