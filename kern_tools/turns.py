"""One at a time, in the order of asking: the calls of a sandbox with one box."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future

from .faults import SandboxClosed


class Turns:
    """A first-in-first-out lock for threads and event loops alike."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Future[None]] = deque()
        self._taken = self._closed = False

    def take(self) -> None:
        """Wait for a turn, blocking; it is held until it is passed on.

        Raises:
            SandboxClosed: The sandbox was closed before the turn came.
        """
        ticket = self._ask()
        try:
            ticket.result()
        except BaseException:
            self._leave(ticket)
            raise

    async def atake(self) -> None:
        """Do as `take`, without blocking the event loop."""
        import asyncio

        ticket = self._ask()
        try:
            await asyncio.wrap_future(ticket)
        except BaseException:
            self._leave(ticket)
            raise

    def pass_on(self) -> None:
        """Give the turn to the next in line."""
        with self._lock:
            self._taken = False
        self._grant()

    def close(self) -> None:
        """Turn away whoever waits."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, deque()
        for ticket in waiting:
            _turn_away(ticket)

    def _ask(self) -> Future[None]:
        ticket: Future[None] = Future()
        with self._lock:
            closed = self._closed
            if not closed:
                self._waiting.append(ticket)
        if closed:
            _turn_away(ticket)
        else:
            self._grant()
        return ticket

    def _grant(self) -> None:
        with self._lock:
            if self._taken or not self._waiting:
                return
            ticket = self._waiting.popleft()
            self._taken = ticket.set_running_or_notify_cancel()
            granted = self._taken
        if granted:
            ticket.set_result(None)
        else:
            self._grant()

    def _leave(self, ticket: Future[None]) -> None:
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
                return
        granted = ticket.done() and not ticket.cancelled()
        if granted and ticket.exception() is None:
            self.pass_on()


def _turn_away(ticket: Future[None]) -> None:
    if ticket.set_running_or_notify_cancel():
        ticket.set_exception(SandboxClosed("the sandbox was closed before the call"))
