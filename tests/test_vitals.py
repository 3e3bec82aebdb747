"""A call is over when no code of its box will run any more, and not a moment before."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from kern_tools import ExecutionResult, Sandbox
from kern_tools.processes import box_process, wait_gone
from kern_tools.sandbox_contract import kern_processes
from kern_tools.vitals import Vitals
from tests.depth import depth

from .hosts import ended

NET_S = 60
LEFT_BEHIND = """\
import os, time
large = bytearray(b"x") * (200 << 20)  # all of which has to be let go at the end
if os.fork() == 0:
    file = open("log", "ab", buffering=0)
    while True: file.write(b"x")
while not (os.path.exists("log") and os.path.getsize("log")): pass
print("on", flush=True)
time.sleep(3600)
"""
LOCKED = """\
import fcntl
file = open("lock", "r+b")
fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("mine")
"""
LARGE = "large = bytearray(b'x') * (40 << 20)\n"
LEFT_LOCKED = {
    "open": LOCKED,
    "mapped": f"{LOCKED}import mmap\nview = mmap.mmap(file.fileno(), 4096)\n"
    "file.close()",
    "as standard input": f"import sys\nsys.stdin.close()\n{LOCKED}",
    "among too many": f"{LOCKED}import resource\nmany = []\n"
    "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\ntry:\n"
    "    while True: many.append(open('/dev/null'))\nexcept OSError: pass",
    "beside a thread": f"{LOCKED}import threading, time\n"
    "threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()",
}
MAPPED = """\
import mmap
file = open("f7", "r+b")
view = mmap.mmap(file.fileno(), 4096)
view[:6] = b"%06d"
"""
LEADER_ENDS = """\
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(3600,)).start()
print("on", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""
NAMED = """\
import time
open("/proc/self/comm", "w").write(") Z 1 1 1 1 4 ")
print("on", flush=True)
time.sleep(3600)
"""
CHILD = "print('on', flush=True)\nimport time\ntime.sleep(3600)"


@contextmanager
def process(code: str) -> Generator[subprocess.Popen[str]]:
    """Start a Python of the host that says `on` once it is where it should be."""
    command = [sys.executable, "-I", "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "on\n"
            yield running
        finally:
            running.kill()


@pytest.mark.parametrize("code", [CHILD, NAMED], ids=["asleep", "named like one"])
def test_what_lives_has_not_ceased(code: str) -> None:
    """Also where its name, which is the code's own, reads like the end."""
    with process(code) as running, closing(Vitals(running.pid)) as vitals:
        assert not vitals.have_ceased()


def test_threads_live_on_without_the_first() -> None:
    """The first thread has ended, and waits for the others as a zombie."""
    with process(LEADER_ENDS) as running, closing(Vitals(running.pid)) as vitals:
        while "zombie" not in status(running.pid):
            pass
        assert not vitals.have_ceased()


def test_what_was_killed_has_ceased_before_and_after_it_is_reaped() -> None:
    """A zombie runs nothing, nor does what is not there any more."""
    with process(CHILD) as running, closing(Vitals(running.pid)) as vitals:
        pidfd = os.pidfd_open(running.pid)
        running.kill()
        assert wait_gone(pidfd, NET_S)
        os.close(pidfd)
        assert vitals.have_ceased()
        running.wait()
        assert vitals.have_ceased()
        with pytest.raises(OSError, match="No such file"):
            Vitals(running.pid)


def test_a_host_without_descriptors_left_loses_none() -> None:
    """Where only the first of two can be had, it is given back."""
    said = ended(
        "import resource\n"
        "from kern_tools.vitals import Vitals\n"
        "free = os.dup(0)\n"
        "os.close(free)\n"
        "usual = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, usual[1]))\n"
        "try:\n"
        "    Vitals(os.getpid())\n"
        "except OSError as error:\n"
        "    say(error.strerror)\n"
        "say(os.dup(0) == free)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, usual)\n"
    )
    assert said == ["Too many open files", "True"]


def status(pid: int) -> str:
    """Read what the kernel says of a process."""
    return Path(f"/proc/{pid}/status").read_text(encoding="utf-8")


def run(sandbox: Sandbox, code: str, way: str) -> ExecutionResult:
    """Run a cell by the caller's own thread, or by the engine's."""
    if way == "engine":
        return asyncio.run(sandbox.arun_code(code))
    return sandbox.run_code(code)


WAYS = pytest.mark.parametrize("way", ["caller", "engine"])


def test_a_box_has_ceased_with_the_last_of_its_processes_only() -> None:
    """Its first one dies slowly, and what that has left runs on meanwhile."""
    began = threading.Event()
    with Sandbox(prewarm=0) as sandbox, ThreadPoolExecutor(1) as pool:
        call = pool.submit(
            sandbox.run_code, LEFT_BEHIND, on_stdout=lambda _: began.set()
        )
        assert began.wait(NET_S)
        log = sandbox.workspace.root / "log"
        (pid,) = filter(None, map(box_process, kern_processes(sandbox)))
        with closing(Vitals(pid)) as vitals:
            assert not vitals.have_ceased()
            os.kill(pid, signal.SIGKILL)
            while not vitals.have_ceased():
                pass
            sizes = {log.stat().st_size for _ in range(2000)}
        assert call.result().fault_type == "killed"
    assert len(sizes) == 1


@WAYS
@pytest.mark.parametrize("left", LEFT_LOCKED)
def test_locks_of_a_cell_are_gone_with_its_result(way: str, left: str) -> None:
    """The next cell, which comes at once, may lock what the last one left locked."""
    with Sandbox(prewarm=2) as sandbox:
        sandbox.write_file("lock", "x" * 4096)
        for _ in range(depth(1, 3)):
            assert sandbox.wait_ready(NET_S)
            first = run(sandbox, LARGE + LEFT_LOCKED[left], way)
            assert first.stdout == "mine\n", first
            assert run(sandbox, LOCKED, way).stdout == "mine\n"


@WAYS
def test_a_change_through_a_map_that_was_left_open_is_told(way: str) -> None:
    """Among many files too, where the kernel tells of it when the map is closed."""
    with Sandbox(prewarm=1) as sandbox:
        for number in range(100):
            sandbox.write_file(f"f{number}", "x" * 4096)
        for number in range(4):
            assert sandbox.wait_ready(NET_S)
            result = run(sandbox, LARGE + MAPPED % number, way)
            assert [file.path for file in result.files] == ["f7"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_cell_that_ran_is_never_said_not_to_have(number: int) -> None:
    """Not where somebody signals kern until it gives up, and says nothing more."""
    began = threading.Event()
    cell = "print('on', flush=True)\nimport time\ntime.sleep(3600)"
    with Sandbox(prewarm=0) as sandbox, ThreadPoolExecutor(1) as pool:
        call = pool.submit(sandbox.run_code, cell, on_stdout=lambda _: began.set())
        assert began.wait(NET_S)
        (kern,) = filter(box_process, kern_processes(sandbox))
        while not call.done():
            with suppress(ProcessLookupError):
                os.kill(kern, number)
        assert call.result().fault_type != "startup_failed"
        assert call.result().stdout == "on\n"
