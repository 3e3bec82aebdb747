"""Ending: what is cancelled or over is gone, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kern_tools import Sandbox
from tests.adapters.cells import WAITS, Gate
from tests.depth import crossed

from .conftest import Through

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

AS_PID_1 = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
CALLS = 15
LEAVES = f"""
import os, threading
from kern_tools import Sandbox

def others(states):
    stats = [open(f'/proc/{{p}}/stat').read() for p in pids()]
    return [s for s in stats if s.rpartition(')')[2].split()[0] in states]

def pids():
    return [p for p in os.listdir('/proc') if p.isdigit() and p != '1']

assert os.getpid() == 1
for mode in ('fresh', 'resident'):
    with Sandbox(mode=mode) as sandbox:
        for _ in range({CALLS}):
            assert sandbox.run_code('sleep 0.01 &', 'sh').fault is None
        assert len(pids()) < {CALLS}, pids()
    for thread in threading.enumerate():
        if thread.name == 'kern-tools-prune':
            thread.join()
    assert not others('DRST'), others('DRST')
    assert len(others('Z')) < 4, others('Z')
"""


@pytest.fixture(params=["fresh", "resident", "kernel"])
def patient(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox in which only a cancellation ends a call that waits."""
    with Sandbox(mode=request.param, prewarm=0, timeout_s=60) as sandbox:
        yield sandbox


@pytest.mark.bug("code that outlives its cancellation")
async def test_a_cancelled_call_does_nothing_more(
    through: Through, patient: Sandbox
) -> None:
    """It is gone before its caller hears, and the sandbox can be used.

    Source: https://github.com/microsoft/autogen/issues/6013
    """
    adapter, gate = through(patient), Gate(patient)
    task = asyncio.ensure_future(adapter.acall("run_code", {"code": WAITS}))
    assert await asyncio.to_thread(gate.wait) == b"running"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.is_gone()
    gate.close()
    outcome = await adapter.acall("run_code", {"code": "print(7)"})
    assert "7" in outcome.text
    assert [file.path for file in patient.list_files()] == []


@pytest.mark.bug("zombies")
def test_a_host_that_is_pid_1_gathers_no_processes() -> None:
    """As in a container whose first process never waits for orphans.

    A box that is ended while kern builds it can leave a zombie or two of kern's own.

    Source: https://github.com/NousResearch/hermes-agent/issues/6908
    Source: https://github.com/openclaw/openclaw/issues/68691
    Source: https://github.com/OpenHands/software-agent-sdk/issues/3042
    Source: https://github.com/huggingface/smolagents/issues/2050
    """
    done = subprocess.run(
        [*AS_PID_1, sys.executable, "-c", LEAVES],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
