"""Programs an image may lack, for which another one will do.

Which it lacks is learnt from use: a program that is not there runs nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TypeVar

from .faults import FaultType
from .result import ExecutionResult
from .sandbox import Sandbox

_ABSENT: set[tuple[str, str]] = set()  # image and program
_T = TypeVar("_T")


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
        if name == last or (sandbox.config.image, name) not in _ABSENT:
            yield name, run


def _lacks(sandbox: Sandbox, program: str, result: ExecutionResult) -> bool:
    fault = result.fault
    if fault is None or fault.type != FaultType.EXEC_FAILED:
        return False
    if fault.reason != "not_found":
        return False
    _ABSENT.add((sandbox.config.image, program))
    return True


def _after(tried: ExecutionResult | None, result: ExecutionResult) -> ExecutionResult:
    """Keep what a call that ran nothing had to tell of the box before it."""
    if tried is None:
        return result
    told = {"state_new": tried.state_new, "files_lost": tried.files_lost}
    return result.model_copy(update={name: True for name, on in told.items() if on})
