"""The official binding as an oracle: same cell, same verdict, or a reason why not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import kern_sandbox  # pyright: ignore[reportMissingTypeStubs]
import pytest

from kern_tools import ExecutionResult, Sandbox
from kern_tools.image import ensure_image
from tests.depth import partly

from .cases import CASES, Case


@pytest.fixture(scope="module")
def reference() -> str:
    """The image both engines use."""
    return ensure_image().reference


@pytest.fixture
def sandboxes(reference: str, case: Case) -> Iterator[tuple[Sandbox, Any]]:
    """The same sandbox twice: ours and the binding's."""
    options: dict[str, Any] = {"timeout_s": 20, **case.options}
    theirs: dict[str, Any] = {"max_output_bytes": 1 << 20, **options}
    with ExitStack() as opened:
        ours = opened.enter_context(Sandbox(prewarm=0, **options))
        binding = kern_sandbox.Sandbox(image=reference, pyc_cache=False, **theirs)
        opened.enter_context(binding)
        for sandbox in (ours, binding):
            sandbox.write_file("seed.txt", "1")
        yield ours, binding


def run(sandbox: Any, case: Case) -> Any:
    """Run a case the way both engines spell it."""
    if case.argv:
        return sandbox.run(list(case.argv))
    return sandbox.run_code(case.code, language=case.language)


def ours_as_fields(result: ExecutionResult) -> dict[str, Any]:
    """What of our result is compared."""
    return {
        "stdout": result.stdout,
        "code_stderr": result.code_stderr,
        "exit_code": result.exit_code,
        "fault": result.fault_type and str(result.fault_type),
        "success": result.success,
        "truncated": result.truncated,
        "files": sorted((file.path, file.change) for file in result.files),
        "results": [value.data for value in result.results],
    }


def theirs_as_fields(result: Any) -> dict[str, Any]:
    """The same of the binding's."""
    return {
        "stdout": result.stdout,
        "code_stderr": result.code_stderr,
        "exit_code": result.exit_code,
        "fault": result.fault and result.fault.type,
        "success": result.success,
        "truncated": result.truncated,
        "files": sorted((file.path, file.change) for file in result.files),
        "results": [value.data for value in result.results],
    }


# What the contracts show of our engine alone is compared whole in `make verify`.
@pytest.mark.parametrize(
    "case",
    partly(CASES, lambda case: CASES.index(case) % 5 == 0),
    ids=lambda case: case.name,
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning:kern_sandbox")
def test_both_engines_say_the_same(case: Case, sandboxes: tuple[Sandbox, Any]) -> None:
    """Field by field; a difference is listed with its reason, and is one."""
    ours, binding = sandboxes
    mine = ours_as_fields(run(ours, case))
    if case.raises is not None:
        with pytest.raises(kern_sandbox.SandboxError):
            run(binding, case)
        return
    other = theirs_as_fields(run(binding, case))
    seen = {
        name: (mine[name], other[name]) for name in mine if mine[name] != other[name]
    }
    assert seen.keys() == case.differs.keys(), seen


def test_the_table_is_large_enough_to_mean_something() -> None:
    """At least sixty cells, each under a name of its own."""
    assert len({case.name for case in CASES}) == len(CASES) >= 60
