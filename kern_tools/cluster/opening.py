"""One `open` of a sandbox on a cluster under way, which `close` cuts short."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TypeVar

from kern_tools.faults import SandboxClosed

_T = TypeVar("_T")


class RemoteOpening:
    """Made by the thread that opens.

    Attributes:
        stopped: The sandbox was closed meanwhile.
    """

    def __init__(self) -> None:
        self.stopped = False
        self._moved = threading.Event()
        self._over = threading.Event()
        self._thread = threading.current_thread()

    def wait(self, answer: Future[_T], timeout_s: float | None) -> _T:
        """Wait for an answer, unless the sandbox is closed meanwhile.

        Raises:
            SandboxClosed: It was.
            TimeoutError: There was no answer.
        """
        answer.add_done_callback(lambda _: self._moved.set())
        moved = self._moved.wait(timeout_s)
        self.check()
        if not moved:
            raise TimeoutError
        self._moved.clear()
        return answer.result()

    def check(self) -> None:
        """Go no further if the sandbox was closed meanwhile.

        Raises:
            SandboxClosed: It was.
        """
        if self.stopped:
            raise SandboxClosed("the sandbox was closed while it was being opened")

    def finish(self) -> None:
        """Let those go on who wait for the end of the opening."""
        self._over.set()

    def stop(self) -> None:
        """Cut the opening short, and wait until it is over."""
        self.stopped = True
        self._moved.set()
        if threading.current_thread() is not self._thread:  # else a signal handler's
            self._over.wait()
