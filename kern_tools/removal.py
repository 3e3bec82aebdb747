"""Remove folders of ours: at once where that is quick, else aside and in background.

What takes longer is renamed first, so that it is gone from its place, and keeps the
mark of its process in its name: it is removed by a thread, else at the end of the
process, else by whoever looks for what dead processes left.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections import deque
from contextlib import suppress
from math import inf
from pathlib import Path

from .emptying import empty_directory

AT_ONCE_S = 0.03
"""How long who removes a folder waits for it; thousands of files fit in."""
_OURS = re.compile(r"(kern-tools-)[a-z]+(-[0-9a-f]{16}-[a-z0-9_]+)")

_log = logging.getLogger(__name__)


def remove_directory(path: Path, descriptor: int) -> None:
    """Have a directory be gone from its place, with all that is in it.

    Args:
        path: Where it is; nothing hostile may write beside it. Only one of ours goes on
            in the background.
        descriptor: The directory itself.
    """
    aside = _OURS.fullmatch(path.name)
    until_s = inf if aside is None else time.monotonic() + AT_ONCE_S
    if remove_whole(path, descriptor, until_s=until_s) or time.monotonic() < until_s:
        return
    assert aside is not None
    gone = path.with_name(f"{aside[1]}gone{aside[2]}")
    with suppress(OSError):  # somebody else is at it already
        path.rename(gone)
        _background.add(gone, descriptor)


def remove_whole(path: Path, descriptor: int, *, until_s: float = inf) -> bool:
    """Remove a directory with all that is in it; what has to stay is logged.

    Args:
        path: Where it is; nothing hostile may write beside it.
        descriptor: The directory itself.
        until_s: Stop at this time of `time.monotonic()`.

    Returns:
        Whether it is gone.
    """
    emptied = empty_directory(descriptor, until_s=until_s)
    if not emptied and time.monotonic() >= until_s:
        return False
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        why = error.strerror if emptied else "some entries are not ours"
        _log.warning("workspace %s was not removed: %s", path, why)
        return False
    return True


def wait_removed(until_s: float = inf) -> None:
    """Wait until nothing is left of what is removed in the background.

    Args:
        until_s: Wait no longer than to this time of `time.monotonic()`.
    """
    _background.wait(until_s)


class _Background:
    """Removes one folder after the other on a thread, which ends with the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: deque[tuple[Path, int]] = deque()
        self._thread: threading.Thread | None = None

    def add(self, path: Path, descriptor: int) -> None:
        with self._lock:
            self._left.append((path, os.dup(descriptor)))
            if self._thread is None:
                self._thread = thread = threading.Thread(
                    target=self._work, name="kern-tools-remove", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:  # the process ends, which removes it too
                    self._thread = None

    def wait(self, until_s: float) -> None:
        while (left_s := until_s - time.monotonic()) > 0:
            with self._lock:
                thread = self._thread
            if thread is None or not thread.is_alive():
                return
            thread.join(None if left_s == inf else left_s)

    def forget(self) -> None:
        """Close what a forked child inherited; the parent removes it."""
        for _, descriptor in self._left:
            os.close(descriptor)

    def _work(self) -> None:
        while (next_one := self._next()) is not None:
            path, descriptor = next_one
            try:
                remove_whole(path, descriptor)
            finally:
                os.close(descriptor)

    def _next(self) -> tuple[Path, int] | None:
        with self._lock:
            if self._left:
                return self._left.popleft()
            self._thread = None
            return None


_background = _Background()


def _after_fork_in_child() -> None:
    global _background
    _background.forget()
    _background = _Background()


os.register_at_fork(after_in_child=_after_fork_in_child)
