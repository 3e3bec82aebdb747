"""Code run once, in a sandbox of its own that is gone afterwards."""

from __future__ import annotations

from typing import Any

from .faults import SandboxError
from .result import ExecutionResult
from .sandbox import Sandbox


def run_code(code: str, language: str = "python", **options: Any) -> ExecutionResult:
    """Run code once, in a sandbox of its own that is gone afterwards.

    Args:
        code: The source.
        language: `python`, `bash`, `sh` or `node`.
        **options: Those of `SandboxConfig`.

    Returns:
        As from `Sandbox.run_code`; a sandbox that cannot be opened is the fault
        `startup_failed`.

    Raises:
        ConfigError: An option cannot be used.
    """
    sandbox = Sandbox(**{"prewarm": 0, **options})
    try:
        sandbox.open()
    except SandboxError as error:
        return _unopened(error)
    with sandbox:
        return sandbox.run_code(code, language)


async def arun_code(
    code: str, language: str = "python", **options: Any
) -> ExecutionResult:
    """Do as `run_code`, without blocking the event loop."""
    sandbox = Sandbox(**{"prewarm": 0, **options})
    try:
        await sandbox.__aenter__()
    except SandboxError as error:
        return _unopened(error)
    async with sandbox:
        return await sandbox.arun_code(code, language)


def _unopened(error: SandboxError) -> ExecutionResult:
    if error.fault is None:
        raise error
    return ExecutionResult(fault=error.fault, exit_code=125)
