"""The one thread that holds all boxes: what waits for it, and what it survives."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import resource
import shutil
import signal
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from kern_tools import Sandbox, SandboxClosed, SandboxError
from kern_tools.binary import find_kern
from kern_tools.dispatch import Dispatch
from kern_tools.engine import engine
from kern_tools.launch import Launch, private_folder
from kern_tools.supervisor import Supervisor

from .adapters.cells import WAITS, Gate
from .hosts import wait_until

NET_S = 60  # what hangs ends the test; nothing is measured
RUNS = "open('ran', 'w').close()"


@contextmanager
def nothing_starts() -> Generator[None]:
    """Take every place in which a box could be started."""
    house, taken = engine(), list[int]()
    take = partial(taken.append, 1)
    for _ in range(house._slots):
        house.post(partial(house.when_startable, take))
    wait_until(lambda: len(taken) == house._slots)
    try:
        yield
    finally:
        for _ in taken:
            house.post(house.started)


@contextmanager
def small_files() -> Generator[None]:
    """Have no file of this process grow beyond a page."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        signal.signal(signal.SIGXFSZ, before)


@contextmanager
def few_descriptors() -> Generator[None]:
    """Have this process open nothing more."""
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)


def dispatch_of(sandbox: Sandbox) -> Dispatch:
    """Give what takes the calls of an open sandbox to boxes."""
    opened = sandbox._opened
    assert opened is not None
    return opened.dispatch


async def until_one_waits_to_start() -> None:
    """Go on once a call has come that no place is free for."""
    await asyncio.to_thread(wait_until, lambda: engine()._waiting)


async def test_a_call_that_is_cancelled_before_its_box_starts_never_runs() -> None:
    """The place that it waited for goes to others."""
    async with Sandbox(prewarm=0) as sandbox:
        with nothing_starts():
            call = asyncio.create_task(sandbox.arun_code(RUNS))
            await until_one_waits_to_start()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert (await sandbox.arun_code("print(2)")).stdout == "2\n"
        assert sandbox.list_files() == []
    wait_until(lambda: engine()._starting == 0)


async def test_a_call_that_is_cancelled_before_its_turn_never_runs() -> None:
    """Also where a box is ready for the next call."""
    async with Sandbox(prewarm=1, max_running=1) as sandbox:
        gate, waiting = Gate(sandbox), dispatch_of(sandbox)._waiting
        calls = [asyncio.create_task(sandbox.arun_code(WAITS))]
        await asyncio.to_thread(gate.wait)
        calls.append(asyncio.create_task(sandbox.arun_code(RUNS)))
        await asyncio.to_thread(wait_until, lambda: waiting)
        assert await asyncio.to_thread(sandbox.wait_ready, NET_S)
        for call in reversed(calls):
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        gate.close()
        assert (await sandbox.arun_code("print(2)")).stdout == "2\n"
        assert sandbox.list_files() == []


async def test_an_interrupt_passes_over_a_call_without_a_box(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No code of it runs yet that could be told."""
    async with Sandbox(prewarm=0) as sandbox:
        with nothing_starts():
            call = asyncio.create_task(sandbox.arun_code("print(1)"))
            await until_one_waits_to_start()
            sandbox.interrupt()
        assert (await call).stdout == "1\n"
    assert capsys.readouterr().err == ""


def test_a_call_that_comes_while_the_sandbox_closes_is_told() -> None:
    """Its caller had looked before it was closed."""
    with Sandbox(prewarm=0) as sandbox:
        dispatch_of(sandbox).close().result(NET_S)
        with pytest.raises(SandboxClosed):
            sandbox.run_code(RUNS)


def test_a_box_that_cannot_be_prepared_costs_the_call_alone() -> None:
    """The host's own words are told; nothing is left, not even a place taken."""
    with Sandbox(prewarm=0, env={"PYTHONWARNINGS": "ignore," * 1024}) as sandbox:
        with small_files():
            for _ in range(engine()._slots + 1):
                with pytest.raises(SandboxError, match="too large") as caught:
                    sandbox.run_code(RUNS)
                assert caught.value.code == "host"
            assert list(private_folder().iterdir()) == []
        assert sandbox.run_code("print(1)").stdout == "1\n"


def test_a_call_that_no_descriptor_is_left_for_costs_the_box_alone() -> None:
    """It is told, and the next call has a new box."""
    with Sandbox(mode="kernel", track_files=False) as sandbox:
        sandbox.run_code("1")
        with few_descriptors(), pytest.raises(SandboxError) as caught:
            sandbox.run_code("echo 1", "bash")
        assert caught.value.code == "host"
        again = sandbox.run_code("print(2)")
        assert (again.stdout, again.state_new) == ("2\n", True)


def test_a_kern_that_is_gone_costs_the_call_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while it is installed anew: the next call finds the new one."""
    kern = tmp_path / "kern"
    shutil.copy(find_kern(), kern)
    monkeypatch.setenv("KERN_BIN", str(kern))
    with Sandbox(prewarm=0) as sandbox:
        kern.rename(tmp_path / "away")
        with pytest.raises(SandboxError, match="No such file") as caught:
            sandbox.run_code("1")
        assert caught.value.code == "host"
        (tmp_path / "away").rename(kern)
        assert sandbox.run_code("print(1)").stdout == "1\n"


def test_a_warm_box_that_is_ended_before_its_start_is_never_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Closing waits for its place alone."""
    started: list[Supervisor] = []
    start = Supervisor.start

    def noted(kern: Supervisor, launch: Launch, **streams: int) -> None:
        started.append(kern)
        start(kern, launch, **streams)

    with ThreadPoolExecutor(1) as threads:
        before = set(engine().children)
        with nothing_starts():
            sandbox = Sandbox(prewarm=1).open()
            wait_until(lambda: engine()._waiting)
            monkeypatch.setattr(Supervisor, "start", noted)
            closing = threads.submit(sandbox.close)
            wait_until(lambda: dispatch_of(sandbox)._closed)
        closing.result(NET_S)
    assert started == []
    assert set(engine().children) <= before
    wait_until(lambda: engine()._starting == 0)


def test_trouble_of_one_step_is_told_and_ends_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever goes wrong in the thread of all boxes, it goes on."""
    went_on = threading.Event()

    def fail() -> None:
        raise ZeroDivisionError

    engine().post(fail)
    engine().post(went_on.set)
    assert went_on.wait(NET_S)
    assert "ZeroDivisionError" in capsys.readouterr().err
