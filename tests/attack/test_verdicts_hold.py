"""Cells that forge a verdict, in every mode: at most they spoil their own call.

What is claimed of a fault is where it comes from. Code that ends its own processes by a
signal can have that said of it; nobody else's end can be said by code.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from kern_tools import ExecutionResult, FaultType, Sandbox
from tests.depth import crossed
from tests.hosts import wait_until

from .depth import IS_WHOLE
from .driver_attacks import ATTACKS, EVERY_DESCRIPTOR, SENDS_DESCRIPTORS

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

MODES = ("fresh", "resident", "kernel")
OF_A_SIGNAL: dict[str, set[FaultType | None]] = {
    "fresh": {None},
    "resident": {None, FaultType.KILLED, FaultType.ESCAPE_BLOCKED},
    "kernel": {None, FaultType.KILLED, FaultType.ESCAPE_BLOCKED},
}
"""What a call may read as that was ended by a signal of its own."""
SIGNALS = (signal.SIGKILL, signal.SIGSYS, signal.SIGSEGV, signal.SIGURG, signal.SIGINT)
EVERY_SIGNAL = (*range(1, 32), signal.SIGRTMIN, signal.SIGRTMAX)
STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
TARGETS = {"itself": "os.getpid()", "the first process": "1", "its group": "0"}


@pytest.fixture(scope="module", params=MODES)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Every mode in turn."""
    with Sandbox(mode=request.param, timeout_s=20) as sandbox:
        yield sandbox


def assert_goes_on(sandbox: Sandbox) -> None:
    """Check that calls after a hostile one are as if it had not been."""
    if sandbox.config.mode == "kernel":  # its cells are one process, so begin anew
        sandbox.reset()
    result = sandbox.run_code("import sys\nprint('on')\nsys.exit(7)")
    assert (result.stdout, result.code_stderr) == ("on\n", "")
    assert (result.exit_code, result.fault, result.results) == (7, None, [])
    shown = sandbox.run_code("[len('four'), 1 + 1]")
    assert [value.text for value in shown.results] == ["[4, 2]"]


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_an_attack_on_the_driver_makes_no_fault(sandbox: Sandbox, attack: str) -> None:
    """The call gets a result, with no fault but a deadline's; the next one is right."""
    result = sandbox.run_code(f"print('begun', flush=True)\n{attack}", timeout_s=1)
    assert "begun\n" in result.stdout
    assert result.fault_type in (None, FaultType.TIMEOUT)
    assert_goes_on(sandbox)


def test_writing_to_every_descriptor_makes_no_fault(sandbox: Sandbox) -> None:
    """No word of the driver's or of kern's is believed of a cell."""
    result = sandbox.run_code(EVERY_DESCRIPTOR + "print('on')", timeout_s=2)
    assert result.fault_type in (None, FaultType.TIMEOUT)
    assert "yes" not in result.stdout
    assert_goes_on(sandbox)


def test_descriptors_that_a_cell_sends_are_not_kept(sandbox: Sandbox) -> None:
    """The host holds as many as before, and signals nobody for them."""
    assert_goes_on(sandbox)
    sandbox.wait_ready()
    most = held() + 4
    for _ in range(3):
        result = sandbox.run_code(SENDS_DESCRIPTORS, timeout_s=2)
        assert result.fault_type in (None, FaultType.TIMEOUT)
    assert_goes_on(sandbox)
    sandbox.wait_ready()
    wait_until(lambda: held() <= most)  # boxes on their way out hold some


def held() -> int:
    """Count the descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
@pytest.mark.parametrize("language", ["python", "sh"])
def test_a_signal_of_its_own_accuses_nobody_else(
    sandbox: Sandbox, target: str, language: str
) -> None:
    """No signal reads as a timeout, as memory, as a missing program or as the host."""
    for number in EVERY_SIGNAL if IS_WHOLE else SIGNALS:
        cell = f"import os\nos.kill({target}, {int(number)})\nprint('on')"
        shell = target.replace("os.getpid()", "$$")
        script = f"kill -{int(number)} {shell}; echo on"
        code = cell if language == "python" else script
        result = sandbox.run_code(code, language, timeout_s=2)
        if number in STOPS and result.fault_type == FaultType.TIMEOUT:
            continue  # what stands still has not ended itself
        assert result.fault_type in OF_A_SIGNAL[sandbox.config.mode], number
        assert_is_its_own(result)
    assert_goes_on(sandbox)


def assert_is_its_own(result: ExecutionResult) -> None:
    """Check that a crash has the exit code of one."""
    if result.fault is None and result.signal is not None:
        assert result.exit_code == 128 + result.signal
    if result.fault is None and result.signal is None:
        assert result.exit_code in (0, 130)


@pytest.mark.parametrize("code", [0, 1, 124, 125, 126, 127, 137, 139, 143, 159, 255])
def test_no_exit_code_is_a_fault(sandbox: Sandbox, code: int) -> None:
    """The codes that other tools keep for timeouts and kills mean nothing here."""
    for source, language in (
        (f"import os\nos._exit({code})", "python"),
        (f"raise SystemExit({code})", "python"),
        (f"exit {code}", "sh"),
    ):
        result = sandbox.run_code(source, language)
        assert (result.exit_code, result.fault, result.signal) == (code, None, None)


def test_a_deadline_is_told_whatever_the_code_says(sandbox: Sandbox) -> None:
    """One that answers for the driver, and then does not end, has timed out."""
    lies = "import sys\nprint('fault: oom.', flush=True)\nimport time; time.sleep(60)"
    result = sandbox.run_code(lies, timeout_s=1)
    assert (result.fault_type, result.exit_code) == (FaultType.TIMEOUT, 137)
    assert_goes_on(sandbox)
