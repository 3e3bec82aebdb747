"""Deadlines that pass before any code has run."""

from __future__ import annotations

from pathlib import Path

import pytest

from kern_tools import Sandbox

from .standstill import Standstill


@pytest.fixture
def standstill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Standstill:
    """Give a way to hold up the boxes of one test."""
    return Standstill(monkeypatch, tmp_path)


def test_a_box_that_is_slow_to_build_did_not_time_out(standstill: Standstill) -> None:
    """The deadline before any code ran is `startup_failed`, and worth a second try."""
    with Sandbox() as sandbox, standstill.held():
        result = sandbox.run_code("print('late')", timeout_s=1)

    assert result.fault is not None
    assert (result.fault.type, result.fault.reason) == ("startup_failed", "slow_build")
    assert result.fault.retryable
    assert (result.stdout, result.exit_code) == ("", 125)


def test_the_same_call_works_once_boxes_build_again(standstill: Standstill) -> None:
    """A sandbox whose box was never built is as usable as before."""
    with Sandbox() as sandbox:
        with standstill.held():
            sandbox.run_code("print('late')", timeout_s=1)
        result = sandbox.run_code("print('in time')")

    assert (result.stdout, result.fault) == ("in time\n", None)


def test_boxes_that_are_not_ready_are_told_as_such(standstill: Standstill) -> None:
    """`wait_ready` waits no longer than it is let, and until they are where it may."""
    with standstill.held(), Sandbox(prewarm=1) as sandbox:
        assert not sandbox.wait_ready(0)
    with Sandbox(prewarm=1) as sandbox:
        assert sandbox.wait_ready(60)
