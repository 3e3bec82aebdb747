"""Interrupts, age and errors: how what runs in a box is stopped or replaced."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kern_tools import Sandbox
from kern_tools.sandbox_contract import processes_with

MODES = pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
BUSY = "print('on', flush=True)\nwhile True: pass"


@MODES
def test_an_interrupt_is_an_exception_of_the_code(mode: str) -> None:
    """It is no fault, in any mode, and the next call is none the worse for it."""
    began = threading.Event()
    with Sandbox(mode=mode) as sandbox, ThreadPoolExecutor(1) as pool:
        call = pool.submit(sandbox.run_code, BUSY, on_stdout=lambda _: began.set())
        began.wait()
        sandbox.interrupt()
        stopped = call.result()
        assert (stopped.exit_code, stopped.fault) == (130, None)
        assert stopped.stdout == "on\n"
        assert stopped.code_stderr.rstrip().endswith("KeyboardInterrupt")
        assert "driver" not in stopped.code_stderr
        assert sandbox.run_code("print(1)").stdout == "1\n"


@MODES
def test_an_interrupt_reaches_every_call_that_runs(mode: str) -> None:
    """Of a fresh sandbox that is several, of the others one after the other."""
    side_by_side = 2 if mode == "fresh" else 1
    began = threading.Barrier(side_by_side + 1)
    with Sandbox(mode=mode) as sandbox, ThreadPoolExecutor(2) as pool:
        calls = [
            pool.submit(sandbox.run_code, BUSY, on_stdout=lambda _: began.wait())
            for _ in range(2)
        ]
        for _ in range(2 // side_by_side):
            began.wait()
            sandbox.interrupt()
        assert [call.result().exit_code for call in calls] == [130, 130]


@MODES
def test_an_interrupt_of_a_box_that_is_built_reaches_no_process_of_the_host(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no group to signal yet, and 0 would mean our own."""
    groups, killpg = list[int](), os.killpg

    def kill(group: int, number: int) -> None:
        groups.append(group)
        if group != 0:
            killpg(group, number)

    monkeypatch.setattr(os, "killpg", kill)
    with Sandbox(mode=mode, prewarm=0) as sandbox, ThreadPoolExecutor(1) as pool:
        call = pool.submit(sandbox.run_code, "1")
        while not call.done():
            sandbox.interrupt()
            time.sleep(0.001)
        assert call.result().exit_code in (0, 130)
    assert 0 not in groups


@pytest.mark.parametrize("mode", ["resident", "kernel"])
def test_an_old_box_is_replaced_between_two_calls(mode: str) -> None:
    """Never within one, and the call after it says that it is new."""
    with Sandbox(mode=mode, max_age_s=1) as sandbox:
        old = sandbox.run_code(
            "import time\nopen('/tmp/here', 'w').close()\nopen('kept', 'w').close()\n"
            "time.sleep(1.1)\nprint('on')"
        )
        assert (old.stdout, old.state_lost) == ("on\n", False)
        new = sandbox.run_code(
            "import os\nprint(os.path.exists('/tmp/here'), os.path.exists('kept'))"
        )
        assert (new.stdout, new.state_new) == ("False True\n", True)


@MODES
def test_a_blocked_system_call_costs_a_session_its_box_at_most(mode: str) -> None:
    """The files stay; where names or scratch are gone, the results say so."""
    escape = "import ctypes\nctypes.CDLL(None).mount(b'n', b'/tmp', b'tmpfs', 0, 0)"
    with Sandbox(mode=mode) as sandbox:
        sandbox.run_code("x = 1\nopen('kept', 'w').close()")
        ended = sandbox.run_code(escape)
        after = sandbox.run_code("import os\nprint(os.listdir(), 'x' in dir())")
    assert (ended.fault_type, ended.exit_code) == ("escape_blocked", 159)
    assert ended.state_lost is (mode == "kernel")
    assert (after.stdout, after.state_new) == ("['kept'] False\n", mode == "kernel")


@MODES
def test_a_block_that_raises_leaves_nothing(mode: str) -> None:
    """The sandbox is closed, its workspace removed, and the error goes on."""
    sandbox = Sandbox(mode=mode)

    def failing() -> None:
        with sandbox:
            roots.append(sandbox.workspace.root)
            sandbox.run_code("open('left', 'w').close()")
            raise LookupError

    roots: list[Path] = []
    with pytest.raises(LookupError):
        failing()
    assert not roots[0].exists()
    assert processes_with(str(roots[0])) == []
