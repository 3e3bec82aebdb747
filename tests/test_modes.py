"""What each mode keeps from one call to the next, and what it never does."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kern_tools import FaultType, Sandbox, SandboxError
from kern_tools.sandbox_contract import box_processes, kern_processes

from .standstill import Standstill


@pytest.fixture
def kernel() -> Iterator[Sandbox]:
    """A sandbox that keeps names."""
    with Sandbox(mode="kernel", timeout_s=30) as sandbox:
        yield sandbox


@pytest.fixture
def resident() -> Iterator[Sandbox]:
    """A sandbox that keeps its box."""
    with Sandbox(mode="resident", timeout_s=30) as sandbox:
        yield sandbox


# kernel


def test_a_kernel_keeps_names_whoever_calls(kernel: Sandbox) -> None:
    """The thread that made a name may be gone when it is read."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(kernel.run_code, "x = 41").result()
    assert kernel.run_code("x + 1").results[0].text == "42"


def test_a_timeout_interrupts_a_kernel_and_keeps_its_names(kernel: Sandbox) -> None:
    """The fault is `timeout`, and the interpreter lives on."""
    kernel.run_code("x = 41")
    stopped = kernel.run_code("print('on')\nimport time; time.sleep(60)", timeout_s=1)
    assert (stopped.fault_type, stopped.state_lost) == (FaultType.TIMEOUT, False)
    assert stopped.stdout == "on\n"
    after = kernel.run_code("x + 1")
    assert (after.results[0].text, after.state_new) == ("42", False)


@pytest.mark.parametrize(
    "stubborn",
    [
        "import time\nwhile True:\n  try: time.sleep(9)\n  except BaseException: pass",
        "import signal\nsignal.signal(2, signal.SIG_IGN)\nwhile True: pass",
    ],
    ids=["catches it", "ignores it"],
)
def test_a_cell_that_resists_loses_the_kernel(kernel: Sandbox, stubborn: str) -> None:
    """The box is killed, which the result and the next one say."""
    kernel.run_code("x = 41")
    stopped = kernel.run_code(stubborn, timeout_s=1)
    assert (stopped.fault_type, stopped.state_lost) == (FaultType.TIMEOUT, True)
    after = kernel.run_code("x")
    assert (after.state_new, after.exit_code) == (True, 1)
    assert "NameError" in after.code_stderr


@pytest.mark.parametrize(
    "waiting",
    [
        "import time\ntime.sleep(60)",
        "import os\nos.system('sleep 60')",
        "import subprocess\nsubprocess.run(['sleep', '60'])",
        "import threading\nthreading.Lock().acquire() and threading.Event().wait()",
    ],
    ids=["sleeps", "waits for a shell", "waits for a child", "waits for a lock"],
)
def test_what_waits_is_interrupted(kernel: Sandbox, waiting: str) -> None:
    """The interrupt reaches children of the cell too."""
    kernel.run_code("x = 41")
    stopped = kernel.run_code(waiting, timeout_s=1)
    assert (stopped.fault_type, stopped.state_lost) == (FaultType.TIMEOUT, False)
    assert kernel.run_code("x").results[0].text == "41"


def test_interrupt_stops_a_cell_on_request(kernel: Sandbox) -> None:
    """It is no fault: the code sees a KeyboardInterrupt."""
    kernel.run_code("x = 41")
    began = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        code = "print('on', flush=True)\nwhile True: pass"
        call = pool.submit(kernel.run_code, code, on_stdout=lambda _: began.set())
        began.wait()
        kernel.interrupt()
        stopped = call.result()
    assert (stopped.exit_code, stopped.fault) == (130, None)
    assert "KeyboardInterrupt" in stopped.code_stderr
    assert kernel.run_code("x").results[0].text == "41"


@pytest.mark.parametrize(
    "deadly",
    ["import os\nos._exit(7)", "import ctypes\nctypes.string_at(0)"],
    ids=["exits", "crashes"],
)
def test_the_end_of_a_kernel_is_said(kernel: Sandbox, deadly: str) -> None:
    """The call that ended it says so, and so does the next."""
    ended = kernel.run_code(deadly)
    assert (ended.fault, ended.state_lost) == (None, True)
    assert kernel.run_code("1").state_new
    assert not kernel.run_code("1").state_new


def test_sys_exit_does_not_end_a_kernel(kernel: Sandbox) -> None:
    """Its message and code are those of a script."""
    kernel.run_code("x = 41")
    result = kernel.run_code("import sys\nsys.exit('bye')")
    assert (result.exit_code, result.code_stderr) == (1, "bye\n")
    assert kernel.run_code("x").results[0].text == "41"


def test_setup_code_runs_in_every_new_kernel() -> None:
    """Also in the one that replaces a lost one."""
    with Sandbox(mode="kernel", setup_code="import math\nbase = 40") as sandbox:
        assert sandbox.run_code("base + math.gcd(2, 4)").results[0].text == "42"
        sandbox.run_code("import os\nos._exit(1)")
        assert sandbox.run_code("base").results[0].text == "40"


def test_setup_code_that_fails_is_told_when_the_sandbox_opens() -> None:
    """With the last line of what it said."""
    with pytest.raises(SandboxError, match="ZeroDivisionError") as refused:
        Sandbox(mode="kernel", setup_code="1/0").open()
    assert refused.value.fault is not None
    assert refused.value.fault.reason == "setup_code"


def test_reset_forgets_names_and_keeps_files(kernel: Sandbox) -> None:
    """The next call has a new interpreter in the old workspace."""
    kernel.run_code("x = 1\nopen('kept', 'w').close()")
    kernel.reset()
    after = kernel.run_code("import os\nprint(os.listdir(), 'x' in dir())")
    assert (after.stdout, after.state_new) == ("['kept'] False\n", True)


def test_tracebacks_show_the_lines_of_earlier_cells(kernel: Sandbox) -> None:
    """A function that another cell defined is shown with its own source."""
    kernel.run_code("def f():\n    return 1 / 0  # here")
    result = kernel.run_code("# one\n# two\nf()")
    assert "return 1 / 0  # here" in result.code_stderr
    assert "f()" in result.code_stderr


def test_calls_of_a_kernel_run_first_in_first_out(kernel: Sandbox) -> None:
    """Parallel calls neither mix their output nor their turns."""
    kernel.run_code("seen = []")

    async def many() -> list[str]:
        calls = [
            kernel.arun_code(
                f"seen.append({n})\nprint({n}, flush=True)\n"
                f"import time\ntime.sleep(0.005)\nprint({n})"
            )
            for n in range(8)
        ]
        return [result.stdout for result in await asyncio.gather(*calls)]

    assert asyncio.run(many()) == [f"{n}\n{n}\n" for n in range(8)]
    assert kernel.run_code("seen").results[0].text == str(list(range(8)))


# resident


def test_a_resident_keeps_its_box_and_no_names(resident: Sandbox) -> None:
    """/tmp and background processes stay; the interpreter is new."""
    first = "import os\nopen('/tmp/a', 'w').close()\nx = 1\nos.system('sleep 60 &')"
    resident.run_code(first)
    second = resident.run_code(
        "import os, glob\nprint(os.path.exists('/tmp/a'), 'x' in dir())\n"
        "print(sum('sleep' in open(p).read() for p in glob.glob('/proc/[0-9]*/comm')))"
    )
    assert second.stdout == "True False\n1\n"


def test_a_timeout_ends_a_call_of_a_resident_alone(resident: Sandbox) -> None:
    """The box lives on, with what it holds."""
    resident.run_code("open('/tmp/a', 'w').close()")
    stopped = resident.run_code("import time; time.sleep(60)", timeout_s=1)
    assert (stopped.fault_type, stopped.state_lost) == (FaultType.TIMEOUT, False)
    after = resident.run_code("import os\nprint(os.listdir('/tmp'))")
    assert (after.stdout, after.state_new) == ("['a']\n", False)


def test_late_output_never_enters_a_later_call(resident: Sandbox) -> None:
    """A background process keeps the pipes of the call that left it."""
    code = "(while :; do echo late; sleep 0.01; done) & echo first"
    assert "first" in resident.run_code(code, "sh").stdout
    for n in range(5):
        assert resident.run_code(f"print({n})").stdout == f"{n}\n"


def test_orphans_are_reaped(resident: Sandbox) -> None:
    """Children that calls leave behind do not stay as zombies."""
    for _ in range(20):
        resident.run_code("sleep 0.01 & sleep 0.01 &", "sh")
    count = (
        "import glob\nfound = 0\nfor path in glob.glob('/proc/[0-9]*/stat'):\n"
        "    try: found += open(path).read().split(')')[1].split()[0] == 'Z'\n"
        "    except OSError: pass  # it is gone\nprint(found)"
    )
    while int(resident.run_code(count).stdout) > 0:
        pass


ATTACKS = {
    "its memory": "fd = os.open('/proc/1/mem', os.O_RDWR)",
    "its descriptors": "for n in range(9): open(f'/proc/1/fd/{n}', 'w')",
    "its environment": "open('/proc/1/environ').read()",
    "its socket": "p = libc.syscall(434, 1, 0)\n"
    "if libc.syscall(438, p, 3, 0) < 0: raise OSError('refused')",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_a_call_cannot_reach_the_resident_driver(
    resident: Sandbox, attack: str
) -> None:
    """What serves the later calls is closed to the code of this one."""
    code = f"import os, ctypes\nlibc = ctypes.CDLL(None)\n{attack}"
    result = resident.run_code(code)
    assert result.exit_code == 1
    assert "Error" in result.code_stderr


# fresh


def test_a_warm_box_waits_for_its_call() -> None:
    """`wait_ready` tells, and `close` leaves nothing of it."""
    with Sandbox(prewarm=3) as sandbox:
        assert sandbox.wait_ready()
        assert len(box_processes(sandbox)) == 3
        assert sandbox.run_code("print(1)").stdout == "1\n"


def test_no_box_waits_where_none_is_wanted() -> None:
    """`prewarm=0` starts a box for a call, and only then."""
    with Sandbox(prewarm=0) as sandbox:
        assert sandbox.wait_ready()
        assert box_processes(sandbox) == []


def test_a_wait_for_warm_boxes_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Who has no time is told that they are not ready, and calls go on."""
    standstill = Standstill(monkeypatch, tmp_path)
    with Sandbox(prewarm=0, timeout_s=20) as first:
        first.describe()
    with standstill.held(), Sandbox(prewarm=1) as sandbox:
        assert not sandbox.wait_ready(0)


def test_a_warm_box_serves_one_call() -> None:
    """What a call leaves in its box, no other call finds."""
    with Sandbox(prewarm=2) as sandbox:
        for _ in range(5):
            sandbox.wait_ready()
            result = sandbox.run_code(
                "import os\nprint(os.listdir('/tmp'))\nopen('/tmp/a', 'w').close()"
            )
            assert result.stdout == "[]\n"


def test_a_longer_call_than_the_warm_box_may_live_gets_its_own() -> None:
    """A limit above the sandbox's own is kept."""
    with Sandbox(timeout_s=1) as sandbox:
        sandbox.wait_ready()
        code = "import time\ntime.sleep(1.5)\nprint('on')"
        assert sandbox.run_code(code, timeout_s=20).stdout == "on\n"


# what went wrong once


def test_a_call_cancelled_during_setup_mixes_nothing() -> None:
    """The box goes with it; the next call has its own output and says it is new."""
    setup = "import os, time\nwhile os.path.exists('hold'): time.sleep(0.01)\nx = 5"

    async def cancelled(sandbox: Sandbox) -> None:
        sandbox.write_file("hold", "")
        sandbox.reset()
        while box_processes(sandbox):  # the box of before is on its way out
            await asyncio.sleep(0)
        call = asyncio.create_task(sandbox.arun_code("print('one')"))
        while not box_processes(sandbox):
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert box_processes(sandbox) == []

    with Sandbox(mode="kernel", setup_code=setup, timeout_s=30) as sandbox:
        asyncio.run(cancelled(sandbox))
        (sandbox.workspace.root / "hold").unlink()
        for word in ("two", "three"):
            assert sandbox.run_code(f"print({word!r}, x)").stdout == f"{word} 5\n"


@pytest.mark.parametrize("mode", ["resident", "kernel"])
@pytest.mark.parametrize(
    "frame",
    ["e\\005\\000\\000\\0002\\0000\\000q", "e\\001\\000\\000\\000q"],
    ids=["a forged failure", "half a frame"],
)
def test_a_shell_cannot_write_frames(mode: str, frame: str) -> None:
    """Nothing it does makes the call raise; in a child it finds no way at all."""
    code = f"for f in 3 4 5 6 7 8; do printf '{frame}' >&$f; done 2>/dev/null; echo on"
    with Sandbox(mode=mode, timeout_s=20) as sandbox:
        result = sandbox.run_code(code, "bash")
        assert "on\n" in result.stdout
        assert result.fault is None


def test_a_cell_can_be_interrupted_again(kernel: Sandbox) -> None:
    """One that caught an interrupt is stopped at its deadline like any other."""
    kernel.run_code("x = 41")
    code = (
        "import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: print('once')\n"
        "time.sleep(60)"
    )
    stopped = kernel.run_code(code, timeout_s=1)
    assert (stopped.fault_type, stopped.state_lost) == (FaultType.TIMEOUT, False)
    assert stopped.stdout == "once\n"
    assert kernel.run_code("x").results[0].text == "41"


def test_an_interrupt_leaves_no_half_of_a_value(kernel: Sandbox) -> None:
    """Whenever it comes while values are shown, the names are kept."""
    kernel.run_code("x = 41\nbig = '<b>' + 'x' * 9_000_000")
    began = threading.Event()

    def on_stdout(_: str) -> None:
        began.set()

    for _ in range(5):
        began.clear()
        with ThreadPoolExecutor(1) as pool:
            code = "print('on', flush=True)\nfor _ in range(99): display(big)"
            call = pool.submit(kernel.run_code, code, on_stdout=on_stdout)
            began.wait()
            kernel.interrupt()
            assert not call.result().state_lost
    assert kernel.run_code("x").results[0].text == "41"


def test_a_reset_lets_a_running_call_end(kernel: Sandbox) -> None:
    """It is not killed; the next call starts anew."""
    began = threading.Event()
    code = (
        "import os, time\nprint('on', flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.01)\nprint('end')"
    )
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(kernel.run_code, code, on_stdout=lambda _: began.set())
        began.wait()
        kernel.reset()
        kernel.write_file("go", "")
        assert call.result().stdout == "on\nend\n"
    assert kernel.run_code("1").state_new


@pytest.mark.verify
def test_a_call_may_outlast_the_age_of_a_box() -> None:
    """A box is given the time that its first call asks for."""
    with Sandbox(mode="kernel", timeout_s=1, max_age_s=1) as sandbox:
        code = "import time\ntime.sleep(8)\nprint('on')"
        assert sandbox.run_code(code, timeout_s=20).stdout == "on\n"


def test_a_warm_box_that_died_costs_no_call() -> None:
    """The call gets another box."""
    with Sandbox(prewarm=2, timeout_s=20) as sandbox:
        assert sandbox.wait_ready()
        for pid in box_processes(sandbox):
            os.kill(pid, signal.SIGKILL)
        while kern_processes(sandbox):
            pass
        assert sandbox.run_code("print(1)").stdout == "1\n"


@pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
def test_a_module_rewritten_within_a_second_is_read_anew(mode: str) -> None:
    """No bytecode of the older text is kept, nor listed among the files."""
    with Sandbox(mode=mode) as sandbox:
        for version in ("1", "2", "3"):
            sandbox.write_file("own_module.py", f"print({version})")
            for line in ("python3 -c 'import own_module'", "python3 own_module.py"):
                assert sandbox.run_code(line, "bash").stdout == f"{version}\n"
            cell = "import sys; sys.modules.pop('own_module', 0); import own_module"
            result = sandbox.run_code(cell)
            assert (result.stdout, result.files) == (f"{version}\n", [])


def test_orphans_of_commands_are_reaped_in_a_kernel(kernel: Sandbox) -> None:
    """And a child of the code's own keeps its exit code until the code asks."""
    kernel.run_code("import os\npid = os.fork()\nif pid == 0: os._exit(7)")
    for _ in range(20):
        kernel.run_code("sleep 0.01 & sleep 0.01 &", "sh")
    count = (
        "import glob\nfound = 0\nfor path in glob.glob('/proc/[0-9]*/stat'):\n"
        "  try: found += open(path).read().split(')')[1].split()[0] == 'Z'\n"
        "  except OSError: pass  # it has just been reaped\nprint(found)"
    )
    while int(kernel.run_code(count).stdout) > 1:
        kernel.run_code(":", "sh")
    waited = "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    assert kernel.run_code(waited).stdout == "7\n"
