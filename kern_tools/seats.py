"""Who has a seat in a pool, who waits for one, and who has to leave for whom."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Literal

from .conversations import Conversation
from .faults import PoolFull, SandboxClosed, startup_fault
from .sandbox import Sandbox

Step = Literal["held", "open", "wait"]
"""What a claim came to: the seat is there; it is the caller's to open; it is being
left, and the claim is to be made again after that."""


Limit = Literal["max_sandboxes", "max_per_tenant"]


class Abandoned(Exception):
    """The caller that was opening the sandbox was interrupted; claim again."""


class Seat:
    """One conversation's seat, from the first claim until its sandbox is closed.

    Attributes:
        opened: Resolves to the open sandbox.
        left: Resolves once the seat is left, or is kept after all; None before.
        replaced: It is left for a conversation that has its seat already.
        leaver: The seat that has to be left before this one may be opened.
        again: The conversation had a sandbox, which is gone.
        opening: The sandbox that is being opened.
        leases: How many hold it.
        used_s: When it was last claimed or given back.
    """

    def __init__(self, whose: Conversation) -> None:
        self.whose = whose
        self.opened: Future[Sandbox] = Future()
        self.left: Future[None] | None = None
        self.replaced = False
        self.leaver: Seat | None = None
        self.again = False
        self.opening: Sandbox | None = None
        self.leases = 1
        self.used_s = time.monotonic()
        self._fate: dict[str, str] = {}  # what is set first is what stays

    def give(self) -> bool:
        """Have the opened sandbox be given out; False where nobody wants it now."""
        return self._fate.setdefault("is", "given") == "given"

    def cut_short(self) -> None:
        """End the opening, where it is still under way, and wait for its end."""
        unwanted = self._fate.setdefault("is", "unwanted") == "unwanted"
        if unwanted and self.opening is not None:
            self.opening.close()

    @property
    def unwanted(self) -> bool:
        """Its opening was cut short."""
        return self._fate.get("is") == "unwanted"

    @property
    def sandbox(self) -> Sandbox | None:
        """The sandbox, where it is open."""
        if not self.opened.done() or self.opened.exception() is not None:
            return None
        return self.opened.result()

    @property
    def unused_since_s(self) -> float | None:
        """Since when nobody has used it; None while somebody does."""
        if self.leases or self.left is not None or self.sandbox is None:
            return None
        if not self.sandbox.is_open:
            return self.used_s
        quiet_since_s = self.sandbox.quiet_since_s
        return None if quiet_since_s is None else max(self.used_s, quiet_since_s)


class Seats:
    """The seats of a pool; every method is short and safe in any thread.

    Args:
        most: How many there may be.
        most_per_tenant: How many one tenant may have; None for no such limit.
    """

    def __init__(self, most: int, most_per_tenant: int | None) -> None:
        self._most = most
        self._most_per_tenant = most_per_tenant
        self._lock = threading.Lock()
        self._seats: dict[Conversation, Seat] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._seats)

    def claim(self, whose: Conversation) -> tuple[Step, Seat]:
        """Hold a conversation's seat, or make it, of which one claim alone is told.

        Raises:
            PoolFull: There is no room, and nobody can be asked to leave.
            SandboxClosed: The pool is closed.
        """
        with self._lock:
            if self._closed:
                raise SandboxClosed("the pool is closed; make a new one")
            seat = self._seats.get(whose)
            if seat is None:
                return self._make(whose)
            if seat.left is not None:
                return "wait", seat
            if seat.sandbox is not None and not seat.sandbox.is_open:
                del self._seats[whose]  # whoever had it closed it
                step, again = self._make(whose)
                again.again = True
                return step, again
            seat.leases += 1
            seat.used_s = time.monotonic()
            return "held", seat

    def release(self, seat: Seat) -> None:
        """Give back what `claim` held."""
        with self._lock:
            seat.leases -= 1
            seat.used_s = time.monotonic()

    def find(self, whose: Conversation) -> Seat | None:
        """Look a seat up without using it."""
        with self._lock:
            return self._seats.get(whose)

    def leave(self, seat: Seat) -> bool:
        """Begin to leave a seat; False where that is done or under way."""
        with self._lock:
            if self._seats.get(seat.whose) is not seat or seat.left is not None:
                return False
            seat.left = Future()
            return True

    def stay(self, seat: Seat) -> None:
        """Keep a seat that was about to be left."""
        with self._lock:
            left, seat.left, seat.replaced = seat.left, None, False
            seat.used_s = time.monotonic()
        assert left is not None
        left.set_result(None)

    def remove(self, seat: Seat) -> None:
        """Let go of a seat that is left, or could not be opened."""
        with self._lock:
            if self._seats.get(seat.whose) is seat:
                del self._seats[seat.whose]
        if seat.left is not None:
            seat.left.set_result(None)

    def leave_unused(self, since_s: float = math.inf) -> Seat | None:
        """Begin to leave the longest unused seat, if nobody has used it since then."""
        with self._lock:
            seat = _least_used([*self._seats.values()])
            at_s = None if seat is None else seat.unused_since_s
            if seat is None or at_s is None or at_s > since_s:
                return None
            seat.left = Future()
            return seat

    def first_unused_s(self) -> float | None:
        """Tell since when the longest unused seat is that; None for no such seat."""
        with self._lock:
            seat = _least_used([*self._seats.values()])
            return None if seat is None else seat.unused_since_s

    def all(self) -> list[Seat]:
        """List the seats."""
        with self._lock:
            return list(self._seats.values())

    def close(self) -> list[Seat]:
        """Let nobody in any more; list those who are in."""
        with self._lock:
            self._closed = True
            return list(self._seats.values())

    def _make(self, whose: Conversation) -> tuple[Step, Seat]:
        seat = Seat(whose)
        limit, crowd = self._crowd(whose)
        if limit is not None:
            leaver = _least_used(crowd)
            if leaver is None:
                leaving = next((each for each in crowd if each.left), None)
                if leaving is not None:
                    return "wait", leaving
                raise _full(limit, len(crowd))
            leaver.left, leaver.replaced = Future(), True
            seat.leaver = leaver
        self._seats[whose] = seat
        return "open", seat

    def _crowd(self, whose: Conversation) -> tuple[Limit | None, list[Seat]]:
        """Give the limit that is reached, and the seats of which one has to go."""
        staying = [each for each in self._seats.values() if not each.replaced]
        own = [each for each in staying if each.whose.tenant == whose.tenant]
        if self._most_per_tenant is not None and len(own) >= self._most_per_tenant:
            return "max_per_tenant", own
        return ("max_sandboxes" if len(staying) >= self._most else None), staying


def _full(limit: Limit, count: int) -> PoolFull:
    code = "pool_full" if limit == "max_sandboxes" else "tenant_full"
    message = f"all {count} sandboxes that {limit} allows are in use"
    fault = startup_fault(code, message, retryable=True)
    remedy = f"{message}; try again when one is free, or raise {limit}"
    return PoolFull(remedy, code=code, fault=fault)


def _least_used(crowd: Sequence[Seat]) -> Seat | None:
    unused = [
        (at_s, number, seat)
        for number, seat in enumerate(crowd)
        if (at_s := seat.unused_since_s) is not None
    ]
    return min(unused)[2] if unused else None
