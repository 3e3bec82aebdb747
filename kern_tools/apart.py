"""Async work for a caller that is not: in an event loop on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import copy_context
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

T = TypeVar("T")

PAUSE_S = 0.1
"""How long a thread may block at a time: a signal that comes in the moment before it
blocks does not wake it, and Ctrl-C would be heard at the end only."""


class Apart(Generic[T]):
    """Runs a coroutine while its `with` block does; works inside a running loop too.

    What ends the block early, as Ctrl-C does, cancels the coroutine, and goes on once
    that has ended.

    Args:
        work: Makes the coroutine, in the thread.

    Attributes:
        done: What comes of it.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self.done: Future[T] = Future()
        self._work = work
        self._stopped = False
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._context = copy_context()

    def __enter__(self) -> Self:
        target = self._context.run
        try:
            threading.Thread(target=target, args=[self._run], name="kern-apart").start()
        except BaseException:  # It may have begun all the same.
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._stop()
        else:
            wait([self.done])

    def result(self) -> T:
        """Wait for what comes of it, and give it or raise it."""
        while not self.done.done():
            wait([self.done], timeout=PAUSE_S)
        return self.done.result()

    def _stop(self) -> None:
        self._stopped = True
        if self._running is None:
            return  # A thread that begins only now sees that, and does nothing.
        loop, task = self._running
        with suppress(RuntimeError):  # The loop has just ended by itself.
            loop.call_soon_threadsafe(task.cancel)
        while not self.done.done():
            with suppress(BaseException):  # A second Ctrl-C leaves no box behind.
                wait([self.done], timeout=PAUSE_S)

    def _run(self) -> None:
        try:
            self.done.set_result(asyncio.run(self._main()))
        except BaseException as error:
            self.done.set_exception(error)

    async def _main(self) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._running = (asyncio.get_running_loop(), task)
        if self._stopped:
            raise asyncio.CancelledError
        return await self._work()
