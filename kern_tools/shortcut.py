"""The short way of a call: its caller's own thread asks the box, and listens.

A cell is often over before two threads could wake each other. So a caller, who waits
anyway, is lent a box for the call's first moments. Whatever takes longer, or does not
come to its own end, is the engine's: it takes the box back.
"""

from __future__ import annotations

import os
import select
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from .dispatch import Dispatch
from .service import hand_over
from .verdict import EndedBy, Evidence

if TYPE_CHECKING:
    from .box import Box
    from .call import Call
    from .engine import Engine
    from .lending import Lender

HERE_S = 0.005
AWAKE_S = 0.001
"""How long a lone caller does not sleep: to be woken takes longer than many a cell.

It costs that much processor time, and other threads of the process may wait as long.
"""
GONE_S = 0.05
"""How long a caller waits for the end of a box that it has killed, if it has to."""
_SPARE_PROCESSOR = len(os.sched_getaffinity(0)) > 1
_listening: set[Call] = set()  # of this process
os.register_at_fork(after_in_child=_listening.clear)


def serve_here(box: Box, call: Call) -> None:
    """Have the box run a cell, and stay with it for `HERE_S`.

    Args:
        box: Lent to this call.
        call: It is over afterwards, or to be taken back by the engine.

    Raises:
        OSError: The box cannot be asked; `BrokenPipeError` where nobody listens there.
    """
    assert box.control is not None
    call.begin()
    hand_over(box.control, call)
    call.close_writers()
    if not _hear_end(box, call):
        return
    gone = box.for_one_call
    if gone and not box.end_here(GONE_S, leaves_nothing=call.leaves_nothing):
        return
    call.notes = box.notes
    call.finish(Evidence(ran=True, exit_code=call.exit_code, box_gone=gone))


def _hear_end(box: Box, call: Call) -> bool:
    """Take what the driver says; tell whether it said that the cell is over."""
    assert box.control is not None
    poll = select.poll()
    poll.register(box.control, select.POLLIN)
    began_s = time.monotonic()
    until_s = began_s + min(HERE_S, call.timeout_s)
    awake_until_s = min(began_s + AWAKE_S, until_s)
    try:
        _listening.add(call)
        while _is_heard(poll, awake_until_s, until_s):
            frames = box.read_frames()
            if frames is None:
                return False
            for kind, payload in frames:
                call.take(kind, payload)
            if call.exit_code is not None:
                return True
        return False
    finally:
        _listening.discard(call)


def _is_heard(poll: select.poll, awake_until_s: float, until_s: float) -> bool:
    """Wait until the driver says something; tell whether it did in time."""
    now_s = time.monotonic()
    while _SPARE_PROCESSOR and len(_listening) == 1 and now_s < awake_until_s:
        if poll.poll(0):
            return True
        now_s = time.monotonic()
    return now_s < until_s and bool(poll.poll((until_s - now_s) * 1000))


class LendingDispatch(Dispatch):
    """The calls of a sandbox that lends its boxes to their callers."""

    def __init__(self, engine: Engine, lender: Lender, max_running: int) -> None:
        super().__init__(engine, lender, max_running)
        self._lender = lender

    def submit_here(self, call: Call) -> None:
        """Do as `submit`; a short call may be over by the end of this.

        For a caller who waits for the call anyway.
        """
        call.caller = threading.get_ident()
        box = self._lender.lend(call) if self._may_borrow(call) else None
        if box is None:
            self.submit(call)
        elif not self._lender.takes_turns and self._count() > self._max_running:
            self._engine.post(partial(self._send_elsewhere, call))
        else:
            self._serve_here(box, call)

    def _serve_here(self, box: Box, call: Call) -> None:
        go_on = self._take_back
        try:
            serve_here(box, call)
        except ConnectionError:  # the box ends, or the code closed the socket
            go_on = self._send_elsewhere
        except OSError as error:
            call.fail(error)
        finally:
            if not call.done.done():
                self._engine.post(partial(go_on, call))
            elif not self._lender.takes_turns:  # else none is waiting
                self._engine.post(self._start_next)

    def _may_borrow(self, call: Call) -> bool:
        return call.work.is_cell and not self._closed and not self._waiting

    def _count(self) -> int:
        # Each of two threads adds its call before it counts, without a lock, which an
        # interrupt could leave held: one of them sees that both are too many.
        running = sum(not call.done.done() for call in list(self._running))
        return running + len(self._lender.guests)

    def end(self, call: Call, why: EndedBy) -> None:
        """Do as `Dispatch.end`; a caller who asks has left the box."""
        if threading.get_ident() == call.caller:
            self._engine.post(partial(self._take_back, call))
        super().end(call, why)

    def interrupt(self) -> None:
        """Do as `Dispatch.interrupt`, with the calls whose callers have a box."""
        guests = self._lender.guests  # later ones are not meant
        super().interrupt()
        for guest in guests:
            self._engine.post(partial(_interrupt_guest, guest))

    def _end(self, call: Call, why: EndedBy) -> None:
        if call in self._lender.guests:  # its caller has a box, and leaves it soon
            call.unwanted = True
            again = partial(self._end, call, why)
            self._engine.at(time.monotonic() + HERE_S, again)
        else:
            super()._end(call, why)

    def _send_elsewhere(self, call: Call) -> None:
        self._lender.replace(call)
        call.withdraw()
        self._queue(call)

    def _take_back(self, call: Call) -> None:
        if call not in self._lender.guests:
            return
        self._note_running(call)
        self._lender.take_back(call)
        if self._closed:
            self._end(call, "close")
        elif call.interrupted and call.service is not None:
            call.service.interrupt()


def _interrupt_guest(guest: Call) -> None:
    if guest.service is None:  # else it was running, and is interrupted
        guest.interrupted = True
