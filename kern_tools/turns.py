"""One at a time, in the order of asking: the calls of a sandbox with one box.

All there is to know stands in one line, whose first has the turn. The line is changed
by single steps of the interpreter, and being woken only makes a waiter look at it
sooner. So nothing can be left half done or locked: not by a signal handler that raises
here, nor by a collector that runs a finalizer here, nor by an event loop that is gone.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress

from .faults import SandboxClosed

_LOOK_AGAIN_S = 1.0
"""How late a waiter sees that it is first where the one before could not wake it."""


class Cancelled(Exception):
    """The call was given up, perhaps by another thread, before it began."""


class Turns:
    """A first-in-first-out lock for threads and event loops alike."""

    def __init__(self) -> None:
        self._line = _Line()

    def ticket(self) -> Ticket:
        """Give a ticket, with which one call asks for its turn."""
        return Ticket(self._line)

    def close(self) -> None:
        """Turn away whoever waits, and whoever asks from now on."""
        self._line.closed = True
        for spot in list(self._line.spots):
            spot.wake()


class Ticket:
    """One call's claim to a turn.

    Whoever asked passes on, whatever came of it. That may be done more than once, from
    any thread and by a finalizer.
    """

    _spot: _Spot | None = None

    def __init__(self, line: _Line) -> None:
        self._line = line

    def take(self) -> None:
        """Wait for the turn, blocking; it is held until it is passed on.

        Raises:
            SandboxClosed: The sandbox was closed before the turn came.
            Cancelled: Another thread has passed it on.
        """
        spot = self._spot = _ThreadSpot()
        self._line.spots.append(spot)
        while not self._line.has_come_to(spot):
            spot.wait()
            self._check(spot)

    async def atake(self) -> None:
        """Do as `take`, without blocking the event loop.

        Until it is kept, the turn goes to the next in line if the event loop stops.
        """
        while True:
            spot = self._spot
            if not isinstance(spot, _LoopSpot) or spot not in self._line.spots:
                spot = self._spot = _LoopSpot()
                self._line.spots.append(spot)
            if self._line.has_come_to(spot):
                return
            await spot.wait()
            self._check(spot)

    def _check(self, spot: _Spot) -> None:
        if self._spot is not spot:
            raise Cancelled

    def keep(self) -> bool:
        """Hold the turn until it is passed on, even if the event loop stops.

        Returns:
            False where it was lost that way before; it may be taken again.
        """
        return self._spot is not None and self._spot.keep()

    def pass_on(self) -> None:
        """Give the turn, or the place in the line, to the next."""
        spot = self._spot
        if spot is not None:
            self._line.leave(spot)
            self._spot = None
            spot.wake()

    def __del__(self) -> None:
        self.pass_on()


class _Line:
    """Who has the turn, and who waits."""

    def __init__(self) -> None:
        self.spots: deque[_Spot] = deque()
        self.closed = False

    def has_come_to(self, spot: _Spot) -> bool:
        if self.closed:
            raise SandboxClosed("the sandbox was closed before the call")
        return self._first() is spot

    def leave(self, spot: _Spot) -> None:
        self._remove(spot)
        first = self._first()
        if first is not None:
            first.wake()

    def _first(self) -> _Spot | None:
        """Give the first spot that is not lost; those before it are taken out."""
        while self.spots:
            with suppress(IndexError):
                first = self.spots[0]
                if not first.is_lost():
                    return first
                self._remove(first)
        return None

    def _remove(self, spot: _Spot) -> None:
        with suppress(ValueError):
            self.spots.remove(spot)


class _Spot(ABC):
    """A place in the line."""

    def __init__(self) -> None:
        self._fate: dict[str, str] = {}  # what is set first is what stays

    def keep(self) -> bool:
        """Have it never be lost; False where it was lost before."""
        return self._fate.setdefault("is", "kept") == "kept"

    def is_lost(self) -> bool:
        """Tell whether it is lost, which it is if nobody is awake to keep it."""
        fate = self._fate.get("is")
        if fate is None and not self._is_awake():
            fate = self._fate.setdefault("is", "lost")
        return fate == "lost"

    @abstractmethod
    def wake(self) -> None:
        """Have the waiter look at the line."""

    def _is_awake(self) -> bool:
        return True


class _ThreadSpot(_Spot):
    """One where a thread waits."""

    def __init__(self) -> None:
        super().__init__()
        self._bell = threading.Lock()
        self._bell.acquire()

    def wait(self) -> None:
        self._bell.acquire(timeout=_LOOK_AGAIN_S)

    def wake(self) -> None:
        with suppress(RuntimeError):  # it rings already
            self._bell.release()


class _LoopSpot(_Spot):
    """One where a coroutine waits."""

    def __init__(self) -> None:
        import asyncio  # as costly to import as the rest of the package together

        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._bell = asyncio.Event()

    async def wait(self) -> None:
        import asyncio

        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_AGAIN_S):
                await self._bell.wait()
        self._bell.clear()

    def wake(self) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._bell.set)

    def _is_awake(self) -> bool:
        return self._loop.is_running()
