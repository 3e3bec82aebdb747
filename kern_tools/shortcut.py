"""The short way of a call: its caller's own thread asks the box, and listens.

A cell of a kernel is often over before two threads could wake each other. So a caller,
who waits anyway, is lent the box for the call's first moments. Whatever takes longer,
or does not come to its own end, is the engine's: it takes the box back.
"""

from __future__ import annotations

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
    from .session import SessionBox

HERE_S = 0.002


def serve_here(box: Box, call: Call) -> None:
    """Have the box run a cell, and stay with it for `HERE_S`.

    Args:
        box: A kernel's, lent to this call.
        call: It is over afterwards, or to be taken back by the engine.

    Raises:
        OSError: The box cannot be asked; `BrokenPipeError` where nobody listens there.
    """
    assert box.control is not None
    call.begin()
    hand_over(box.control, call)
    call.close_writers()
    poll = select.poll()
    poll.register(box.control, select.POLLIN)
    until_s = time.monotonic() + min(HERE_S, call.timeout_s)
    while (left_s := until_s - time.monotonic()) > 0 and poll.poll(left_s * 1000):
        frames = box.read_frames()
        if frames is None:
            return
        for kind, payload in frames:
            call.take(kind, payload)
        if call.exit_code is not None:
            call.notes = box.notes
            call.finish(Evidence(ran=True, exit_code=call.exit_code, box_gone=False))
            return


class SessionDispatch(Dispatch):
    """The calls of a sandbox with one box, which it lends to their callers."""

    def __init__(self, engine: Engine, session: SessionBox) -> None:
        super().__init__(engine, session, max_running=1)
        self._session = session
        self._interrupted: Call | None = None
        self._caller = 0  # the thread that is or was lent the box

    def submit_here(self, call: Call) -> None:
        """Do as `submit`; a short call may be over by the end of this.

        For a caller who waits for the call anyway, and when no other call can begin.
        """
        self._caller = threading.get_ident()
        box = None if self._closed else self._session.lend(call)
        if box is None:
            self.submit(call)
            return
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

    def end(self, call: Call, why: EndedBy) -> None:
        """Do as `Dispatch.end`; a caller who asks has left the box."""
        if threading.get_ident() == self._caller:
            self._engine.post(partial(self._take_back, call))
        super().end(call, why)

    def interrupt(self) -> None:
        """Do as `Dispatch.interrupt`, with the call whose caller has the box."""
        guest = self._session.guest  # a later one is not meant
        super().interrupt()
        if guest is not None:
            self._engine.post(partial(self._interrupt_guest, guest))

    def _interrupt_guest(self, guest: Call) -> None:
        if guest.service is None:  # else it was running, and is interrupted
            self._interrupted = guest

    def _end(self, call: Call, why: EndedBy) -> None:
        if self._session.guest is call:  # its caller has the box, and leaves it soon
            call.unwanted = True
            again = partial(self._end, call, why)
            self._engine.at(time.monotonic() + HERE_S, again)
        else:
            super()._end(call, why)

    def _send_elsewhere(self, call: Call) -> None:
        self._session.replace(call)
        call.withdraw()
        self._queue(call)

    def _take_back(self, call: Call) -> None:
        if self._session.guest is not call:
            return
        interrupted, self._interrupted = self._interrupted is call, None
        self._note_running(call)
        self._session.take_back(call)
        if self._closed:
            self._end(call, "close")
        elif interrupted and call.service is not None:
            call.service.interrupt()
