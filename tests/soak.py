"""Load and faults that a host must stand: `make soak` runs it all, the tests a part.

Each run leaves nothing: no box, thread, descriptor, temporary folder or zombie.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kern_tools import FaultType, Sandbox
from kern_tools.removal import wait_removed
from kern_tools.sandbox_contract import NAMED, named_processes

MODES = ("fresh", "resident", "kernel")


@dataclass(frozen=True)
class Held:
    """What this process holds on to."""

    boxes: int
    threads: int
    descriptors: int
    folders: int

    @classmethod
    def now(cls) -> Held:
        """Count it."""
        me = os.getpid()
        boxes = 0
        for entry in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = entry.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            boxes += int(fields[1]) == me
        folders = list(Path(tempfile.gettempdir()).glob("kern-tools-*"))
        return cls(
            boxes=boxes,
            threads=threading.active_count(),
            descriptors=len(list(Path("/proc/self/fd").iterdir())),
            folders=len(folders),
        )


@contextmanager
def nothing_left() -> Generator[None]:
    """Compare what is held after the work with what was held before."""
    usual = tempfile.tempdir
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder  # others may be making folders in the usual one
        try:
            with Sandbox(prewarm=0) as sandbox:  # what a first use starts for good
                sandbox.run_code("1")
                asyncio.run(sandbox.arun_code("1"))
            gc.collect()
            wait_removed()
            before = Held.now()
            yield
            gc.collect()
            wait_removed()
            after = Held.now()
        finally:
            tempfile.tempdir = usual
    assert after.boxes <= before.boxes, (before, after)
    assert after.threads <= before.threads, (before, after)
    assert after.descriptors <= before.descriptors, (before, after)
    assert after.folders <= before.folders, (before, after)


def mixed_calls(count: int, seed: int = 1) -> None:
    """Make calls of every kind and mode, one after the other."""
    dice = random.Random(seed)
    kinds = {
        "print": ("print({n})", "python"),
        "value": ("{n} + 0", "python"),
        "error": ("raise ValueError({n})", "python"),
        "exit": ("import os\nos._exit({n} % 100)", "python"),
        "shell": ("echo {n}", "sh"),
        "output": ("print('x' * 100_000)", "python"),
        "background": ("sleep 60 & echo {n}", "sh"),
        "file": ("open('f{n}', 'w').write('x')", "python"),
    }
    with nothing_left():
        for mode in MODES:
            with Sandbox(mode=mode, timeout_s=60) as sandbox:
                for n in range(count // len(MODES)):
                    kind = dice.choice(sorted(kinds))
                    code, language = kinds[kind]
                    result = sandbox.run_code(code.format(n=n), language)
                    assert result.fault is None, (mode, kind, result.fault)
                    if kind in ("print", "shell"):
                        assert result.stdout == f"{n}\n", (mode, kind, result)


def conversations(count: int) -> None:
    """Hold many sandboxes at once, each with calls of its own."""

    async def converse(n: int) -> None:
        async with Sandbox(timeout_s=120, max_running=2) as sandbox:
            first = sandbox.arun_code(f"open('mine', 'w').write('{n}')\nprint({n})")
            assert (await first).stdout == f"{n}\n"
            second = await sandbox.arun_code("print(open('mine').read())")
            assert second.stdout == f"{n}\n"

    async def all_of_them() -> None:
        await asyncio.gather(*(converse(n) for n in range(count)))

    with nothing_left():
        asyncio.run(all_of_them())


def background_processes(count: int) -> None:
    """Leave a process behind in every call; none is there afterwards."""
    with nothing_left():
        for mode in MODES:
            with Sandbox(mode=mode, timeout_s=60) as sandbox:
                for _ in range(count // len(MODES)):
                    code = NAMED + "import os\nif os.fork() == 0: os.pause()"
                    code = code.replace("os.pause()", "__import__('signal').pause()")
                    assert sandbox.run_code(code).fault is None
        assert named_processes() == []


def cancels(rounds: int) -> None:
    """Cancel calls of every mode some milliseconds after they were made."""

    async def cancel_after(sandbox: Sandbox, delay_s: float) -> None:
        code = NAMED + "import time\ntime.sleep(60)\nopen('late', 'w')"
        call = asyncio.create_task(sandbox.arun_code(code))
        await asyncio.sleep(delay_s)
        call.cancel()
        try:
            await call
        except asyncio.CancelledError:
            assert named_processes() == []
        else:
            raise AssertionError("a cancelled call returned")

    async def every_mode() -> None:
        for mode in MODES:
            async with Sandbox(mode=mode, timeout_s=60) as sandbox:
                for _ in range(rounds):
                    for delay_ms in (0, 1, 5, 20, 100):
                        await cancel_after(sandbox, delay_ms / 1000)
                assert (await sandbox.arun_code("print(7)")).stdout == "7\n"
                assert [f for f in sandbox.list_files() if f.path == "late"] == []

    with nothing_left():
        asyncio.run(every_mode())


def timeouts(count: int) -> None:
    """Let calls run into their deadline, side by side."""

    async def many() -> None:
        async with Sandbox(timeout_s=60, max_running=8) as sandbox:
            calls = [
                sandbox.arun_code("while True: pass", timeout_s=2) for _ in range(count)
            ]
            for result in await asyncio.gather(*calls):
                assert result.fault_type == FaultType.TIMEOUT, result

    with nothing_left():
        asyncio.run(many())


def main() -> None:
    """Run the whole load and print how long and how big it was."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    runs: tuple[tuple[str, Callable[[int], None], int], ...] = (
        ("mixed calls", mixed_calls, 10_000),
        ("conversations at once", conversations, 256),
        ("cells that leave a process", background_processes, 300),
        ("rounds of cancels at 0, 1, 5, 20, 100 ms", cancels, 10),
        ("timeouts", timeouts, 16),
    )
    for what, run, count in runs:
        began = time.monotonic()
        run(count)
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        took_s = time.monotonic() - began
        print(
            f"{count:,} {what}: {took_s:.0f} s, peak {peak_mb} MB, nothing left",
            flush=True,
        )


if __name__ == "__main__":
    main()
