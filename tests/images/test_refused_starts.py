"""Boxes without our driver, whose network kern filters, or could not filter.

kern starts a box before its filter listens, and ends it if that fails.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kern_tools import Sandbox
from tests.refusals import FILTERED, Refusals

CALLS = 60


RAN, REFUSED = ("ran\n", None, 1), ("", "startup_failed", 0)


def test_a_short_command_is_told_as_what_it_was(busybox: str) -> None:
    """With eight at a time the filter is late for many.

    A box that kern refuses at times, for a race of its own, has run nothing.
    """

    def call(number: int) -> tuple[str, str | None, int]:
        result = sandbox.run(["sh", "-c", f"echo ran >> log-{number}; echo ran"])
        log = sandbox.workspace.root / f"log-{number}"
        fault = None if result.fault is None else str(result.fault.type)
        return result.stdout, fault, len(log.read_text().split()) if log.exists() else 0

    with (
        Sandbox(image=busybox, max_running=8, **FILTERED) as sandbox,
        ThreadPoolExecutor(8) as threads,
    ):
        seen = Counter(threads.map(call, range(CALLS)))
    assert seen.keys() <= {RAN, REFUSED}
    assert seen[REFUSED] < CALLS / 10


@pytest.mark.parametrize(
    ("image", "says"),
    [("busybox", "none of the code ran"), ("shell_less", "the code may have run")],
)
def test_a_refused_command_is_told_and_not_run_again(
    request: pytest.FixtureRequest,
    image: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Without a shell nothing waits for the filter, so that it may have run."""
    refusals = Refusals(tmp_path)
    monkeypatch.setenv("KERN_BIN", str(refusals.program))
    options = {**FILTERED, "env": {"A": "b"}}
    with Sandbox(image=request.getfixturevalue(image), **options) as sandbox:
        refusals.plan(1)
        result = sandbox.run(["echo", "never"])
        assert result.fault is not None
        assert (result.fault.type, result.stdout) == ("startup_failed", "")
        assert says in result.fault.message
        assert "the port never came up" in "\n".join(result.runtime_notes)
        assert refusals.starts == 1
