r"""One box: started, watched and ended in the engine thread.

    start -> (kern builds it) -> hello -> the call's work -> gone -> reaped
                    \______________ kill, at any time ______________/

`gone` is the end of the process in the box, which is what a caller waits for; `reaped`
is kern's own end some milliseconds later, and only then are its bytes complete.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import IO, TYPE_CHECKING

from .call import Call
from .capture import Capture
from .frames import FrameReader, request_file
from .processes import box_process
from .verdict import EndedBy, Evidence

if TYPE_CHECKING:
    from .engine import Engine, Timer
    from .launch import Launch

NOTES_BYTES = 1 << 16
FLUSH_S = 0.025
KERN_END_S = 5.0
_CREDENTIALS = struct.Struct("iii")


class Box:
    """One box and the call it serves.

    Attributes:
        call: The call.
        evidence: What was seen so far; complete when `on_end` is called.
    """

    def __init__(
        self,
        engine: Engine,
        launch: Launch,
        call: Call,
        on_end: Callable[[Box], None],
    ) -> None:
        self._engine = engine
        self._launch = launch
        self.call = call
        self._on_end = on_end
        self._notes = Capture(NOTES_BYTES)
        self._frames = FrameReader()
        self._control: socket.socket | None = None
        self._inside = -1  # pidfd of the process in the box
        self._outside = -1  # pidfd of kern
        self._kern: subprocess.Popen[bytes] | None = None
        self._started = self._alive = -1
        self._ran = False
        self._gone = False
        self.evidence = Evidence()
        self._holds_slot = True
        self._timers: list[Timer] = []

    # -- start

    def start(self) -> None:
        """Start kern; the caller holds one of the engine's starting slots."""
        self._engine.children.add(self)
        deadline = self.call.begin()
        try:
            self._spawn()
        except OSError as error:
            self._fail(error)
            return
        self._after(deadline - time.monotonic(), self._on_deadline)

    def _spawn(self) -> None:
        call, driven = self.call, self._launch.driver is not None
        self._started, started = os.pipe2(os.O_CLOEXEC)
        self._alive, alive = os.pipe2(os.O_CLOEXEC)
        stdin, stdin_end = self._stdin()
        try:
            self._kern = subprocess.Popen(
                self._launch.argv,
                stdin=stdin,
                stdout=subprocess.DEVNULL if driven else call.stdout.writer,
                stderr=self._notes.writer,
                pass_fds=(started, alive),
                start_new_session=True,
                env={
                    **self._launch.environ,
                    "KERN_STARTED_FD": str(started),
                    "KERN_ALIVE_FD": str(alive),
                },
            )
        finally:
            for descriptor in (started, alive):
                os.close(descriptor)
            self._notes.close_writer()
            if stdin_end is not None:
                stdin_end.close()
        self._outside = os.pidfd_open(self._kern.pid)
        self._watch(self._outside, self._on_kern_end)
        self._watch(self._notes.reader, partial(self._drain, self._notes))
        if self._control is not None:
            self._talk(self._control)
        else:
            self._listen()

    def _stdin(self) -> tuple[int, IO[bytes] | socket.socket | None]:
        """Choose the box's descriptor 0, and what of it to close here afterwards."""
        if self._launch.driver is not None:
            self._control, end = socket.socketpair()
            self._control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            return end.fileno(), end
        if self._launch.stderr_on_stdin:
            return self.call.stderr.writer, None
        return subprocess.DEVNULL, None

    def _talk(self, control: socket.socket) -> None:
        assert self._launch.driver is not None
        control.setblocking(False)
        control.sendall(self._launch.driver)
        self._watch(control.fileno(), self._on_hello)

    def _listen(self) -> None:
        """Read the streams of a command that runs without the driver."""
        self.call.stdout.close_writer()
        self.call.stderr.close_writer()
        self._watch(self._alive, self._on_alive)
        self._watch_streams()

    # -- the box speaks

    def _on_hello(self) -> None:
        assert self._control is not None
        data, ancillary, _, _ = self._control.recvmsg(4096, socket.CMSG_SPACE(12))
        if not data:
            self._engine.unwatch(self._control.fileno())
            return
        pid = _CREDENTIALS.unpack(ancillary[0][2])[0]
        self._hold(pid)
        self._ran = True
        self._release_slot()
        self._launch.forget_env_file()
        if self.call.ended_by is None:
            self._engine.unwatch(self._control.fileno())
            self._watch(self._control.fileno(), self._on_frames)
            self._hand_over()
        else:
            self._kill()

    def _hand_over(self) -> None:
        """Give the driver the work, with the pipes that become its streams."""
        assert self._control is not None
        call = self.call
        handle = request_file({**call.work.as_request(), **self._launch.setting})
        try:
            pipes = [call.stdout.writer, call.stderr.writer, handle]
            socket.send_fds(self._control, [b"c"], pipes)
        finally:
            os.close(handle)
            call.stdout.close_writer()
            call.stderr.close_writer()
        self._watch_streams()

    def _on_frames(self) -> None:
        assert self._control is not None
        try:
            data = self._control.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        if not data:
            self._engine.unwatch(self._control.fileno())
        for kind, payload in self._frames.feed(data):
            self.call.take(kind, payload)
            if kind == b"f" and self.call.ended_by is not None:
                self._kill()
        if self.call.exit_code is not None:
            self._kill()  # it said it is done: nothing it does afterwards counts

    def _on_alive(self) -> None:
        """Follow a box without the driver: bytes while it is built, then the end."""
        byte = os.read(self._alive, 64)
        self.evidence = replace(self.evidence, alive=self.evidence.alive + byte)
        if not byte:
            self._engine.unwatch(self._alive)
            self._ran = b"x" not in self.evidence.alive
            self._release_slot()
            self._launch.forget_env_file()

    def _watch_streams(self) -> None:
        for stream in (self.call.stdout, self.call.stderr):
            self._watch(stream.reader, partial(self._drain, stream))

    def _drain(self, stream: Capture) -> None:
        if not stream.drain():
            self._engine.unwatch(stream.reader)

    # -- the end

    def end(self, why: EndedBy) -> None:
        """End the call for a reason of ours; the first reason stands."""
        if self.call.ended_by is None and not self.call.done.done():
            self.call.ended_by = why
            self._kill()

    def _on_deadline(self) -> None:
        if self.call.ended_by is not None or self.call.done.done():
            return
        self.call.ended_by = "deadline"
        if self._ran and self.call.work.is_cell and self._inside >= 0:
            _signal(self._inside, signal.SIGURG)  # the driver flushes its streams
            self._after(FLUSH_S, self._kill)
        else:
            self._kill()

    def _hold(self, pid: int) -> None:
        """Keep a descriptor on the process in the box, which a pid cannot replace."""
        try:
            self._inside = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        self._watch(self._inside, self._on_gone)

    def _kill(self) -> None:
        if self._gone or self._kern is None or self._outside < 0:
            return
        if self._inside < 0:
            pid = box_process(self._kern.pid)
            if pid is not None:
                self._hold(pid)
        if self._inside >= 0:
            _signal(self._inside, signal.SIGKILL)
            self._after(KERN_END_S, self._kill_kern)
        else:
            self._kill_kern()

    def _kill_kern(self) -> None:
        if self._outside >= 0 and self._kern is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._kern.pid, signal.SIGKILL)

    def _on_gone(self) -> None:
        self._engine.unwatch(self._inside)
        self._gone = True
        self._advance()

    def _on_kern_end(self) -> None:
        assert self._kern is not None
        self._engine.unwatch(self._outside)
        status = self._kern.wait()
        self._notes.drain_all()
        self.evidence = replace(
            self.evidence,
            status=status,
            started=_read_now(self._started),
            alive=self.evidence.alive + _read_now(self._alive),
        )
        if self._inside < 0:
            self._gone = True
        self._advance()

    def _advance(self) -> None:
        """Finish the call once its end is known, the box once both ends are seen."""
        self._finish_if_complete()
        if self._gone and self.evidence.status is not None:
            self._dispose()

    def _finish_if_complete(self) -> None:
        call, seen = self.call, self.evidence
        decided = (call.ended_by, call.exit_code, call.exec_failure) != (None,) * 3
        if not self._gone or not (decided or seen.status is not None):
            return
        if call.done.done():
            return
        for stream in (call.stdout, call.stderr):
            self._engine.unwatch(stream.reader)
        self._notes.drain()
        call.notes = self._notes.text()[0]
        call.finish(
            replace(
                seen,
                ran=self._ran,
                ended_by=call.ended_by,
                exit_code=call.exit_code,
                exec_failure=call.exec_failure,
            )
        )

    def _fail(self, error: BaseException) -> None:
        """End the call because this house failed, and clean up."""
        for stream in (self.call.stdout, self.call.stderr):
            self._engine.unwatch(stream.reader)
        self.call.fail(error)
        if self._kern is None:
            self._dispose()
        else:
            self._kill_kern()

    def _dispose(self) -> None:
        self._release_slot()
        self._launch.forget_env_file()
        for timer in self._timers:
            timer.cancel()
        for descriptor in self._descriptors():
            self._engine.unwatch(descriptor)
        self.forget()
        self._engine.children.discard(self)
        self._on_end(self)

    # -- what the engine asks of a child

    def forget(self) -> None:
        """Close every descriptor of this box; touch no process."""
        if self._control is not None:
            self._control.close()
            self._control = None
        self._notes.close()
        for descriptor in (self._inside, self._outside, self._started, self._alive):
            if descriptor >= 0:
                os.close(descriptor)
        self._inside = self._outside = self._started = self._alive = -1

    def abandon(self) -> None:
        """Kill the box without waiting."""
        if self._inside >= 0:
            _signal(self._inside, signal.SIGKILL)
        else:
            self._kill_kern()

    def _descriptors(self) -> list[int]:
        control = -1 if self._control is None else self._control.fileno()
        return [
            d
            for d in (
                control,
                self._notes.reader,
                self._inside,
                self._outside,
                self._alive,
            )
            if d >= 0
        ]

    # -- the engine, for this box

    def _watch(self, descriptor: int, on_ready: Callable[[], None]) -> None:
        self._engine.watch(descriptor, lambda: self._safely(on_ready))

    def _after(self, delay_s: float, call: Callable[[], None]) -> None:
        due = time.monotonic() + delay_s
        self._timers.append(self._engine.at(due, lambda: self._safely(call)))

    def _safely(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:
            self._fail(error)

    def _release_slot(self) -> None:
        if self._holds_slot:
            self._holds_slot = False
            self._engine.started()


def _signal(pidfd: int, number: int) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)


def _read_now(descriptor: int) -> bytes:
    """Read what is there; a forked child of the host may hold the other end open."""
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, 64)
    except BlockingIOError:
        return b""
