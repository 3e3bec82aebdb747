r"""One box: started, watched and ended in the engine thread.

    start -> (kern builds it) -> hello -> calls, one at a time -> gone -> reaped
                    \______________ kill, at any time ______________/

A caller waits until no code of the box will run any more, or until it is `gone`, which
is the end of the process in it; `reaped` is kern's own end some milliseconds later, and
only then are its bytes complete.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from .frames import FrameReader
from .processes import box_process, send_signal, wait_gone
from .service import Service
from .supervisor import Supervisor
from .verdict import Evidence
from .vitals import Vitals

if TYPE_CHECKING:
    from .call import Call
    from .capture import Capture
    from .engine import Engine, Timer
    from .launch import Launch

NOTES_BYTES = 1 << 16
MERGED_BYTES = 1 << 20
"""Kept of kern's stderr, and where it is the command's too."""
KERN_END_S = 5.0
_REFUSED = 1
"""kern's exit status where it does not start a box, or gives up one that it built."""
FEW_BYTES = 1 << 13
"""Read at once of what is mostly small: a larger buffer costs more than its use."""
_LOOKS = 8
"""How often a caller looks whether its box has ceased; a look takes some 20 us."""
_MOST_READS = 64
"""So many small ones empty a socket to which nobody writes any more."""
_CREDENTIALS = struct.Struct("iii")
_ROOM_FOR_PIDFD = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(4)


class Box:
    """One box; it has one call in hand, or is lent to the caller of one.

    Args:
        engine: Where it lives.
        launch: How it is started.
        on_change: Told when it is ready, has imported what was wanted, could have
            another call, or is gone.
        on_unheard: Given a call back that this box, once ready, did not hear of.

    Attributes:
        launch: How it was started.
        ready: The driver said hello; a call is taken up at once, or when it has
            imported what was wanted.
        settled: It has.
        noticed: Those of the wanted modules whose import a call would notice.
        evidence: What was seen so far; complete once it was reaped.
        retired: It is lent no more; whoever sets that looks for a guest after it.
        disposed: Nothing is left of it.
    """

    def __init__(
        self,
        engine: Engine,
        launch: Launch,
        on_change: Callable[[Box], None],
        on_unheard: Callable[[Call], None],
    ) -> None:
        self.engine = engine
        self.launch = launch
        self.ready = self.settled = self.retired = self.disposed = False
        self.noticed: tuple[str, ...] = ()
        self.evidence = Evidence()
        self.control: socket.socket | None = None
        self.inside = -1  # pidfd of the first process in the box
        self._inside_pid = 0
        self._mounts = -1  # the box's mount namespace, kept for its end
        self._vitals: Vitals | None = None  # of a box that ends with its call
        self._on_change = on_change
        self._on_unheard = on_unheard
        self._service: Service | None = None
        self._guest: weakref.ref[Call] | None = None  # its results may be large
        self._kern = _supervisor(launch)
        self._split: int | None = None
        self._frames = FrameReader()
        self._gone = self._killed = self._leaves = False
        self._holds_slot = True
        self._may_start_again = launch.filtered and launch.driver is not None
        self._earlier_notes = ""
        self._kern_timer: Timer | None = None

    @property
    def ended(self) -> bool:
        """It is gone, or on its way."""
        return self._gone or self._killed or self.evidence.reaped

    @property
    def leaving(self) -> bool:
        """No code of it runs any more, and kern has yet to end."""
        return self._gone and not self.disposed

    def lives(self) -> bool:
        """Ask the kernel whether the process in the box is still there.

        Any thread may ask; what is closed meanwhile counts as gone.
        """
        inside = self.inside
        return inside >= 0 and not self.ended and not wait_gone(inside, 0)

    @property
    def idle(self) -> bool:
        """It could take a call."""
        return self._service is None and self.guest is None and not self.ended

    @property
    def for_one_call(self) -> bool:
        """It ends with its call."""
        return self.launch.mode == "fresh"

    @property
    def _is_silent_when_idle(self) -> bool:
        """Its driver says nothing between two calls, so that nobody need listen."""
        return self.launch.mode != "resident"

    @property
    def guest(self) -> Call | None:
        """The call to whose caller the box is lent."""
        call = None if self._guest is None else self._guest()
        lent = call is not None and call.service is None and not call.done.done()
        return call if lent else None

    # -- start

    def start(self, call: Call | None = None) -> None:
        """Start kern; the caller holds one of the engine's starting slots.

        Args:
            call: Served as soon as the box is ready; a box without the driver needs it
                now, for its streams are the box's.
        """
        if self._killed:  # before it could be started
            self._gone = True
            self._dispose()
            return
        self.engine.children.add(self)
        try:
            if call is not None:
                self._service = Service(self, call)
            self._spawn(call)
        except OSError as error:
            if self._service is None and call is not None:
                call.fail(error)
            self.fail(error)

    def _spawn(self, call: Call | None) -> None:
        if self.launch.driver is None:
            assert call is not None
            apart = self.launch.stderr_on_stdin
            stdin = call.stderr.writer if apart else subprocess.DEVNULL
            self._kern.start(self.launch, stdin=stdin, stdout=call.stdout.writer)
        else:
            self.control, end = socket.socketpair()
            self.control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            with end:
                null = subprocess.DEVNULL
                self._kern.start(self.launch, stdin=end.fileno(), stdout=null)
        self.watch(self._kern.pidfd, self._on_kern_end)
        self.watch(self._kern.notes.reader, partial(self.drain, self._kern.notes))
        if self.control is not None:
            self._send_driver(self.control)
        else:
            assert self._service is not None
            self.watch(self._kern.alive, self._on_alive)
            self._service.listen()

    def _send_driver(self, control: socket.socket) -> None:
        assert self.launch.driver is not None
        control.setblocking(False)
        with suppress(BrokenPipeError):  # kern has ended already: its end tells why
            control.sendall(self.launch.driver)
        self.watch(control.fileno(), self._on_hello)

    # -- calls

    def serve(self, call: Call) -> None:
        """Take up a call now, or as soon as the driver said hello."""
        assert self.idle, "a box has one call at a time"
        service = self._take_up(call)
        if service is not None and self.ready:
            self._safely(partial(self._offer, service))

    def _take_up(self, call: Call) -> Service | None:
        """Have the call in hand; None where this host refused what it needs."""
        try:
            self._service = Service(self, call)
        except OSError as error:
            call.fail(error)
            self.kill()
        return self._service

    def _offer(self, service: Service) -> None:
        try:
            self._hear_calls()
            service.hand_over()
        except ConnectionError:  # it ends, or the code closed the socket
            self._service = None
            self.kill()
            self._on_unheard(service.withdraw())

    def _hear_calls(self) -> None:
        """Watch the socket, which callers that are lent the box read otherwise."""
        if self._is_silent_when_idle and self.control is not None:
            self.watch(self.control.fileno(), self._on_frames)

    def end_service(self) -> None:
        """The call in hand is over; the box may have another."""
        self._service = None
        self._cease_to_hear()
        self._on_change(self)

    def _cease_to_hear(self) -> None:
        if self._is_silent_when_idle and self.control is not None:
            self.engine.unwatch(self.control.fileno())

    # -- lent to the caller of a call

    def lend(self, call: Call) -> bool:
        """Leave the box to the thread that makes a call, if it is idle.

        Until the call is over, or taken back, the engine does not read the socket, nor
        look for the end of a box that ends with the call. Any thread may ask, as long
        as no other call of this box can begin.
        """
        if not self.settled or not self.idle:
            return False
        self._guest = weakref.ref(call)
        free = self._service is None and not self.ended and not self.retired
        if free and not call.unwanted:
            if self.for_one_call:
                self.engine.unwatch(self.inside)
            return True
        self._guest = None
        return False

    def end_here(self, within_s: float, *, leaves_nothing: bool) -> bool:
        """Kill the box that a caller is lent; tell whether it need not be waited for.

        Args:
            within_s: How long to wait for its very end.
            leaves_nothing: No more than the end of its code is of interest.
        """
        self._killed = True
        send_signal(self.inside, signal.SIGKILL)
        if leaves_nothing and self.has_ceased(_LOOKS):
            return True
        self._gone = wait_gone(self.inside, within_s)
        return self._gone

    def has_ceased(self, looks: int = 1) -> bool:
        """Tell whether no code of a box that was killed will run any more.

        Args:
            looks: How often to look, in a row.
        """
        vitals = self._vitals
        ceased = vitals is not None and any(vitals.have_ceased() for _ in range(looks))
        if ceased:
            self._look_no_more()  # many may be on their way out
        return ceased

    def _look_no_more(self) -> None:
        vitals, self._vitals = self._vitals, None
        if vitals is not None:
            vitals.close()

    def take_back(self, call: Call) -> None:
        """Go on with a call whose caller was lent the box."""
        if self.guest is not call or self._service is not None:
            return
        service = self._take_up(call)
        if service is None:
            return
        self._guest = None
        self._hear_rest()
        if self._service is None:  # it was over
            return
        self._await_end()
        self._hear_calls()
        service.listen()
        # Where the box is gone by now: once it is known who ended the call.
        self.engine.post(partial(self._safely, self._advance))

    def _hear_rest(self) -> None:
        """Take what the driver said while nobody listened: it may have ended since.

        Once the call is over, the next one's caller may have the box, and is who reads.
        """
        with suppress(BlockingIOError):
            for _ in range(_MOST_READS):
                frames = self.read_frames()
                if frames is None:
                    return
                self._give(frames, [])
                if self._service is None:
                    return

    def refuse(self) -> None:
        """Be lent no longer, and end: what was asked was not heard."""
        self._guest = None
        self.see_off()

    def see_off(self) -> None:
        """End for good, and have kern end too, once the call of a caller is over."""
        self._await_end()
        self.kill()
        self._advance()  # kern may have ended before the caller saw its box do so

    def _await_end(self) -> None:
        """Watch for the end of a box, which no caller looks for any more."""
        if self.for_one_call and self.inside >= 0 and not self._gone:
            self.engine.unwatch(self.inside)
            self.watch(self.inside, self._on_gone)

    def read_frames(self) -> list[tuple[bytes, bytes]] | None:
        """Read what the driver said; None where it says nothing any more."""
        assert self.control is not None
        try:
            data = self.control.recv(FEW_BYTES)
        except ConnectionResetError:
            return None
        return self._frames.feed(data) if data else None

    @property
    def notes(self) -> str:
        """What kern said, as far as it was read."""
        return self._earlier_notes + self._kern.said

    # -- the box speaks

    def _on_hello(self) -> None:
        assert self.control is not None
        self.engine.unwatch(self.control.fileno())
        try:
            data, ancillary, _, _ = self.control.recvmsg(4096, socket.CMSG_SPACE(12))
        except ConnectionResetError:  # it ended without reading the driver
            return
        if not data:
            return
        self._hold(_CREDENTIALS.unpack(ancillary[0][2])[0])
        self._mark_ready()
        if self._killed:
            self.kill()
            return
        if not self._is_silent_when_idle or self._service or not self.settled:
            self.watch(self.control.fileno(), self._on_frames)
        if self._service is not None:
            with suppress(ConnectionError):  # it has ended already, which tells why
                self._service.hand_over()
        if self.for_one_call:
            with suppress(OSError):  # else we wait for its very end
                self._vitals = Vitals(self._inside_pid)
        self._on_change(self)
        self._take(data, [])  # more than the hello may have come

    def _mark_ready(self) -> None:
        self.ready = True
        self.settled = not self.launch.wanted
        self.evidence = replace(self.evidence, ran=True)
        self._release_slot()
        self.launch.forget_env_file()
        if self._service is not None:
            self._service.call.ready_s = time.monotonic()

    def _on_frames(self) -> None:
        assert self.control is not None
        data, pidfds = _receive(self.control, trusted=self.launch.mode == "resident")
        if not data:
            self.engine.unwatch(self.control.fileno())
        try:
            self._take(data, pidfds)
        finally:
            for untaken in pidfds:  # their call was over
                os.close(untaken)

    def _take(self, data: bytes, pidfds: list[int]) -> None:
        self._give(self._frames.feed(data), pidfds)

    def _give(self, frames: list[tuple[bytes, bytes]], pidfds: list[int]) -> None:
        for kind, payload in frames:
            if kind == b"w" and not self.settled:
                self._settle(payload)
            elif self._service is not None:
                self._service.take(kind, payload, pidfds)

    def _settle(self, payload: bytes) -> None:
        """Take the driver's word that it has imported what was wanted."""
        self.settled = True
        self.noticed = tuple(payload.decode("utf-8", "replace").split())
        self._cease_to_hear()
        self._on_change(self)

    def _on_alive(self) -> None:
        """Follow a box without the driver: bytes while it is built, then the end."""
        byte = self._kern.read_alive()
        self.evidence = replace(self.evidence, alive=self.evidence.alive + byte)
        if not byte:
            self.engine.unwatch(self._kern.alive)
            self._note_built()

    def _note_built(self) -> None:
        """A box without the driver is built, or will never be."""
        if not self.launch.stderr_on_stdin:
            self._split = len(self.words()[0])
        if b"x" not in self.evidence.alive and not self._killed:
            self._mark_ready()

    def _note_whole_story(self) -> None:
        """Tell what ran from what did not, once kern has said all that it will.

        Of a command that ran it tells the end, except where that exits with 125, or
        somebody ends kern; of an image that is gone nothing, and exits with 1.
        """
        if self.evidence.status == _REFUSED and not self.evidence.started:
            launch = self.launch
            unawaited = launch.filtered and not launch.stderr_on_stdin
            self.evidence = replace(self.evidence, ran=False, may_have_run=unawaited)
        elif not self.ready and self.evidence.alive:
            self._note_built()  # it ended before we looked

    def drain(self, stream: Capture) -> None:
        """Read one stream; its end is no news."""
        if not stream.drain():
            self.engine.unwatch(stream.reader)

    # -- the end

    def kill(self) -> None:
        """End the box and everything in it."""
        self._killed = True
        if self._gone or self._kern.pid is None:
            return
        if self.inside < 0:
            pid = box_process(self._kern.pid)
            if pid is not None:
                self._hold(pid)
        if self.inside >= 0:
            send_signal(self.inside, signal.SIGKILL)
            self._expect_kern_end()
        else:
            self._kern.kill()

    def _expect_kern_end(self) -> None:
        if self._kern_timer is None:
            self._kern_timer = self.after(KERN_END_S, self._kern.kill)

    def signal_group(self, number: int) -> None:
        """Signal the group that the driver leads, where it made one."""
        if self.inside >= 0 and not self.ended:  # 0 would be the host's own group
            with suppress(ProcessLookupError):
                os.killpg(self._inside_pid, number)

    def _hold(self, pid: int) -> None:
        """Keep a descriptor on the process in the box, which a pid cannot replace."""
        if self.inside >= 0:  # killed before its hello was read
            return
        with suppress(ProcessLookupError):
            self.inside = os.pidfd_open(pid)
            self._inside_pid = pid
            self.watch(self.inside, self._on_gone)
            self._keep_mounts(pid)

    def _keep_mounts(self, pid: int) -> None:
        """Have the mounts outlive the processes, whose end then waits for no unmount.

        The last process of a mount namespace dismantles it before it is gone, which
        takes longer than the rest of its end; where we may hold it, we do that aside.

        Source: https://man7.org/linux/man-pages/man7/namespaces.7.html
        """
        with suppress(OSError):  # not ours to hold: the box ends a little later
            flags = os.O_RDONLY | os.O_CLOEXEC
            self._mounts = os.open(f"/proc/{pid}/ns/mnt", flags)

    def _on_gone(self) -> None:
        self.engine.unwatch(self.inside)
        self._gone = True
        self._look_no_more()
        self._advance()

    def _on_kern_end(self) -> None:
        self.engine.unwatch(self._kern.pidfd)
        status, started, alive = self._kern.reap()
        self.evidence = replace(
            self.evidence,
            status=status,
            reaped=True,
            started=started,
            alive=self.evidence.alive + alive,
        )
        if self.launch.driver is None:
            self._note_whole_story()
        if self.inside < 0:
            self._gone = True
        refused = self.evidence.status == _REFUSED and not self.evidence.ran
        if refused and self._may_start_again and not self._killed:
            self._start_again()
        else:
            self._advance()

    def _start_again(self) -> None:
        """Start kern once more, which could not filter the box's network.

        Two of its processes bring the box's loopback up, and about one box in 1,700 of
        a busy host is refused as the one finds it up before it has its address. The
        driver says nothing before the filter is there, so that no code has run.
        """
        self._may_start_again = False
        self._earlier_notes = self._kern.said
        self._let_go()
        self._kern = _supervisor(self.launch)
        self._frames = FrameReader()
        self._gone = False
        self.evidence = Evidence()
        self.start()

    def _advance(self) -> None:
        """Finish the call once its end is known, the box once both ends are seen."""
        if self._gone and self._service is not None:
            self._service.box_gone(self.evidence)
        if self._gone and self.evidence.reaped:
            self.when_returned(self._unmount)
        elif self._gone:
            self._expect_kern_end()

    def when_returned(self, step: Callable[[], None]) -> None:
        """Do what ends the box, once no caller is lent it."""
        guest = self.guest
        if guest is None:
            step()
        else:
            again = partial(self.when_returned, step)
            guest.done.add_done_callback(lambda _: self.engine.post(again))

    def _unmount(self) -> None:
        if self._leaves:
            return
        self._leaves = True
        if self._kern_timer is not None:
            self._kern_timer.cancel()
        if self._mounts < 0:
            self._dispose()
        else:
            self.engine.aside(self._let_mounts_go)

    def _let_mounts_go(self) -> None:
        mounts, self._mounts = self._mounts, -1
        os.close(mounts)
        self.engine.post(self._dispose)

    def words(self) -> tuple[str, str]:
        """Give what kern said until now, and what the command wrote after it.

        The second is of a command whose stderr is kern's own: one that runs without
        our driver in an image without a shell. What it wrote before we saw kern's
        setup end is taken for kern's.
        """
        self._kern.notes.drain()
        text = self.notes
        split = len(text) if self._split is None else self._split
        return text[:split], text[split:]

    def fail(self, error: BaseException) -> None:
        """End the call in hand because this house failed, and clean up."""
        if self._service is not None:
            self._service.fail(error)
        if self._kern.pid is None:
            self._unmount()
        else:
            self.kill()

    def _dispose(self) -> None:
        self._release_slot()
        self.launch.forget_env_file()
        self._let_go()
        self.engine.children.discard(self)
        self.disposed = self._gone = True
        self._on_change(self)

    def _let_go(self) -> None:
        for descriptor in self._descriptors():
            self.engine.unwatch(descriptor)
        self.forget()

    # -- what the engine asks of a child

    def forget(self) -> None:
        """Close every descriptor of this box; touch no process."""
        if self.control is not None:
            self.control.close()
            self.control = None
        self._look_no_more()
        self._kern.close()
        for descriptor in (self.inside, self._mounts):
            if descriptor >= 0:
                os.close(descriptor)
        self.inside = self._mounts = -1

    def _descriptors(self) -> list[int]:
        control = -1 if self.control is None else self.control.fileno()
        own = [d for d in (control, self.inside) if d >= 0]
        return own + self._kern.descriptors()

    # -- the engine, for this box

    def watch(self, descriptor: int, on_ready: Callable[[], None]) -> None:
        """Watch a descriptor; trouble in `on_ready` ends this box alone."""
        self.engine.watch(descriptor, partial(self._safely, on_ready))

    def after(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Run `call` later; trouble in it ends this box alone."""
        due = time.monotonic() + delay_s
        return self.engine.at(due, partial(self._safely, call))

    def _safely(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:
            self.fail(error)

    def _release_slot(self) -> None:
        if self._holds_slot:
            self._holds_slot = False
            self.engine.started()


def _supervisor(launch: Launch) -> Supervisor:
    merged = launch.driver is None and not launch.stderr_on_stdin
    return Supervisor(MERGED_BYTES if merged else NOTES_BYTES)


def _receive(control: socket.socket, *, trusted: bool) -> tuple[bytes, list[int]]:
    """Read the control socket.

    Descriptors are taken only where no code of a call can hold the other end: elsewhere
    they are dropped by the kernel, as `recv` offers no room for them.
    """
    try:
        if not trusted:
            return control.recv(1 << 18), []
        data, ancillary, _, _ = control.recvmsg(1 << 18, _ROOM_FOR_PIDFD)
        return data, [
            int.from_bytes(carried, sys.byteorder)
            for level, kind, carried in ancillary
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
        ]
    except ConnectionResetError:
        return b"", []
