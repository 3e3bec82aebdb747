"""What a result says of a call's times: queued, until its box was ready, in the box."""

from __future__ import annotations

from pathlib import Path

import pytest

from kern_tools import Sandbox, SandboxPool
from kern_tools.tools import tools_of

from .lending import held_up
from .standstill import Standstill
from .traces import Traces, attributes


@pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
def test_a_box_that_is_started_for_a_call_is_no_warm_one(mode: str) -> None:
    """The first call of a session waits for its box, the next one finds it there."""
    with Sandbox(mode=mode, prewarm=0) as sandbox:
        first, second = sandbox.run_code("1"), sandbox.run_code("2")
    assert first.warm is False
    assert first.start_ms is not None
    assert 0 < first.start_ms <= first.duration_ms
    assert second.warm is (mode != "fresh")
    assert (second.start_ms == 0) is (mode != "fresh")


def test_a_call_that_takes_a_waiting_box_is_a_warm_hit() -> None:
    """Nothing had to be started for it, whatever it runs."""
    with Sandbox() as sandbox:
        for argv in (None, ["true"]):
            assert sandbox.wait_ready()
            result = sandbox.run(argv) if argv else sandbox.run_code("1")
            assert (result.warm, result.start_ms) == (True, 0)


def test_a_kernel_that_is_set_up_first_was_started_for_its_call() -> None:
    """The time that took is in the queue's."""
    with Sandbox(mode="kernel", setup_code="x = 1") as sandbox:
        sandbox.run_code("import os; os._exit(0)")
        result = sandbox.run_code("x")
    assert (result.warm, result.start_ms, result.state_new) == (False, 0, True)


def test_a_box_that_is_never_ready_only_starts(standstill: Standstill) -> None:
    """All of its time went into that."""
    with Sandbox(timeout_s=0.3, prewarm=0) as sandbox, held_up(sandbox, standstill):
        result = sandbox.run_code("1")
    assert result.fault is not None
    assert result.fault.reason == "slow_build"
    assert (result.warm, result.start_ms) == (False, result.duration_ms)


def test_where_nothing_is_started_nothing_is_known() -> None:
    """Such as where a pool has no conversation to run it for."""
    with SandboxPool() as pool:
        (tool,) = tools_of(pool, "run_code")
        result = tool.call({"code": "1"}).result
    assert result is not None
    assert (result.warm, result.start_ms) == (None, None)


def test_telemetry_tells_them() -> None:
    """On the span, and as figures by phase and mode."""
    traces = Traces()
    with Sandbox(mode="resident") as sandbox:
        traces.follow(sandbox)
        sandbox.run_code("1")
        sandbox.run_code("import time; time.sleep(0.1)")
    cold, warm = map(attributes, traces.spans())
    assert (cold["kern_tools.warm"], warm["kern_tools.warm"]) == (False, True)
    assert cold["kern_tools.start_ms"] > 0
    assert (warm["kern_tools.start_ms"], warm["kern_tools.run_ms"] >= 100) == (0, True)
    mode = ("kern_tools.mode", "resident")
    assert traces.points("kern_tools.warm_hits") == {frozenset({mode}): 1}
    assert traces.points("kern_tools.phase.duration") == {
        frozenset({mode, ("kern_tools.phase", phase)}): 2
        for phase in ("queue", "start", "run")
    }


@pytest.fixture
def standstill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Standstill:
    """Give a way to hold up the boxes of one test."""
    return Standstill(monkeypatch, tmp_path)
