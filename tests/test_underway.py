"""Closing a sandbox, or a pool, while it is still being opened."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kern_tools import Sandbox, SandboxClosed, SandboxPool
from kern_tools.contract_view import NAME, NAMED, named_processes
from kern_tools.ownership import owner
from kern_tools.processes import named_boxes
from kern_tools.removal import wait_removed

from .hosts import wait_until

NET_S = 60  # what hangs ends the test; nothing is measured
SETUP = f"printf {NAME} > /proc/self/comm; read forever < /dev/zero"
SETUP_CODE = f"{NAMED}import time\ntime.sleep(3600)"

pytestmark = pytest.mark.usefixtures("fresh_cache")

OPENINGS: dict[str, dict[str, Any]] = {
    "setup": {"setup": SETUP},
    "setup_code": {"mode": "kernel", "setup_code": SETUP_CODE, "timeout_s": 600},
}
each_opening = pytest.mark.parametrize("options", OPENINGS.values(), ids=list(OPENINGS))


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Threads for what goes on at the same time."""
    with ThreadPoolExecutor(4) as threads:
        yield threads


def own_boxes() -> list[str]:
    """Give the names of the boxes of this process that run."""
    found = list(named_boxes(f"kt-{owner().token}-"))
    for _, descriptor in found:
        os.close(descriptor)
    return [name for name, _ in found]


def wait_until_no_box() -> None:
    """Wait for what kern had begun to build: it is killed, and may be seen to die."""
    wait_until(lambda: own_boxes() == [])


def own_workspaces() -> list[Path]:
    """Give the workspaces that this process made."""
    return list(Path(tempfile.gettempdir()).glob(f"kern-tools-ws-{owner().token}-*"))


def refused(opening: Future[Any]) -> None:
    """Have an opening that was cut short say so, and leave nothing."""
    assert isinstance(opening.exception(NET_S), SandboxClosed)
    assert named_processes() == []
    assert own_workspaces() == []


@each_opening
def test_closing_ends_the_box_that_opening_waits_for(
    options: dict[str, Any], threads: ThreadPoolExecutor
) -> None:
    """Long before its own limit; `open` raises, and nothing is left."""
    sandbox = Sandbox(**options)
    opening = threads.submit(sandbox.open)
    wait_until(named_processes)
    sandbox.close()
    refused(opening)
    with pytest.raises(SandboxClosed):
        sandbox.open()


def test_a_setup_cut_short_is_not_kept(
    fresh_cache: Path, threads: ThreadPoolExecutor
) -> None:
    """The next sandbox with the same line runs it anew."""
    sandbox = Sandbox(setup=f"echo half > $KERN_DEPS/half; {SETUP}")
    opening = threads.submit(sandbox.open)
    wait_until(named_processes)
    sandbox.close()
    refused(opening)
    wait_removed()
    assert list((fresh_cache / "setup").iterdir()) == []


def test_closing_ends_the_wait_for_a_setup_of_others(
    threads: ThreadPoolExecutor,
) -> None:
    """Another process runs the line; this one need not wait for it."""
    first, second = Sandbox(setup=SETUP), Sandbox(setup=SETUP)
    running = threads.submit(first.open)
    wait_until(named_processes)
    waiting = threads.submit(second.open)
    wait_until(lambda: len(own_workspaces()) == 2)
    second.close()
    assert isinstance(waiting.exception(NET_S), SandboxClosed)
    assert not running.done()
    first.close()
    refused(running)


async def test_cancelling_an_opening_ends_it() -> None:
    """The cancellation goes on once nothing is left of it."""
    sandbox = Sandbox(setup=SETUP)
    opening = asyncio.create_task(sandbox.__aenter__())
    while not named_processes():
        await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert named_processes() == []
    assert own_workspaces() == []


def test_a_signal_handler_may_close_what_is_being_opened() -> None:
    """In the thread that opens: `close` cannot wait there, and `open` raises."""
    sandbox = Sandbox(setup=SETUP)

    def on_alarm(number: int, frame: object) -> None:
        del number, frame
        sandbox.close()

    def alarm() -> None:
        wait_until(named_processes)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, on_alarm)
    other = threading.Thread(target=alarm)
    other.start()
    try:
        with pytest.raises(SandboxClosed):
            sandbox.open()
    finally:
        other.join()
        signal.signal(signal.SIGUSR1, before)
    assert named_processes() == []
    assert own_workspaces() == []


@pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
def test_closing_at_any_moment_of_an_opening_leaves_nothing(
    mode: str, threads: ThreadPoolExecutor
) -> None:
    """Whether it came before, in time, or too late."""
    for delay_ms in (0, 0, 1, 2, 4, 8, 16, 32):
        sandbox = Sandbox(mode=mode, setup_code="1" if mode == "kernel" else None)
        opening = threads.submit(sandbox.open)
        threading.Event().wait(delay_ms / 1000)  # any moment will do
        sandbox.close()
        assert opening.exception(NET_S) is None or isinstance(
            opening.exception(), SandboxClosed
        )
        assert not sandbox.is_open
        wait_until_no_box()
        assert own_workspaces() == []


def test_whoever_closes_finds_it_closed(threads: ThreadPoolExecutor) -> None:
    """Also who comes second, while another thread is at it."""
    for _ in range(5):
        sandbox = Sandbox(prewarm=2).open()
        root = sandbox.workspace.root
        start = threading.Barrier(4)

        def close(sandbox: Sandbox, root: Path, start: threading.Barrier) -> bool:
            start.wait()
            sandbox.close()
            return root.exists()

        closing = [threads.submit(close, sandbox, root, start) for _ in range(4)]
        assert not any(each.result(NET_S) for each in closing)
        wait_until_no_box()


def test_two_threads_that_open_get_the_same(threads: ThreadPoolExecutor) -> None:
    """The second waits for the first; where that failed, it tries itself."""
    with Sandbox(prewarm=0) as sandbox:
        opened = [threads.submit(sandbox.open) for _ in range(4)]
        assert {each.result() for each in opened} == {sandbox}
        assert len(own_workspaces()) == 1


@pytest.mark.parametrize("end", ["close", "drop"])
def test_a_pool_ends_what_it_opens(end: str, threads: ThreadPoolExecutor) -> None:
    """Closing it, or dropping the conversation, does not wait for a setup."""
    with SandboxPool(setup=SETUP) as pool:
        opening = threads.submit(pool.get, "t1")
        wait_until(named_processes)
        if end == "close":
            pool.close()
        else:
            pool.drop("t1")
        refused(opening)


def test_a_lock_file_that_somebody_holds_is_waited_for(
    fresh_cache: Path, threads: ThreadPoolExecutor
) -> None:
    """Two processes with the same line: the second finds what the first installed."""
    line = "echo 1 > $KERN_DEPS/one"
    with Sandbox(setup=line, prewarm=0):
        pass
    (lock,) = fresh_cache.glob("setup-*.lock")
    wait_removed()  # where it was built
    (kept,) = (fresh_cache / "setup").iterdir()
    aside = kept.rename(fresh_cache / "aside")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        sandbox = Sandbox(setup=line, prewarm=0)
        opening = threads.submit(sandbox.open)
        wait_until(own_workspaces)
        aside.rename(kept)
    opening.result(NET_S).close()
    assert [path.name for path in kept.iterdir()] == ["one"]
