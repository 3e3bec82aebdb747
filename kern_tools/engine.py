"""The one thread that starts, watches and ends every box of this process.

kern arms a parent-death signal against the thread that starts a box, so that thread
has to outlive them all; polling there also keeps a box at few descriptors and no thread
of its own.
"""

from __future__ import annotations

import heapq
import itertools
import os
import select
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

READ = select.EPOLLIN
_ORDER = itertools.count()


class Timer:
    """A callback due at a time; `cancel` is safe at any moment in the engine thread."""

    __slots__ = ("_call", "due")

    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due = due
        self._call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Make sure the callback never runs (again)."""
        self._call = None

    def fire(self) -> None:
        """Run the callback, once."""
        call, self._call = self._call, None
        if call is not None:
            call()


class Engine:
    """An event loop on a thread of its own: descriptors, timers, posted calls.

    Everything but `post` and `unwatch` may be used in the engine thread only.
    """

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._wake, READ)
        self._watched: dict[int, Callable[[], None]] = {}
        self._new: set[int] = set()  # watched since the last poll
        self._timers: list[tuple[float, int, Timer]] = []
        self._posted: deque[Callable[[], None]] = deque()
        self.children: set[Child] = set()
        self._slots = 2 * (os.cpu_count() or 1)
        self._starting = 0
        self._waiting: deque[Callable[[], None]] = deque()
        self._blocking: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._ident: int | None = None
        for name, run in (("engine", self._run), ("aside", self._run_aside)):
            threading.Thread(target=run, name=f"kern-tools-{name}", daemon=True).start()

    # -- for any thread

    def post(self, call: Callable[[], None]) -> None:
        """Have `call` run in the engine thread, in the order of posting."""
        self._posted.append(call)
        if threading.get_ident() != self._ident:  # it looks before it waits again
            os.eventfd_write(self._wake, 1)

    # -- for the engine thread

    def watch(self, descriptor: int, on_ready: Callable[[], None]) -> None:
        """Run `on_ready` whenever `descriptor` can be read or has ended."""
        self._watched[descriptor] = on_ready
        self._new.add(descriptor)
        self._poll.register(descriptor, READ)

    def unwatch(self, descriptor: int) -> None:
        """Stop watching; a descriptor that is not watched is ignored.

        Any thread may ask, for a descriptor that stays open meanwhile.
        """
        if self._watched.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def at(self, due: float, call: Callable[[], None]) -> Timer:
        """Run `call` when `time.monotonic()` reaches `due`."""
        timer = Timer(due, call)
        heapq.heappush(self._timers, (due, next(_ORDER), timer))
        return timer

    def when_startable(self, start: Callable[[], None]) -> None:
        """Run `start` now, or when fewer than twice the cores are starting boxes.

        Whoever is started calls `started` once, however it ends.
        """
        if self._starting < self._slots:
            self._starting += 1
            start()
        else:
            self._waiting.append(start)

    def started(self) -> None:
        """Give a start's slot to the next in line."""
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._starting -= 1

    def aside(self, step: Callable[[], None]) -> None:
        """Run what would hold every box up on a second thread, one at a time."""
        self._blocking.put(step)

    def _run_aside(self) -> None:
        while True:
            _guarded(self._blocking.get())

    def _run(self) -> None:
        self._ident = threading.get_ident()
        while True:
            events = self._poll.poll(self._pause_s())
            self._new.clear()
            for descriptor, _ in events:
                self._ready(descriptor)
            self._fire_due()
            self._run_posted()

    def _pause_s(self) -> float | None:
        if self._posted:
            return 0
        if not self._timers:
            return None
        return max(0.0, self._timers[0][0] - time.monotonic())

    def _ready(self, descriptor: int) -> None:
        if descriptor == self._wake:
            os.eventfd_read(self._wake)
            return
        # An earlier event of this round may have unwatched it, and another box may have
        # been given the number: what has come for that one is told in the next round.
        call = self._watched.get(descriptor)
        if call is not None and descriptor not in self._new:
            _guarded(call)

    def _fire_due(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            _guarded(heapq.heappop(self._timers)[2].fire)

    def _run_posted(self) -> None:
        for _ in range(len(self._posted)):
            _guarded(self._posted.popleft())

    def forget(self) -> None:
        """Let go of every descriptor, in a forked child of the host."""
        self._poll.close()
        os.close(self._wake)
        for child in self.children:
            child.forget()


class Child(Protocol):
    """Something the engine holds for a process, and forgets in forks."""

    def forget(self) -> None:
        """Close the descriptors this process inherited; touch nothing else."""


def _guarded(call: Callable[[], None]) -> None:
    """Keep one box's trouble from ending the thread that holds them all."""
    try:
        call()
    except Exception:
        traceback.print_exc(file=sys.stderr)


_engine: Engine | None = None
_lock = threading.Lock()


def engine() -> Engine:
    """Give this process's engine, started at the first use."""
    global _engine
    with _lock:
        if _engine is None:
            _engine = Engine()
        return _engine


def _after_fork_in_child() -> None:
    global _engine, _lock
    _lock = threading.Lock()
    if _engine is not None:
        _engine.forget()
        _engine = None


os.register_at_fork(after_in_child=_after_fork_in_child)
