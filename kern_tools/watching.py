"""What the kernel tells of changes in directories: one queue for the whole process.

A user has few such queues, and other programs need them too.

Source: https://man7.org/linux/man-pages/man7/inotify.7.html
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
from functools import cache
from pathlib import Path
from typing import Protocol

MODIFY, ATTRIB, CLOSE_WRITE = 0x2, 0x4, 0x8
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x40, 0x80, 0x100, 0x200
UNMOUNT, OVERFLOW, IGNORED, IS_DIRECTORY = 0x2000, 0x4000, 0x8000, 0x40000000
_ONLY_DIRECTORIES = 0x01000000
_MASK = (
    _ONLY_DIRECTORIES
    | (MODIFY | ATTRIB | CLOSE_WRITE)
    | (MOVED_FROM | MOVED_TO | CREATE | DELETE)
)
_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 16
_MOST_BYTES = _EVENT.size + 256
"""Of one event: where there was room for another, there was none."""
_WATCHED = frozenset({"ext2", "ext3", "ext4", "xfs", "f2fs", "tmpfs", "zfs", "overlay"})
"""File systems that nobody writes to past this kernel."""


class Listener(Protocol):
    """Somebody who wants to know of changes."""

    def hear(self, watch: int, mask: int, name: str) -> None:
        """Be told of one event; called with the queue's lock held."""
        ...


class DirectoryEvents:
    """The queue; usable from any thread."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._lock = threading.Lock()
        self._listeners: dict[int, list[Listener]] = {}
        self._queue: int = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._queue < 0:
            raise _last_error()
        self._poll = select.poll()
        self._poll.register(self._queue, select.POLLIN)

    def watch(self, directory: int, listener: Listener) -> int:
        """Tell `listener` of changes of a directory's entries, from now on.

        Args:
            directory: A descriptor of it.
            listener: Told by `deliver`.

        Returns:
            The number of the watch; that of an earlier one of the same directory.

        Raises:
            OSError: There are too many.
        """
        path = f"/proc/self/fd/{directory}".encode()
        with self._lock:
            watch: int = self._libc.inotify_add_watch(self._queue, path, _MASK)
            if watch < 0:
                raise _last_error()
            listeners = self._listeners.setdefault(watch, [])
            if listener not in listeners:
                listeners.append(listener)
        return watch

    def unwatch(self, watch: int, listener: Listener) -> None:
        """Tell `listener` no more of one directory."""
        with self._lock:
            listeners = self._listeners.get(watch, [])
            if listener in listeners:
                listeners.remove(listener)
            if not listeners and self._listeners.pop(watch, None) is not None:
                self._libc.inotify_rm_watch(self._queue, watch)  # or it is gone

    def deliver(self) -> None:
        """Tell everybody what has happened until now."""
        with self._lock:
            while self._poll.poll(0):
                data = os.read(self._queue, _READ_BYTES)
                self._tell(data)
                if len(data) < _READ_BYTES - _MOST_BYTES:
                    return

    def _tell(self, data: bytes) -> None:
        start = 0
        while start < len(data):
            watch, mask, _, size = _EVENT.unpack_from(data, start)
            start += _EVENT.size + size
            name = os.fsdecode(data[start - size : start].rstrip(b"\0"))
            if mask & OVERFLOW:
                everybody = {
                    id(x): x for many in self._listeners.values() for x in many
                }
                told = list(everybody.values())
            elif mask & IGNORED:
                told = self._listeners.pop(watch, [])
            else:
                told = self._listeners.get(watch, [])
            for listener in told:
                listener.hear(watch, mask, name)

    def forget(self) -> None:
        """Close the queue, in a forked child of the host."""
        os.close(self._queue)


@cache
def directory_events() -> DirectoryEvents | None:
    """Give this process's queue; None where the kernel gives none."""
    try:
        return DirectoryEvents()
    except OSError:  # the user's queues are used up
        return None


def is_watched(descriptor: int) -> bool:
    """Whether every change of a file system passes this kernel, as far as we know."""
    device = os.fstat(descriptor).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines():
        fields = line.split(" ")
        if fields[2] == wanted:
            return fields[fields.index("-") + 1] in _WATCHED
    return False


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def _after_fork_in_child() -> None:
    if directory_events.cache_info().currsize:
        events = directory_events()
        if events is not None:
            events.forget()
    directory_events.cache_clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
