"""The third program in the box: keeps the box for further calls.

Run by `driver`, among its names, in two modes:

    resident   every call in a forked child, which cannot reach this process
    kernel     Python cells in this process, one after the other, names kept
"""

from __future__ import annotations

# pyright: reportPrivateUsage=false

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    import _thread
    import posix
    import signal as _signal
    import sys
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from .driver import (
        BUSY,
        CONTROL,
        HELD,
        OUT,
        OWNER,
        SENDING,
        SERVING,
        SETTING,
        become,
        end_fork,
        flush,
        guarded,
        is_cell,
        load_trees,
        new_main,
        own,
        preload,
        run_cell,
        run_script,
        send,
        show_open_figures,
        take_call,
        take_streams,
        tell,
    )

PRCTL: list[Callable[[int, int], int]] = []
KEEPERS: list[int] = []
IN_CALL = [False]
EARLY_CALLS = [None, None]  # as many as go by without


def preload_later() -> None:
    """Preload after a call, unless it is one of the first."""
    if EARLY_CALLS:
        EARLY_CALLS.pop()
    else:
        preload()


# resident


class Pipe:
    """The way of a child's frames: a pipe of its call's own."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def sendall(self, data: bytes) -> None:
        """Write it all."""
        while data:
            data = data[posix.write(self.descriptor, data) :]


def serve_children() -> None:
    """Run every call in a child that cannot touch this process."""
    set_dumpable(False)
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    _signal.signal(_signal.SIGCHLD, on_orphan)
    while True:
        handles = take_call()
        if is_cell():
            load_trees()
        IN_CALL[0] = True
        pid = posix.fork()
        if pid == 0:
            run_as_child(handles)
        for handle in handles:
            posix.close(handle)
        tell_process(pid)
        send(b"x", b"%d" % see_through(pid))
        preload_later()


def tell_process(pid: int) -> None:
    """Give the host a descriptor on the child, which a pid cannot replace."""
    pidfd = posix.pidfd_open(pid)
    carried = pidfd.to_bytes(4, sys.byteorder)
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, carried)]
    CONTROL.sendmsg([b"p\0\0\0\0"], rights)
    posix.close(pidfd)


def see_through(pid: int) -> int:
    """Wait for the call's child, reaping whatever else ends meanwhile."""
    ended = status = 0
    while ended != pid:
        ended, status = posix.waitpid(-1, 0)
    code = posix.waitstatus_to_exitcode(status)
    if code == -_signal.SIGKILL:
        end_group(pid)
    IN_CALL[0] = False
    on_orphan(0, None)
    return code


def end_group(pid: int) -> None:
    """Kill what a killed call leaves in its session."""
    try:
        posix.killpg(pid, _signal.SIGKILL)
    except OSError:
        pass


def on_orphan(signum: int, frame: FrameType | None) -> None:
    """Reap what earlier calls left behind, between calls."""
    while not IN_CALL[0]:
        try:
            if posix.waitpid(-1, posix.WNOHANG)[0] == 0:
                return
        except OSError:
            return


def run_as_child(handles: list[int]) -> None:
    """Be the call: a session of its own, without the control socket."""
    posix.setsid()
    OWNER[0] = posix.getpid()
    set_dumpable(True)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    OUT[0] = Pipe(handles.pop())
    posix.set_inheritable(OUT[0].descriptor, False)
    CONTROL.close()
    take_streams(handles)
    if not is_cell():
        become()
    posix._exit(run_script())


def set_dumpable(on: bool) -> None:
    """Open or close this process to others of the box, `/proc` and pidfds included.

    Source: PR_SET_DUMPABLE, https://man7.org/linux/man-pages/man2/prctl.2.html
    """
    load_prctl()
    if PRCTL[0](4, int(on)) != 0:
        raise OSError("prctl(PR_SET_DUMPABLE)")


def load_prctl() -> None:
    """Make the C library's `prctl` callable.

    By the module below `ctypes`, whose own import takes half as long as all of this
    start.
    """
    if not PRCTL:
        below = own("_ctypes")
        call = below.call_cdeclfunction
        address = below.dlsym(below.dlopen(None, 0), "prctl")
        PRCTL.append(lambda option, value: call(address, (option, value, 0, 0, 0)))


# kernel


def serve_cells() -> None:
    """Run Python cells in this process, and commands in children of it."""
    _signal.signal(_signal.SIGINT, on_interrupt)
    scope = new_main()
    while True:
        take_streams(take_call())
        SERVING[0] = True
        code = run_kept_cell(scope) if is_cell() else run_child()
        end_fork(code)
        with SENDING[0]:  # nothing of this call's threads comes after it
            tell(b"x", b"%d" % code)
            SERVING[0] = False
        silence()
        heed_interrupts()
        preload_later()


def run_kept_cell(scope: dict[str, Any]) -> int:
    """Run one cell and keep the interpreter, whatever it did."""
    try:
        code = run_cell(scope)
        code = code or guarded(show_and_close_figures)
    except KeyboardInterrupt:  # it came between two steps of ours
        code = 130
    flush()
    return code


def heed_interrupts() -> None:
    """Undo what a cell did to that."""
    _signal.signal(_signal.SIGINT, on_interrupt)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT])


def show_and_close_figures() -> None:
    """Show what is open; the next cell begins without figures."""
    show_open_figures()
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def run_child() -> int:
    """Run a command in this process's group, where interrupts reach it.

    A keeper between it and us adopts and reaps what it leaves behind: the children of
    this process are the code's own, which may wait for them.
    """
    flush()
    load_prctl()
    told, tells = posix.pipe()
    keeper = posix.fork()
    if keeper == 0:
        keep(tells)
    posix.close(tells)
    KEEPERS.append(keeper)
    said = read_all(told)
    KEEPERS[:] = [pid for pid in KEEPERS if not is_reaped(pid)]
    if said[:1] == b"e":  # ours to send: our threads may be sending too
        size = 5 + int.from_bytes(said[1:5], "little")
        send(b"e", said[5:size])
        said = said[size:]
    return int(said or b"-%d" % _signal.SIGKILL)


def read_all(pipe: int) -> bytes:
    """Read a pipe to its end, and close it."""
    said = b""
    while part := posix.read(pipe, 1 << 12):
        said += part
    posix.close(pipe)
    return said


def keep(tells: int) -> None:
    """Start the command, tell how it ends, and stay until all that it left has ended.

    Source: PR_SET_CHILD_SUBREAPER, https://man7.org/linux/man-pages/man2/prctl.2.html
    """
    for signum in (_signal.SIGINT, _signal.SIGURG):  # the command's group is ours
        _signal.signal(signum, _signal.SIG_IGN)
    SENDING[0] = _thread.RLock()  # a thread of the code's may have had the other
    HELD.clear()
    OUT[0] = Pipe(tells)
    PRCTL[0](36, 1)
    pid = posix.fork()
    OWNER[0] = posix.getpid()
    if pid == 0:
        become()
    for target in (1, 2):
        posix.dup2(0, target)
    posix.closerange(3, tells)
    posix.closerange(tells + 1, posix.sysconf("SC_OPEN_MAX"))
    while True:
        try:
            ended, status = posix.waitpid(-1, 0)
        except OSError:  # there is nobody left
            posix._exit(0)
        if ended == pid:
            posix.write(tells, b"%d" % posix.waitstatus_to_exitcode(status))
            posix.close(tells)


def is_reaped(pid: int) -> bool:
    """Reap a keeper that has ended, without waiting for it."""
    try:
        return posix.waitpid(pid, posix.WNOHANG)[0] == pid
    except OSError:  # the code has, by waiting for any child
        return True


def silence() -> None:
    """Keep what threads print between calls out of the next call."""
    try:
        posix.dup2(0, 1)
        posix.dup2(0, 2)
    except OSError:  # the code closed it
        null = posix.open("/dev/null", posix.O_RDWR)
        posix.dup2(null, 1)
        posix.dup2(null, 2)


def on_interrupt(signum: int, frame: FrameType | None) -> None:
    """Interrupt the code, where it is the code that runs."""
    if BUSY[0]:
        raise KeyboardInterrupt


{"resident": serve_children, "kernel": serve_cells}[SETTING["mode"]]()
