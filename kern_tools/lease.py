"""Holding a conversation's sandbox, so that its pool does not close it meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TypeVar

from .conversations import Conversation
from .evicting import evicted_here
from .sandbox import Sandbox
from .seats import Abandoned, Seat, Seats

_T = TypeVar("_T")


class Lease:
    """Gives one conversation's sandbox, open, to a `with` or `async with` block.

    Args:
        seats: The pool's.
        whose: The conversation.
        open_seat: Opens a seat's sandbox; blocks.
        threads: Where it is opened for a caller that must not block.
    """

    def __init__(
        self,
        seats: Seats,
        whose: Conversation,
        open_seat: Callable[[Seat], None],
        threads: Executor,
    ) -> None:
        self._seats = seats
        self._whose = whose
        self._open_seat = open_seat
        self._threads = threads
        self._held: list[Seat | None] = []

    def __enter__(self) -> Sandbox:
        if (sandbox := self._evicted_here()) is not None:
            return sandbox
        while True:
            step, seat = self._seats.claim(self._whose)
            if step == "wait":
                until_left(seat).result()
                continue
            if step == "open":
                self._open_seat(seat)
            try:
                sandbox = seat.opened.result()
            except Abandoned:
                continue
            except BaseException:
                self._seats.release(seat)
                raise
            self._held.append(seat)
            return sandbox

    async def __aenter__(self) -> Sandbox:
        if (sandbox := self._evicted_here()) is not None:
            return sandbox
        while True:
            step, seat = self._seats.claim(self._whose)
            if step == "wait":
                await _awaited(until_left(seat))
                continue
            if step == "open":
                self._threads.submit(self._open_seat, seat)
            try:
                sandbox = await _awaited(seat.opened)
            except Abandoned:
                continue
            except BaseException:  # a cancelled caller leaves the sandbox to others
                self._seats.release(seat)
                raise
            self._held.append(seat)
            return sandbox

    def __exit__(self, *error: object) -> None:
        seat = self._held.pop()
        if seat is not None:
            self._seats.release(seat)

    async def __aexit__(self, *error: object) -> None:
        self.__exit__()

    def _evicted_here(self) -> Sandbox | None:
        """Give the sandbox to its own `on_evict`, for which it is kept open."""
        sandbox = evicted_here(self._seats.find(self._whose))
        if sandbox is not None:
            self._held.append(None)
        return sandbox


def until_left(seat: Seat) -> Future[None]:
    """Give a future that resolves once a seat is left, or kept after all."""
    left = seat.left
    if left is not None:
        return left
    over: Future[None] = Future()  # it was left, or kept, since the claim
    over.set_result(None)
    return over


async def _awaited(future: Future[_T]) -> _T:
    """Await without handing a cancellation on: others may be waiting too."""
    if future.done():
        return future.result()
    import asyncio  # as costly to import as the rest of the package together

    return await asyncio.shield(asyncio.wrap_future(future))
