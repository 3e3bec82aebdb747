"""The kern process that supervises one box: started, listened to, reaped."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from .capture import Capture

if TYPE_CHECKING:
    from .launch import Launch


class Supervisor:
    """kern, seen from outside its box.

    Attributes:
        notes: What kern says for people; nothing of a box with our driver.
        pidfd: Readable once kern has ended.
        alive: Readable with each byte kern says while it builds, then at the end.
    """

    def __init__(self, notes_bytes: int) -> None:
        self.notes = Capture(notes_bytes)
        self.pidfd = self.alive = self._started = -1
        self._process: subprocess.Popen[bytes] | None = None
        self._read = (0, "")

    def start(self, launch: Launch, *, stdin: int, stdout: int) -> None:
        """Start kern.

        Raises:
            OSError: It could not be started.
        """
        self.notes.open()
        writers: list[int] = []
        try:
            self._started = _reader_of_pipe(writers)
            self.alive = _reader_of_pipe(writers)
            started, alive = writers
            said = {"KERN_STARTED_FD": str(started), "KERN_ALIVE_FD": str(alive)}
            self._process = subprocess.Popen(
                [*_hearing(), *launch.argv],
                stdin=stdin,
                stdout=stdout,
                stderr=self.notes.writer,
                pass_fds=writers,
                start_new_session=True,
                env={**launch.environ, **said},
            )
        finally:
            for descriptor in writers:
                os.close(descriptor)
            self.notes.close_writer()
        self.pidfd = _pidfd_of(self._process)

    @property
    def said(self) -> str:
        """The notes, as far as they were read."""
        if self._read[0] != self.notes.total_bytes:
            self._read = self.notes.total_bytes, self.notes.text()[0]
        return self._read[1]

    @property
    def pid(self) -> int | None:
        """Kern's pid while it can be signalled."""
        return None if self._process is None or self.pidfd < 0 else self._process.pid

    def read_alive(self) -> bytes:
        """Read what kern said of the building; empty at its end."""
        return os.read(self.alive, 64)

    def reap(self) -> tuple[int | None, bytes, bytes]:
        """Take leave of kern, once `pidfd` says that it has ended.

        Returns:
            Its exit status, or None where someone else in this process took it, or
            nobody can; its bytes of the teardown; its last bytes of the building.
        """
        assert self._process is not None
        status: int | None
        try:
            status = os.waitstatus_to_exitcode(os.waitpid(self._process.pid, 0)[1])
        except ChildProcessError:
            status = None
        self._process.returncode = 0 if status is None else status
        self.notes.drain_rest()
        return status, _read_now(self._started), _read_now(self.alive)

    def kill(self) -> None:
        """Kill kern and what is in its group; its scratch stays behind."""
        process = self._process
        if process is None or self.pidfd < 0 or process.returncode is not None:
            return  # another process may have its number by now
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def descriptors(self) -> list[int]:
        """Give what the engine may be watching."""
        return [d for d in (self.notes.reader, self.pidfd, self.alive) if d >= 0]

    def close(self) -> None:
        """Close every descriptor; touch no process."""
        self.notes.close()
        for descriptor in (self.pidfd, self.alive, self._started):
            if descriptor >= 0:
                os.close(descriptor)
        self.pidfd = self.alive = self._started = -1


def _reader_of_pipe(writers: list[int]) -> int:
    """Make a pipe, whose other end is added to `writers`."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    writers.append(writer)
    return reader


def _pidfd_of(process: subprocess.Popen[bytes]) -> int:
    """Hold a process that leads its group; where that fails it is ended again."""
    try:
        return os.pidfd_open(process.pid)
    except OSError:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _hearing() -> list[str]:
    """Give what starts kern in a host that ignores SIGCHLD.

    kern would inherit that, and lose the exit status of what it runs.
    """
    deaf = signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
    return ["env", "--default-signal=CHLD"] if deaf else []


def _read_now(descriptor: int) -> bytes:
    """Read what is there; a forked child of the host may hold the other end open."""
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, 64)
    except BlockingIOError:
        return b""
