"""Opening the sandboxes of a pool, and ending them: at need, unused, at the close."""

from __future__ import annotations

import _thread
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from .conversations import Conversation
from .evicting import check_may_part, evicting
from .faults import SandboxClosed, SandboxError, startup_fault
from .keeping import Keeping
from .lease import until_left
from .observing import Observable, Observer
from .sandbox import Sandbox
from .seats import Abandoned, Seat, Seats

if TYPE_CHECKING:
    from .config import SandboxConfig

CLOSED_AT_ONCE = 8
_log = logging.getLogger("kern_tools")
_Keep = Callable[[Conversation, Sandbox], None]


class Turnover(Observable):
    """Fills the seats of a pool with open sandboxes, and empties them.

    Attributes:
        make: Makes a seat's sandbox, before it is opened.

    Args:
        config: The options of every sandbox.
        seats: Who has one.
        keeping: What stays of a sandbox that is closed.
        idle_timeout_s: How long a sandbox may go unused; None for as long as it likes.
    """

    def __init__(
        self,
        config: SandboxConfig,
        seats: Seats,
        keeping: Keeping,
        idle_timeout_s: float | None,
    ) -> None:
        self.make: Callable[[Seat], Sandbox] = lambda _: Sandbox(config)
        self._seats = seats
        self._keeping = keeping
        self._idle_timeout_s = idle_timeout_s
        self._closing = threading.Event()
        self._watch: threading.Thread | None = None
        self._watch_lock = threading.Lock()

    def open(self, seat: Seat) -> None:
        """Open a seat's sandbox; `seat.opened` tells when, or why it failed."""
        try:
            if seat.leaver is not None:
                self._evict(seat.leaver, seat)
            sandbox = self._build(seat)
        except BaseException as error:
            self._seats.remove(seat)
            interrupted = not isinstance(error, Exception)
            seat.opened.set_exception(Abandoned() if interrupted else error)
            if interrupted:
                raise
            return
        seat.opened.set_result(sandbox)
        self._start_watch()

    def observe(self, observer: Observer | None) -> None:
        """Have an observer told of the calls of every sandbox, those to come too."""
        super().observe(observer)
        for seat in self._seats.all():
            if seat.opening is not None:
                seat.opening.observe(observer)

    def part(self, seat: Seat, *, keep: bool) -> None:
        """Close a seat's sandbox whoever uses it, once it is open.

        Args:
            seat: The seat; one that was left already is fine.
            keep: Keep its files, where there is a place for them.

        Raises:
            SandboxError: It was closed, but could not be kept.
        """
        check_may_part([seat])
        seat.cut_short()
        if seat.opened.exception() is not None:
            return
        while not self._seats.leave(seat):
            if self._seats.find(seat.whose) is not seat:
                return
            until_left(seat).result()
        try:
            self._end(seat, self._keeping.save if keep else None)
        except SandboxError:
            if self._seats.leave(seat):
                self._end(seat, None)
            raise

    def make_room(self, entering: Seat) -> bool:
        """Close the sandbox that has gone unused longest; False where all are used.

        Args:
            entering: The seat that wants the room.

        Raises:
            SandboxError: It could not be kept.
        """
        unused = self._seats.leave_unused()
        if unused is None:
            return False
        self._evict(unused, entering)
        return True

    def close(self) -> None:
        """Close every sandbox, also where one could not be kept.

        Raises:
            SandboxError: One could not be kept.
        """
        check_may_part(self._seats.all())
        seats = self._seats.close()
        self._closing.set()
        with ThreadPoolExecutor(CLOSED_AT_ONCE, "kern-tools-pool-close") as threads:
            parted = [threads.submit(self.part, seat, keep=True) for seat in seats]
        with self._watch_lock:  # none is begun after this, or half begun
            watch = self._watch
        if watch is not None and watch is not threading.current_thread():
            watch.join()
        for done in parted:
            done.result()

    def abandon(self, pid: int) -> None:
        """Do as `close` some time soon, for a pool that was lost without it.

        May be called by the collector in any thread, and whatever that thread holds.

        Args:
            pid: The process that made the pool; in a forked child nothing is done.
        """
        if os.getpid() != pid:
            return
        count = len(self._seats)
        _thread.start_new_thread(self._close_lost, ())  # `threading` takes a lock
        if count:
            message = f"unclosed pool of {count} sandboxes: use `with`, or `close()`"
            warnings.warn(message, ResourceWarning, 2)

    def _close_lost(self) -> None:
        try:
            self.close()
        except Exception:
            _log.exception("files of a pool that was not closed could not be kept")

    def _build(self, seat: Seat) -> Sandbox:
        sandbox = seat.opening = self.make(seat)
        sandbox.observe(self.observer)  # `observe` looks for `opening` after this
        try:
            if seat.unwanted:
                sandbox.close()
            sandbox.open()
            lost = self._keeping.restore(seat.whose, sandbox)
            if lost is None and seat.again:
                lost = "files"
            if lost is not None:
                sandbox.declare_lost(lost)
            if not seat.give():
                raise SandboxClosed("the sandbox was closed while it was being opened")
        except BaseException as error:
            sandbox.close()
            if isinstance(error, SandboxError) and error.fault is None:
                error.fault = startup_fault(error.code, str(error))
            raise
        return sandbox

    def _evict(self, seat: Seat, entering: Seat | None) -> None:
        """End a seat that nobody uses; `on_evict` may refuse.

        Raises:
            SandboxError: It could not be kept, or should not be closed.
        """
        with evicting(seat, entering):
            self._end(seat, self._keeping.evict)

    def _end(self, seat: Seat, keep: _Keep | None) -> None:
        """Close the sandbox of a seat that is being left; if it cannot be kept, stay.

        Raises:
            SandboxError: It could not be kept.
        """
        sandbox = seat.opened.result()
        try:
            if keep is not None and sandbox.is_open:
                keep(seat.whose, sandbox)
        except BaseException:
            self._seats.stay(seat)
            raise
        try:
            if keep is not None:
                self._keeping.remember(seat.whose)
            sandbox.close()
        finally:
            self._seats.remove(seat)

    # -- the idle time-out

    def _start_watch(self) -> None:
        timeout_s = self._idle_timeout_s
        if timeout_s is None:
            return
        with self._watch_lock:
            if self._watch is None and not self._closing.is_set():
                name = "kern-tools-pool-idle"
                watch = threading.Thread(
                    target=self._watch_unused, args=(timeout_s,), name=name, daemon=True
                )
                watch.start()
                self._watch = watch

    def _watch_unused(self, timeout_s: float) -> None:
        while not self._closing.wait(self._pause_s(timeout_s)):
            since_s = time.monotonic() - timeout_s
            # One at a time: who comes back meanwhile finds the others as they were.
            while (seat := self._seats.leave_unused(since_s)) is not None:
                try:
                    self._evict(seat, None)
                except BaseException:  # a SystemExit of `on_evict` ends no watch
                    _log.exception("a sandbox that went unused stays open")

    def _pause_s(self, timeout_s: float) -> float:
        """Tell how long no sandbox can have gone unused for `timeout_s`."""
        since_s = self._seats.first_unused_s()
        if since_s is None:
            return timeout_s
        return max(0.0, since_s + timeout_s - time.monotonic())
