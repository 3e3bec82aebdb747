"""Hosts in odd states: what a program around us did before it called."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, cast

import pytest

from kern_tools import ConfigError, Sandbox, SandboxConfig, SandboxError
from kern_tools.engine import engine
from kern_tools.host import host_report
from kern_tools.image import ensure_image
from kern_tools.sandbox_contract import kern_processes
from tests.depth import depth


def host(code: str) -> str:
    """Run a program in an interpreter of its own; give what it printed."""
    program = f"from kern_tools import Sandbox\n{code}"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_host_that_ignores_its_children_is_never_told_success() -> None:
    """Where the exit status is lost, the result says so instead of 0."""
    printed = host(
        "import signal\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "with Sandbox() as sandbox:\n"
        "  print(sandbox.run_code('print(1)').stdout, end='')\n"
        "  print(sandbox.run_code('exit 3', 'bash').success)\n"
        "  print(sandbox.run_code('import ctypes; ctypes.string_at(0)').signal)\n"
    )
    assert printed == "1\nFalse\n11\n"


def test_an_exception_from_a_signal_handler_ends_the_box() -> None:
    """As with soft time limits of task queues: nothing is done afterwards."""
    printed = host(
        "import signal\n"
        "from kern_tools.sandbox_contract import named_processes, NAMED\n"
        "class Soft(Exception): pass\n"
        "def stop(*_): raise Soft\n"
        "signal.signal(signal.SIGUSR1, stop)\n"
        "import os, signal\n"
        "with Sandbox() as sandbox:\n"
        "  try:\n"
        "    sandbox.run_code(NAMED + 'print(1, flush=True)\\nwhile True: pass',\n"
        "      on_stdout=lambda _: os.kill(os.getpid(), signal.SIGUSR1))\n"
        "  except Soft: print('soft', named_processes())\n"
    )
    assert printed == "soft []\n"


def test_the_host_s_signal_mask_stays_outside() -> None:
    """Code finds no signal blocked or ignored."""
    printed = host(
        "import signal\n"
        "numbers = [signal.SIGALRM, signal.SIGTERM, signal.SIGURG]\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, numbers)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with Sandbox() as sandbox:\n"
        "  code = 'import signal\\nprint(signal.pthread_sigmask(0, []))\\n'"
        "    'print(signal.getsignal(1) == signal.SIG_IGN)'\n"
        "  print(sandbox.run_code(code).stdout, end='')\n"
        "  code = 'print(2, end=\"\")\\nwhile True: pass'\n"
        "  late = sandbox.run_code(code, timeout_s=2)\n"
        "  print(late.stdout)\n"
    )
    assert printed == "set()\nFalse\n2\n"


@pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
def test_an_interrupt_reaches_the_code_of_a_host_that_heeds_none(mode: str) -> None:
    """As a shell starts one in the background, and what it starts in turn."""
    printed = host(
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"with Sandbox(mode={mode!r}) as sandbox:\n"
        "  code = 'print(1, flush=True)\\nwhile True: pass'\n"
        "  stop = lambda _: sandbox.interrupt()\n"
        "  print(sandbox.run_code(code, on_stdout=stop).exit_code)\n"
    )
    assert printed == "130\n"


@pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
def test_a_host_that_runs_out_of_descriptors_loses_none(mode: str) -> None:
    """Wherever the start of a box meets the limit; calls work once there is room."""
    printed = host(
        "import os, resource, time\n"
        "from kern_tools import SandboxError\n"
        "from kern_tools.engine import engine\n"
        "def used():\n"
        "  while engine().children: time.sleep(0.001)\n"
        "  return len(os.listdir('/proc/self/fd'))\n"
        "def runs(more):\n"
        "  limit = used() - 1 + more\n"
        "  resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))\n"
        "  try: return sandbox.run_code('1').success\n"
        "  except SandboxError: return False\n"
        "  finally: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        f"with Sandbox(mode={mode!r}, prewarm=0) as sandbox:\n"
        "  sandbox.run_code('1')\n"
        "  sandbox.reset()\n"
        "  before, failed = used(), 0\n"
        "  while not runs(failed): failed += 1\n"
        "  sandbox.reset()\n"
        "  print(failed > 8, used() - before)\n"
    )
    assert printed == "True 0\n"


def test_queued_calls_hold_no_descriptor() -> None:
    """More calls wait their turn than have the files that may be open."""
    calls = depth(40, 200)
    printed = host(
        "import asyncio, resource\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))\n"
        "async def main():\n"
        "  async with Sandbox(max_running=2, track_files=False) as sandbox:\n"
        f"    calls = [sandbox.arun_code('1') for _ in range({calls})]\n"
        "    return await asyncio.gather(*calls)\n"
        "print(sum(result.success for result in asyncio.run(main())))\n"
    )
    assert printed == f"{calls}\n"


@pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
def test_boxes_that_are_long_in_ending_are_waited_for(
    mode: Literal["fresh", "resident", "kernel"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call is over before its kern is; no more than a few of those are left behind.

    kern is held here, until the engine ends it.
    """
    monkeypatch.setattr("kern_tools.box.KERN_END_S", 1.0)

    def hold_kern(_: object) -> None:
        for own in Path("/proc/self/task").glob("*/children"):
            for pid in own.read_text().split():
                if Path(f"/proc/{pid}/comm").read_text() == "kern\n":
                    os.kill(int(pid), signal.SIGSTOP)

    most = 0
    with Sandbox(mode=mode, max_running=1, prewarm=0) as sandbox:
        before = len(engine().children)
        for n in range(8):
            result = sandbox.run_code(f"print({n})", on_stdout=hold_kern)
            assert result.stdout == f"{n}\n"
            most = max(most, len(engine().children) - before)
            sandbox.reset()
    assert most <= 5


async def test_a_cancel_while_files_are_looked_at_leaks_nothing() -> None:
    """Descriptors and threads are as many as before."""
    async with Sandbox(prewarm=0) as sandbox:
        for n in range(500):
            sandbox.write_file(f"f{n}", "")
        await sandbox.arun_code("1")
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        for _ in range(20):
            call = asyncio.create_task(sandbox.arun_code("1"))
            await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert (await sandbox.arun_code("print(2)")).stdout == "2\n"
        assert len(os.listdir("/proc/self/fd")) <= before + 8  # noqa: PTH208


@pytest.mark.parametrize("profile", ["vcpu:no-such-profile"])
def test_a_box_that_cannot_start_is_always_a_result(profile: str) -> None:
    """However early kern gives up, nothing is raised."""
    with Sandbox(profiles=[profile], prewarm=0) as sandbox:
        for _ in range(10):
            result = sandbox.run_code("print(1)")
            assert result.fault is not None
            assert (result.fault.type, result.fault.actor) == (
                "startup_failed",
                "operator",
            )
            assert result.exit_code != 0


def test_a_mount_that_vanished_is_named(tmp_path: Path) -> None:
    """The fault's reason is `mount`, its message the path."""
    source = tmp_path / "data"
    source.mkdir()
    with Sandbox(mounts={str(source): "/data"}, prewarm=0) as sandbox:
        source.rmdir()
        fault = sandbox.run_code("print(1)").fault
    assert fault is not None
    assert (fault.type, fault.reason) == ("startup_failed", "mount")
    assert str(source) in fault.message


def test_many_threads_share_a_sandbox() -> None:
    """Each gets its own output, and no box is left."""
    with Sandbox() as sandbox, ThreadPoolExecutor(32) as pool:
        codes = [f"print({n})" for n in range(depth(32, 256))]
        results = [result.stdout for result in pool.map(sandbox.run_code, codes)]
        assert results == [f"{n}\n" for n in range(len(codes))]


def test_required_limits_are_looked_at_when_the_sandbox_opens() -> None:
    """A host that does not enforce them is refused there, with the reason."""
    enforced = host_report(reference=ensure_image().reference).limits_enforced
    sandbox = Sandbox(require_limits=True)
    if enforced:
        with sandbox:
            assert sandbox.run_code("1").limits_enforced
        return
    with pytest.raises(SandboxError) as refused:
        sandbox.open()
    assert refused.value.fault is not None
    assert refused.value.fault.reason == "limits"


@pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
def test_prompt_and_results_say_whether_limits_bind(mode: str) -> None:
    """What kern says of them is known before the prompt is written."""
    enforced = host_report(reference=ensure_image().reference).limits_enforced
    with Sandbox(mode=mode) as sandbox:
        assert sandbox.describe().limits_enforced == enforced
        assert sandbox.run_code("1").limits_enforced == enforced
        assert ("enforces no limit" in sandbox.system_prompt()) == (enforced is False)


def test_what_has_no_memory_cap_is_not_said_to_be_short_of_it() -> None:
    """A box that the host killed was killed; there is no option to blame."""
    code = "open('on', 'w').close()\nimport time; time.sleep(60)"
    with Sandbox(prewarm=0, memory_mb=None) as sandbox, ThreadPoolExecutor(1) as pool:
        sandbox.run_code("")  # whether caps bind is known from now on
        os.mkfifo(sandbox.workspace.root / "on")
        running = pool.submit(sandbox.run_code, code)
        (sandbox.workspace.root / "on").read_bytes()
        for pid in kern_processes(sandbox):
            os.kill(pid, signal.SIGKILL)
        fault = running.result().fault
    assert fault is not None
    assert (fault.type, fault.actor) == ("killed", "operator")
    assert "memory" not in fault.message


def test_options_that_are_no_options_are_refused_at_once() -> None:
    """A plain dict is not taken for a configuration."""
    with pytest.raises(ConfigError):
        Sandbox(cast("SandboxConfig", {"timeout_s": 5}))
