"""The short way of a call: its caller's own thread asks the box, and listens.

A cell of a kernel is often over before two threads could wake each other. So a caller,
who waits anyway, is lent the box for the call's first moments. Whatever takes longer,
or does not come to its own end, is the engine's: it takes the box back.
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

from .service import hand_over
from .verdict import Evidence

if TYPE_CHECKING:
    from .box import Box
    from .call import Call

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
