"""Snapshots of open sandboxes, from time to time, so that a lost node loses little."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from kern_tools.conversations import Conversation
from kern_tools.faults import SandboxClosed
from kern_tools.keeping import Keeping
from kern_tools.sandbox import Sandbox
from kern_tools.seats import Seat, Seats

_LOOKS = 4
_log = logging.getLogger("kern_tools")


class Schedule:
    """Saves each sandbox that was used since it was saved, between two of its calls.

    Args:
        seats: The pool's.
        keeping: Saves.
        every_s: How old a snapshot may be, while a sandbox is used.
    """

    def __init__(self, seats: Seats, keeping: Keeping, every_s: float) -> None:
        self._seats = seats
        self._keeping = keeping
        self._every_s = every_s
        self._saved_s: WeakKeyDictionary[Sandbox, float] = WeakKeyDictionary()
        self._closing = threading.Event()
        self._saving = threading.Lock()
        name = "kern-tools-cluster-snapshots"
        self._thread = threading.Thread(target=self._keep_on, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Begin no further snapshot, and wait for one that is being made."""
        self._closing.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    @contextmanager
    def held_off(self) -> Generator[None]:
        """Make no snapshot during a block."""
        with self._saving:
            yield

    def _keep_on(self) -> None:
        while not self._closing.wait(self._every_s / _LOOKS):
            for seat in self._seats.all():
                with self._saving:
                    self._look(seat)

    def _look(self, seat: Seat) -> None:
        sandbox = seat.sandbox
        if sandbox is None or seat.left is not None:
            return
        if self._seats.find(seat.whose) is not seat or self._closing.is_set():
            return
        try:
            if self._is_due(sandbox):
                self._save(seat.whose, sandbox)
        except SandboxClosed:
            return
        except Exception:
            _log.exception("a scheduled snapshot failed; the one before it is kept")

    def _is_due(self, sandbox: Sandbox) -> bool:
        quiet_since_s = sandbox.quiet_since_s
        saved_s = self._saved_s.get(sandbox, -self._every_s)
        if quiet_since_s is None or quiet_since_s < saved_s:
            return False
        return time.monotonic() - saved_s >= self._every_s

    def _save(self, whose: Conversation, sandbox: Sandbox) -> None:
        began_s = time.monotonic()
        self._keeping.save(whose, sandbox)
        self._saved_s[sandbox] = began_s
