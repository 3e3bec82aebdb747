"""The turns of a session: in order, and passed on whatever becomes of the callers."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest

from kern_tools import (
    Sandbox,
    SandboxClosed,
    box,
    call,
    conduct,
    dispatch,
    opened,
    session,
    shortcut,
    turns,
    waiting,
)
from kern_tools.engine import engine
from kern_tools.turns import Ticket, Turns

from .adapters.cells import Gate
from .depth import depth
from .hosts import wait_until

NET_S = 60  # what hangs ends the test; nothing is measured
SESSIONS = ["resident", "kernel"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have waiters look again soon where nobody could wake them."""
    monkeypatch.setattr(turns, "_LOOK_AGAIN_S", 0.01)


class Interrupts:
    """Raises KeyboardInterrupt before the n-th line that runs in some modules.

    Args:
        number: Which line.
        modules: Where lines count.
    """

    def __init__(self, number: int, *modules: Any) -> None:
        self._left = number
        self._files = {module.__file__ for module in modules}

    @property
    def came(self) -> bool:
        """It was raised."""
        return self._left < 0

    def __enter__(self) -> Interrupts:
        self._before = sys.gettrace()  # of who measures coverage
        sys.settrace(self._trace)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in self._files or in_finalizer(frame):
            return None
        if event == "line":
            self._left -= 1
            if self._left == -1:
                raise KeyboardInterrupt
        return self._trace


def in_finalizer(frame: FrameType | None) -> bool:
    """Tell whether a frame runs for a finalizer, out of which nothing is raised."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def interrupted_everywhere(
    step: Callable[[], object], *modules: Any, every: int = 1
) -> Iterator[None]:
    """Run a step again and again, interrupted at each of its lines in turn.

    Args:
        step: What is interrupted.
        *modules: Whose lines count.
        every: One line in how many is taken.
    """
    for number in range(0, 10_000, every):
        with Interrupts(number, *modules) as interrupts:
            try:
                step()
            except KeyboardInterrupt:
                assert interrupts.came
        yield
        if not interrupts.came:
            return
    raise AssertionError("it never ended without an interrupt")


def used(ticket: Ticket) -> None:
    """Take a turn and pass it on, as a call does."""
    try:
        try:
            ticket.take()
        finally:
            ticket.pass_on()
    finally:
        ticket.pass_on()


def taken(turns: Turns) -> None:
    """Take a turn that must be free, or come free, and pass it on."""
    done = threading.Event()

    def take() -> None:
        ticket = turns.ticket()
        ticket.take()
        ticket.pass_on()
        done.set()

    threading.Thread(target=take, daemon=True).start()
    assert done.wait(NET_S), "the turn was never passed on"


# the line alone


def test_turns_come_in_the_order_of_asking() -> None:
    """Threads get theirs one after the other, as they asked."""
    line, order = Turns(), list[int]()
    first = line.ticket()
    first.take()

    def call(number: int) -> None:
        ticket = line.ticket()
        ticket.take()
        order.append(number)
        ticket.pass_on()

    with ThreadPoolExecutor(4) as threads:
        for number in range(4):
            threads.submit(call, number)
            while len(line._line.spots) < number + 2:  # pyright: ignore[reportPrivateUsage]
                pass
        first.pass_on()
    assert order == [0, 1, 2, 3]


def test_whoever_waits_when_it_is_closed_is_turned_away() -> None:
    """So is whoever asks afterwards, thread or coroutine."""
    line = Turns()
    line.ticket().take()  # nobody keeps this one: it is passed on at once
    held = line.ticket()
    held.take()
    with ThreadPoolExecutor(1) as threads:
        waiting_one = threads.submit(line.ticket().take)
        line.close()
        assert isinstance(waiting_one.exception(NET_S), SandboxClosed)
    with pytest.raises(SandboxClosed):
        line.ticket().take()
    with pytest.raises(SandboxClosed):
        asyncio.run(line.ticket().atake())


def test_a_turn_may_be_passed_on_twice() -> None:
    """The second time takes nothing from whoever has it by then."""
    line = Turns()
    first, second = line.ticket(), line.ticket()
    first.take()
    first.pass_on()
    second.take()
    first.pass_on()
    with ThreadPoolExecutor(1) as threads:
        third = threads.submit(line.ticket().take)
        first.pass_on()
        assert not third.done()
        second.pass_on()
        third.result(NET_S)


def test_an_interrupt_at_any_line_leaves_the_turn_free() -> None:
    """Of a caller that finds it free: the next one always gets it."""
    line = Turns()
    for _ in interrupted_everywhere(lambda: used(line.ticket()), turns):
        taken(line)


def test_an_interrupt_at_any_line_wakes_who_waits() -> None:
    """Of a caller that passes on: whoever waits gets it, in every case."""
    waiting: list[Future[None]] = []

    def hand_over() -> None:
        line = Turns()
        ticket = line.ticket()
        ticket.take()
        waiting.append(threads.submit(used, line.ticket()))
        try:
            ticket.pass_on()
        finally:
            ticket.pass_on()

    with ThreadPoolExecutor(1) as threads:
        for _ in interrupted_everywhere(hand_over, turns):
            while waiting:
                waiting.pop().result(NET_S)


def test_an_interrupt_at_any_line_while_it_waits_leaves_the_line() -> None:
    """Of a caller that waits for another: it stands in nobody's way."""
    line = Turns()
    held = line.ticket()

    def wait() -> None:
        timer = threading.Timer(0.001, held.pass_on)
        timer.start()
        try:
            used(line.ticket())
        finally:
            timer.join()

    held.take()
    for _ in interrupted_everywhere(wait, turns):
        taken(line)
        held.take()


def test_the_turn_of_a_loop_that_stops_goes_to_the_next() -> None:
    """A coroutine whose turn came and that nobody resumes holds up nobody."""
    line = Turns()
    first, second = line.ticket(), line.ticket()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(first.atake())
    second.take()  # the loop stands still
    assert not first.keep()
    second.pass_on()

    async def again() -> None:
        await first.atake()
        assert first.keep()

    loop.run_until_complete(again())
    loop.close()
    with ThreadPoolExecutor(1) as threads:  # what is kept waits for its end
        third = threads.submit(line.ticket().take)
        assert not third.done()
        first.pass_on()
        third.result(NET_S)


@pytest.mark.parametrize("how", ["closed", "stopped"])
def test_a_coroutine_that_waits_in_a_loop_without_life_is_passed_over(how: str) -> None:
    """Whoever stands behind it in the line does not wait for it."""
    line = Turns()
    held = line.ticket()
    held.take()
    loop = asyncio.new_event_loop()
    task = loop.create_task(line.ticket().atake())
    loop.run_until_complete(asyncio.sleep(0))
    if how == "closed":
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()
    with ThreadPoolExecutor(1) as threads:
        behind = threads.submit(used, line.ticket())
        held.pass_on()
        behind.result(NET_S)
    if how == "stopped":
        loop.run_until_complete(task)
        loop.close()


# a sandbox


@pytest.fixture
def kernel() -> Iterator[Sandbox]:
    """A sandbox whose calls take turns, and little time."""
    with Sandbox(mode="kernel", timeout_s=NET_S) as sandbox:
        yield sandbox


@pytest.fixture(params=SESSIONS)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox whose calls take turns."""
    with Sandbox(mode=request.param, timeout_s=NET_S) as sandbox:
        yield sandbox


def collect() -> None:
    """Collect what nobody refers to."""
    gc.collect()


def called(sandbox: Sandbox) -> None:
    """Make a call on another thread, which must come to its end."""
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(sandbox.run_code, "print(7)")
        assert call.result(NET_S).stdout == "7\n"


class Abandoned:
    """A call in an event loop that stands still while its code runs."""

    def __init__(self, sandbox: Sandbox, code: str, timeout_s: float = 600) -> None:
        gate = Gate(sandbox)
        code = f"gate = open('gate', 'w')\ngate.write('running')\ngate.close()\n{code}"
        self.loop = asyncio.new_event_loop()
        call = sandbox.arun_code(code, timeout_s=timeout_s)
        self.task = self.loop.create_task(call)
        self.loop.run_until_complete(self.loop.run_in_executor(None, gate.wait))
        gate.close()
        (sandbox.workspace.root / "gate").unlink()

    def drop(self) -> None:
        """Close its loop; nobody can resume it any more."""
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        # The framework's own complaint, which is not what is tested.
        self.task._log_destroy_pending = False  # type: ignore[attr-defined]


def test_a_call_in_a_loop_that_stands_still_holds_up_nobody(sandbox: Sandbox) -> None:
    """Its turn ends with its box's work; its own result is whole all the same."""
    call = Abandoned(sandbox, "open('mine', 'w').close()")
    changed = sandbox.run_code("open('other', 'w').close()\nprint(7)")
    assert changed.stdout == "7\n"
    result = call.loop.run_until_complete(call.task)
    call.loop.close()
    assert [file.path for file in result.files] == ["mine"]
    assert [file.path for file in changed.files] == ["other"]


def test_a_call_in_a_loop_that_stands_still_before_it_runs_begins_again(
    sandbox: Sandbox,
) -> None:
    """Its turn went to another meanwhile; it runs when its loop does."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(sandbox.arun_code("print(8)"))
    opened = sandbox._opened  # pyright: ignore[reportPrivateUsage]
    assert opened is not None
    while not opened.turns._line.spots:  # pyright: ignore[reportPrivateUsage]
        loop.run_until_complete(asyncio.sleep(0))
    called(sandbox)
    assert loop.run_until_complete(task).stdout == "8\n"
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def test_a_call_dropped_with_its_loop_holds_up_nobody(sandbox: Sandbox) -> None:
    """A closed loop can never resume the coroutine, and nothing collects it."""
    gc.disable()
    try:
        call = Abandoned(sandbox, "")
        call.drop()
        called(sandbox)
    finally:
        gc.enable()
    del call
    gc.collect()
    called(sandbox)


def test_a_call_dropped_while_it_runs_ends_at_its_limit(sandbox: Sandbox) -> None:
    """Nobody can cancel it any more; the next one has its turn then."""
    call = Abandoned(sandbox, "import time\ntime.sleep(3600)", timeout_s=1)
    call.drop()
    called(sandbox)
    del call
    gc.collect()


def test_a_call_dropped_while_it_waits_never_runs(sandbox: Sandbox) -> None:
    """It is collected by the thread that ends boxes, which must not wait for one."""
    gc.disable()
    try:
        os.mkfifo(sandbox.workspace.root / "go")
        running = Abandoned(sandbox, "open('go').read()")
        loop = asyncio.new_event_loop()
        waiting = loop.create_task(sandbox.arun_code("open('late', 'w')"))
        loop.run_until_complete(asyncio.sleep(0))
        waiting._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()
        del loop, waiting
        engine().post(collect)
        (sandbox.workspace.root / "go").write_text("")
        running.loop.run_until_complete(running.task)
        running.loop.close()
        called(sandbox)
    finally:
        gc.enable()
    assert "late" not in [file.path for file in sandbox.list_files()]


def test_a_stream_collected_in_any_thread_ends_its_call(sandbox: Sandbox) -> None:
    """Also in the one that ends boxes, which must not wait for itself."""
    gc.disable()
    try:
        stream: Any = sandbox.stream_code(
            "print(1, flush=True)\nimport time\ntime.sleep(3600)"
        )
        next(stream)
        stream.itself = stream
        del stream
        engine().post(collect)
        called(sandbox)
    finally:
        gc.enable()


def test_an_interrupt_at_any_line_of_a_call_leaves_the_session_usable(
    kernel: Sandbox,
) -> None:
    """Wherever in our own lines a signal handler raises, the next call has its turn."""
    ours = (turns, conduct, opened, waiting, dispatch, shortcut, session, box, call)
    one = lambda: kernel.run_code("print(1)")  # noqa: E731
    for _ in interrupted_everywhere(one, *ours, every=depth(3, 1)):
        called(kernel)
        assert kernel.quiet_since_s is not None


async def test_a_call_cancelled_while_files_are_looked_at_notes_nothing(
    kernel: Sandbox,
) -> None:
    """What its look began to note is forgotten, however late that was."""
    for number in range(200):
        kernel.write_file(f"f{number}", "x")
    tracking: Any = kernel.workspace._tracking  # pyright: ignore[reportPrivateUsage]
    for _ in range(20):
        call = asyncio.create_task(kernel.arun_code("1"))
        while not tracking._lock.locked() and not call.done():
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
    await kernel.arun_code("1")
    wait_until(lambda: tracking._moments == set())
