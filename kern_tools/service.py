"""One call in the hands of a box, from the handing over to its evidence."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from .capture import Capture
from .frames import FrameReader, request_bytes
from .processes import send_signal
from .verdict import EndedBy, Evidence

if TYPE_CHECKING:
    from .box import Box
    from .call import Call
    from .engine import Timer

LISTEN_AFTER_S = 0.002
FLUSH_S = 0.1
"""How long code may take to flush its streams at the deadline."""
INTERRUPT_EVERY_S = 0.1
INTERRUPT_FOR_S = 1.0
"""How long a kernel's cell may take to heed its interrupts."""


def hand_over(control: socket.socket, call: Call, more: Sequence[int] = ()) -> None:
    """Send the driver the work, with the pipes that become its streams.

    Args:
        control: The box's socket.
        call: It has begun.
        more: Descriptors that the driver takes besides.

    Raises:
        OSError: It could not be sent.
    """
    request, handle = request_bytes(call.work.as_request())
    held = [handle] if handle >= 0 else []
    try:
        pipes = (call.stdout.writer, call.stderr.writer, *more, *held)
        carried = struct.pack(f"{len(pipes)}i", *pipes)
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, carried)
        control.sendmsg([request], [rights])
    finally:
        for descriptor in held:
            os.close(descriptor)


class Service:
    """What a box does for one call."""

    def __init__(self, box: Box, call: Call) -> None:
        self._box = box
        self.call = call
        call.service = self
        self._child = -1  # pidfd of the call's own process, where it has one
        self._frames = Capture(1 << 30) if box.launch.mode == "resident" else None
        self._reader = FrameReader()
        self._timers: list[Timer] = []
        deadline = call.begin()
        if self._frames is not None:
            self._frames.open()
        self._after(deadline - time.monotonic(), self._on_deadline)

    # -- the beginning

    def hand_over(self) -> None:
        """Give the driver the work, with the pipes that become its streams."""
        control, call = self._box.control, self.call
        assert control is not None
        own = [] if self._frames is None else [self._frames.writer]
        hand_over(control, call, own)
        self.listen()

    def listen(self) -> None:
        """Read the call's streams, whose other ends are in the box now.

        What ends at once is read at its end, which spares watching the streams.
        """
        for stream in self._streams():
            stream.close_writer()
        self._after(LISTEN_AFTER_S, self._watch_streams)

    def _watch_streams(self) -> None:
        for stream in (self.call.stdout, self.call.stderr):
            self._box.watch(stream.reader, partial(self._box.drain, stream))
        if self._frames is not None:
            self._box.watch(self._frames.reader, self._on_child_frames)

    def _streams(self) -> list[Capture]:
        own = [self.call.stdout, self.call.stderr]
        return own if self._frames is None else [*own, self._frames]

    # -- the box speaks

    def take(self, kind: bytes, payload: bytes, pidfds: list[int]) -> None:
        """Take one frame of the control socket."""
        if kind == b"p" and pidfds:
            self._child = pidfds.pop()
            if self.call.ended_by is not None:
                self._end_call()
            return
        believed = self._frames is not None or not self.call.work.is_cell
        self.call.take(kind, payload, in_child=believed)
        if kind == b"f":
            self._on_flushed()
        if self.call.exit_code is not None:
            self._on_done()

    def _on_child_frames(self) -> None:
        """Take the frames of a call that runs in a child; they end nothing."""
        assert self._frames is not None
        self._box.drain(self._frames)
        for kind, payload in self._reader.feed(self._frames.take_kept()):
            if kind == b"f":
                self._on_flushed()
            elif kind in b"roe":
                self.call.take(kind, payload)

    def _on_flushed(self) -> None:
        if self.call.ended_by == "deadline":
            self._end_call()

    def _on_done(self) -> None:
        """The driver says that the call is over."""
        if self._box.for_one_call:
            self._box.kill()  # nothing it does afterwards counts
            if self.call.leaves_nothing and self._box.has_ceased():
                self.box_gone(self._box.evidence)
            return
        self._finish(self._box.evidence, box_gone=False)
        self._box.end_service()

    # -- the end

    def end(self, why: EndedBy) -> None:
        """End the call for a reason of ours; the first reason stands."""
        if self.call.ended_by is None and not self.call.done.done():
            self.call.ended_by = why
            self._box.kill()

    def interrupt(self) -> None:
        """Have the code see a KeyboardInterrupt, as from Ctrl-C."""
        self._interrupt(until_s=time.monotonic() + INTERRUPT_FOR_S, then_kill=False)

    def _on_deadline(self) -> None:
        if self.call.ended_by is not None or self.call.done.done():
            return
        self.call.ended_by = "deadline"
        box = self._box
        if not box.ready:
            box.kill()
        elif box.launch.mode == "kernel":
            self._interrupt(until_s=time.monotonic() + INTERRUPT_FOR_S, then_kill=True)
        elif self.call.work.is_cell and self._process >= 0:
            send_signal(self._process, signal.SIGURG)  # the driver flushes its streams
            self._after(FLUSH_S, self._end_call)
        else:
            self._end_call()

    @property
    def _process(self) -> int:
        """The pidfd of what runs the call."""
        return self._box.inside if self._frames is None else self._child

    def _end_call(self) -> None:
        """Kill the call at its deadline; a resident box lives on."""
        if self._frames is None:
            self._box.kill()
        elif self._child >= 0:
            send_signal(self._child, signal.SIGKILL)

    def _interrupt(self, *, until_s: float, then_kill: bool) -> None:
        if self.call.done.done():
            return
        if time.monotonic() >= until_s:
            if then_kill:
                self._box.kill()
            return
        self._signal_call(signal.SIGINT)
        again = partial(self._interrupt, until_s=until_s, then_kill=then_kill)
        self._after(INTERRUPT_EVERY_S, again)

    def _signal_call(self, number: int) -> None:
        if self._box.launch.mode == "kernel":
            self._box.signal_group(number)
        elif self._process >= 0:
            send_signal(self._process, number)

    def box_gone(self, seen: Evidence) -> None:
        """The box has ended; finish as soon as the reason is known."""
        call = self.call
        decided = (call.ended_by, call.exit_code, call.exec_failure) != (None,) * 3
        if decided or seen.reaped:
            self._finish(seen, box_gone=True)
            self._box.end_service()

    def _finish(self, seen: Evidence, *, box_gone: bool) -> None:
        call = self.call
        self._let_go()
        call.notes, call.stray_stderr = self._box.words()
        call.finish(
            replace(
                seen,
                box_gone=box_gone,
                ended_by=call.ended_by,
                exit_code=call.exit_code,
                exec_failure=call.exec_failure,
            )
        )

    def withdraw(self) -> Call:
        """Let go of a call that the box did not hear of."""
        self._let_go()
        self.call.withdraw()
        return self.call

    def fail(self, error: BaseException) -> None:
        """End the call with trouble of our own house."""
        self._let_go()
        self.call.fail(error)

    def _let_go(self) -> None:
        for timer in self._timers:
            timer.cancel()
        for stream in self._streams():
            self._box.engine.unwatch(stream.reader)
        if self._frames is not None:
            self._on_last_frames(self._frames)
        if self._child >= 0:
            os.close(self._child)
            self._child = -1

    def _on_last_frames(self, frames: Capture) -> None:
        frames.drain_rest()
        for kind, payload in self._reader.feed(frames.take_kept()):
            if kind in b"roe":
                self.call.take(kind, payload)
        frames.close()

    def _after(self, delay_s: float, step: Callable[[], None]) -> None:
        self._timers.append(self._box.after(delay_s, step))
