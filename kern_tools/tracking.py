"""The files of a workspace, known from one call to the next without a walk for each.

The kernel tells which entries changed, and only those are looked at. What it does not
tell is a change through a memory map while that map is open; in a tree of few files
every one is looked at, in a larger one such a change is seen once the map is closed.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import deque
from contextlib import closing
from dataclasses import dataclass

from .descriptors import HeldDirectory, Request, directory_at, entry_mode
from .faults import WorkspaceError
from .listing import Files, Mark, Scan, mark_of, marks_of, told
from .walking import Walk, is_hidden
from .watching import (
    CREATE,
    IGNORED,
    IS_DIRECTORY,
    MOVED_FROM,
    MOVED_TO,
    OVERFLOW,
    UNMOUNT,
    DirectoryEvents,
    directory_events,
    is_watched,
)

FEW_FILES = 64
"""A walk through so few costs little more than what the kernel would spare."""


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """A point in time to which changes are compared.

    Attributes:
        number: Of the look at the files; a greater one is later.
        complete: Every file was known then.
    """

    number: int
    complete: bool


class Tracking:
    """Keeps the marks of all files of one workspace, and what changed since when.

    Args:
        directory: The workspace.
        limit: Files and directories that are looked at before giving up completeness.
    """

    def __init__(self, directory: HeldDirectory, *, limit: int) -> None:
        self._directory = directory
        self._limit = limit
        self._lock = threading.Lock()
        self._marks: dict[str, Mark] = {}
        self._complete = True
        self._folders: dict[int, str] = {}
        self._heard: deque[tuple[int, int, str]] = deque()
        self._events: DirectoryEvents | None = None
        self._current = False  # the marks are those of a walk, and the kernel watches
        self._number = 0
        self._log: list[tuple[int, str, Mark | None]] = []
        self._moments: set[Moment] = set()

    def now(self) -> Moment:
        """Look at the files; what changes from now on is told by `since`.

        Raises:
            SandboxClosed: The workspace was closed.
            OSError: It cannot be read.
        """
        with self._lock:
            self._refresh()
            moment = Moment(self._number, self._complete)
            self._moments.add(moment)
            return moment

    def since(self, moment: Moment, limit: int | None) -> Files:
        """Tell which files were created or modified since then, sorted by path.

        Args:
            moment: From `now`, not forgotten yet.
            limit: Give only the first ones; `total` still counts all.

        Raises:
            SandboxClosed: The workspace was closed.
            OSError: It cannot be read.
        """
        with self._lock:
            self._refresh()
            if not self._log:
                return Files([], total=0, complete=moment.complete and self._complete)
            before: dict[str, Mark | None] = {}
            for number, path, mark in self._log:
                if number > moment.number:
                    before.setdefault(path, mark)
            after = {p: self._marks[p] for p in before if p in self._marks}
            return told(before, Scan(after, self._complete), moment.complete, limit)

    def forget(self, moment: Moment) -> None:
        """Keep no longer what was there at a moment."""
        with self._lock:
            self._moments.discard(moment)
            if self._log:
                oldest = min((m.number for m in self._moments), default=self._number)
                self._log = [entry for entry in self._log if entry[0] > oldest]

    def close(self) -> None:
        """Have the kernel watch no longer."""
        with self._lock:
            self._unwatch(set(self._folders))

    def hear(self, watch: int, mask: int, name: str) -> None:
        """Take note of one event; from whichever thread delivers it."""
        self._heard.append((watch, mask, name))

    # -- a look

    def _refresh(self) -> None:
        self._number += 1
        if self._events is not None:
            self._events.deliver()
        trusted = self._current and not 0 < len(self._marks) <= FEW_FILES
        if trusted and not self._heard and not self._directory.closed:
            return
        with self._directory.lent() as root:
            if trusted:
                self._follow(root)
            else:
                self._walk_all(root)

    def _walk_all(self, root: int) -> None:
        self._heard.clear()  # of before; what comes during the walk is kept
        known, self._folders = set(self._folders), {}
        if self._events is None and is_watched(root):
            self._events = directory_events()
        self._current = self._events is not None
        marks, complete = self._walk(root, "")
        self._current = self._current and complete
        for path in self._marks.keys() - marks.keys():
            self._set(path, None)
        for path, mark in marks.items():
            self._set(path, mark)
        self._complete = complete
        self._unwatch(known - self._folders.keys())

    def _walk(self, root: int, prefix: str) -> tuple[dict[str, Mark], bool]:
        limit = max(1, self._limit - (len(self._marks) if prefix else 0))
        with closing(Walk(root, prefix, limit=limit, enter=self._watch)) as walk:
            return marks_of(walk), walk.complete

    def _watch(self, prefix: str, descriptor: int) -> None:
        """Have a directory watched before its entries are read."""
        if not self._current or self._events is None:
            return
        try:
            self._folders[self._events.watch(descriptor, self)] = prefix
        except OSError:  # too many
            self._current = False

    def _unwatch(self, watches: set[int]) -> None:
        if self._events is not None:
            for watch in watches:
                self._folders.pop(watch, None)
                self._events.unwatch(watch, self)

    def _set(self, path: str, mark: Mark | None) -> None:
        old = self._marks.get(path)
        if old == mark:
            return
        self._log.append((self._number, path, old))
        if mark is None:
            del self._marks[path]
        else:
            self._marks[path] = mark

    # -- what the kernel told

    def _follow(self, root: int) -> None:
        """Look at what changed; at everything where that cannot be known."""
        names: dict[str, set[str]] = {}
        folders: set[str] = set()
        while self._heard:
            watch, mask, name = self._heard.popleft()
            moved = mask & IS_DIRECTORY and mask & MOVED_FROM
            if moved or mask & (OVERFLOW | UNMOUNT):
                self._walk_all(root)
                return
            self._sort(watch, mask, name, names, folders)
        linked: dict[int, Mark] = {}
        for prefix, changed in names.items():
            linked |= self._look_at(root, prefix, changed)
        self._set_links(linked)
        seen = all([self._look_below(root, prefix) for prefix in sorted(folders)])
        if not seen or len(self._marks) + len(self._folders) > self._limit:
            self._walk_all(root)

    def _sort(
        self,
        watch: int,
        mask: int,
        name: str,
        names: dict[str, set[str]],
        folders: set[str],
    ) -> None:
        """Add one event to the files, by directory, and the new directories."""
        prefix = self._folders.get(watch)
        if mask & IGNORED:
            self._folders.pop(watch, None)
        elif prefix is None or not name or is_hidden(name, prefix):
            return
        elif not mask & IS_DIRECTORY:
            names.setdefault(prefix, set()).add(name)
        elif mask & (CREATE | MOVED_TO):
            folders.add(f"{prefix}{name}/")

    def _look_at(self, root: int, prefix: str, names: set[str]) -> dict[int, Mark]:
        """Take the marks of some entries of one directory anew.

        Returns:
            Those of files that have more than one name, by inode.
        """
        linked: dict[int, Mark] = {}
        try:
            with directory_at(root, _parts(prefix), _REQUEST) as parent:
                for name in names:
                    found = _status_at(parent, name)
                    mark = None if found is None else mark_of(found)
                    self._set(prefix + name, mark)
                    if found is not None and mark is not None and found.st_nlink > 1:
                        linked[found.st_ino] = mark
        except (OSError, WorkspaceError):  # the directory is gone, or no longer one
            for name in names:
                self._set(prefix + name, None)
        return linked

    def _set_links(self, linked: dict[int, Mark]) -> None:
        """Do for the other names of a file as for the one that the kernel told."""
        if linked:
            for path, (_, _, inode, _) in list(self._marks.items()):
                if inode in linked:
                    self._set(path, linked[inode])

    def _look_below(self, root: int, prefix: str) -> bool:
        """Walk a new directory; tell whether everything there was seen."""
        try:
            with directory_at(root, _parts(prefix), _REQUEST) as folder:
                marks, complete = self._walk(folder, prefix)
        except (OSError, WorkspaceError):  # gone again
            return True
        for path, mark in marks.items():
            self._set(path, mark)
        return complete and self._current


_REQUEST = Request("look at", "")


def _parts(prefix: str) -> list[str]:
    return prefix.split("/")[:-1]


def _status_at(parent: int, name: str) -> os.stat_result | None:
    """Give a regular file's status; None for anything else."""
    try:
        found = entry_mode(parent, name)
    except (FileNotFoundError, PermissionError):
        return None
    return found if stat.S_ISREG(found.st_mode) else None
