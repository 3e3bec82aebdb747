"""One `open` of a sandbox under way, which `close` cuts short from another thread."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from .binary import find_kern
from .faults import SandboxClosed

_LOOK_EVERY_S = 0.02
_LONG = (b"pull", b"build")
"""What kern may take minutes over while a sandbox opens."""


class Opening:
    """Made by the thread that opens.

    What was begun for the sandbox is ended where that can be done: its boxes, a pull, a
    build of an image. The files of an image that is being put together are copied to
    the end first, which takes seconds.

    Attributes:
        stopped: The sandbox was closed meanwhile.
    """

    def __init__(self) -> None:
        self._thread_id = threading.get_native_id()
        self._others = set(self._children())
        self.stopped = False
        self._over = threading.Event()
        self._ends: list[Callable[[], object]] = []

    # -- for the thread that opens

    def check(self) -> None:
        """Go no further if the sandbox was closed meanwhile.

        Raises:
            SandboxClosed: It was.
        """
        if self.stopped:
            raise SandboxClosed("the sandbox was closed while it was being opened")

    @contextmanager
    def ending(self, end: Callable[[], object]) -> Generator[None]:
        """Have `end` called if the sandbox is closed during the block.

        Args:
            end: Makes what the block waits for come to its end; from another thread.
        """
        self._ends.append(end)
        try:
            self.check()
            yield
        finally:
            self._ends.remove(end)

    def finish(self) -> None:
        """Let those go on who wait for the end of the opening."""
        self._over.set()

    # -- for any thread

    def stop(self) -> None:
        """Cut the opening short, and wait until it is over."""
        self.stopped = True
        for end in list(self._ends):
            end()
        if threading.get_native_id() == self._thread_id:  # a signal handler's
            return
        while not self._over.wait(_LOOK_EVERY_S):
            for pid in set(self._children()) - self._others:
                _end_kern(pid)

    def _children(self) -> list[int]:
        """List the child processes that the opening thread started."""
        path = Path(f"/proc/self/task/{self._thread_id}/children")
        try:
            return [int(pid) for pid in path.read_text().split()]
        except OSError:  # a kernel without CONFIG_PROC_CHILDREN: `stop` only waits
            return []


def _end_kern(pid: int) -> None:
    """Kill a kern that pulls or builds, with what it started for that."""
    with suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if command[0] == os.fsencode(find_kern()) and command[1] in _LONG:
            os.killpg(pid, signal.SIGKILL)  # it leads a session of its own
