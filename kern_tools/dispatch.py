"""The calls of one sandbox on their way to boxes: queued, running, ended."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Protocol

from .faults import SandboxClosed
from .turns import Cancelled

if TYPE_CHECKING:
    from .call import Call
    from .engine import Engine
    from .verdict import EndedBy


class Carrier(Protocol):
    """Finds boxes for calls; all of it happens in the engine thread."""

    def begin(self, call: Call) -> None:
        """Have a box take up the call."""

    def close(self) -> None:
        """Kill every box."""

    @property
    def empty(self) -> bool:
        """Nothing is left of any box."""
        ...


class Dispatch:
    """Runs at most `max_running` calls at a time, first in, first out.

    `submit`, `end`, `interrupt` and `close` may be called from any thread; the rest
    happens in the engine's.
    """

    def __init__(self, engine: Engine, carrier: Carrier, max_running: int) -> None:
        self._engine = engine
        self._carrier = carrier
        self._max_running = max_running
        self._waiting: deque[Call] = deque()
        self._running: set[Call] = set()
        self._closed = False
        self._emptied: Future[None] | None = None

    def submit(self, call: Call) -> None:
        """Run the call when its turn comes; `call.done` tells."""
        self._engine.post(partial(self._queue, call))

    def end(self, call: Call, why: EndedBy) -> None:
        """Take a queued call out of the queue, or kill the box of a running one."""
        self._engine.post(lambda: self._end(call, why))

    def interrupt(self) -> None:
        """Have the code of every running call see a KeyboardInterrupt."""

        def interrupt() -> None:
            for call in self._running:
                if call.service is not None:
                    call.service.interrupt()

        self._engine.post(interrupt)

    def close(self) -> Future[None]:
        """End every call; the future resolves when nothing is left of any box."""
        emptied: Future[None] = Future()

        def close() -> None:
            self._closed = True
            for call in [*self._waiting, *self._running]:
                self._end(call, "close")
            self._carrier.close()
            self._emptied = emptied
            self.tell_emptied()

        self._engine.post(close)
        return emptied

    def _end(self, call: Call, why: EndedBy) -> None:
        call.unwanted = True
        if call.service is not None:
            call.service.end(why)
            return
        if call in self._waiting:
            self._waiting.remove(call)
        call.fail(leaving(why))

    def _queue(self, call: Call) -> None:
        if self._closed:
            call.fail(SandboxClosed("the sandbox was closed before the call"))
        if call.done.done():  # also where another thread has ended it
            return
        self._waiting.append(call)
        self._start_next()

    def _start_next(self) -> None:
        while (call := self._next()) is not None:
            self._carrier.begin(call)

    def _next(self) -> Call | None:
        """Give the next call that may run; it counts before it is seen to fit."""
        if not self._waiting:
            return None
        call = self._waiting[0]
        self._running.add(call)
        if self._count() > self._max_running:
            self._running.discard(call)
            return None
        self._waiting.popleft()
        self._note_running(call)
        return call

    def _count(self) -> int:
        """Count the calls that run."""
        return len(self._running)

    def _note_running(self, call: Call) -> None:
        self._running.add(call)
        call.done.add_done_callback(lambda _: self._post_end(call))

    def _post_end(self, call: Call) -> None:
        def over() -> None:
            self._running.discard(call)
            self._start_next()

        self._engine.post(over)

    def tell_emptied(self) -> None:
        """Let the one who closes go on, once no box is left."""
        if self._emptied is not None and self._carrier.empty:
            self._emptied.set_result(None)
            self._emptied = None


def leaving(why: EndedBy) -> Exception:
    """Give what a call is told that was ended before it began."""
    if why == "close":
        return SandboxClosed("the sandbox was closed before the call began")
    return Cancelled()
