"""The calls of one sandbox on their way to boxes: queued, running, ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from .box import Box
from .call import Call
from .engine import Engine
from .faults import SandboxClosed
from .launch import Launch
from .verdict import EndedBy


class Cancelled(Exception):
    """The call left the queue before it began."""


class Dispatch:
    """Starts at most `max_running` calls at a time, first in, first out.

    `submit`, `end` and `close` may be called from any thread; the rest happens in the
    engine's.
    """

    def __init__(self, engine: Engine, max_running: int) -> None:
        self._engine = engine
        self._max_running = max_running
        self._waiting: deque[tuple[Call, Callable[[], Launch]]] = deque()
        self._boxes: dict[Call, Box] = {}
        self._running = 0
        self._closed = False
        self._emptied: Future[None] | None = None

    def submit(self, call: Call, launch: Callable[[], Launch]) -> None:
        """Run the call when its turn comes; `call.done` tells."""

        def queue() -> None:
            if self._closed:
                call.fail(SandboxClosed("the sandbox was closed before the call"))
                return
            self._waiting.append((call, launch))
            self._start_next()

        self._engine.post(queue)

    def end(self, call: Call, why: EndedBy) -> None:
        """Take a queued call out of the queue, or kill the box of a running one."""
        self._engine.post(lambda: self._end(call, why))

    def close(self) -> Future[None]:
        """End every call; the future resolves when nothing is left of any box."""
        emptied: Future[None] = Future()

        def close() -> None:
            self._closed = True
            for call, _ in list(self._waiting):
                self._end(call, "close")
            for call in list(self._boxes):
                self._end(call, "close")
            self._emptied = emptied
            self._tell_emptied()

        self._engine.post(close)
        return emptied

    def _end(self, call: Call, why: EndedBy) -> None:
        box = self._boxes.get(call)
        if box is not None:
            box.end(why)
            return
        for entry in self._waiting:
            if entry[0] is call:
                self._waiting.remove(entry)
                break
        call.fail(_leaving(why))

    def _start_next(self) -> None:
        while self._waiting and self._running < self._max_running:
            call, launch = self._waiting.popleft()
            self._running += 1
            call.done.add_done_callback(lambda _: self._engine.post(self._one_less))
            self._engine.when_startable(partial(self._start, call, launch))

    def _one_less(self) -> None:
        self._running -= 1
        self._start_next()

    def _start(self, call: Call, launch: Callable[[], Launch]) -> None:
        if call.done.done():  # ended while it waited for a starting slot
            self._engine.started()
            return
        try:
            box = Box(self._engine, launch(), call, self._on_box_end)
        except Exception as error:
            self._engine.started()
            call.fail(error)
            return
        self._boxes[call] = box
        box.start()

    def _on_box_end(self, box: Box) -> None:
        self._boxes.pop(box.call, None)
        self._tell_emptied()

    def _tell_emptied(self) -> None:
        if self._emptied is not None and not self._boxes:
            self._emptied.set_result(None)
            self._emptied = None


def _leaving(why: EndedBy) -> Exception:
    if why == "close":
        return SandboxClosed("the sandbox was closed before the call began")
    return Cancelled()
