"""Whose a folder on the host is, so that a dead process's can be told and removed.

Every process that makes folders holds a lock on a file of its own, its mark, in our
cache folder. The kernel drops that lock with the process, however it ends: a mark that
can be locked is a dead process's. Its name is part of the names of the folders and
boxes that the process made, and its lines are the directories where it made some.
"""

from __future__ import annotations

import atexit
import fcntl
import logging
import os
import re
import secrets
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import IO

from .cache import cache_folder, made_cache_folder, tellable
from .removal import remove_directory, remove_whole, wait_removed

PREFIX = "kern-tools-"
BOX_PREFIX = "kt-"
_MARKS = "owners"
_END = b"\0"  # A name may hold every other byte.
_TOKEN = re.compile(r"[0-9a-f]{16}")
_AT_EXIT_S = 10.0
"""How long the end of a process may take because of folders that are not removed."""

_log = logging.getLogger(__name__)


class Owner:
    """This process, as others can tell that it lives.

    Attributes:
        token: Stands in the name of everything it makes.
    """

    def __init__(self) -> None:
        self.token = secrets.token_hex(8)
        self._folder = made_cache_folder(_MARKS)
        self._parents: set[Path] = set()
        self._lock = threading.Lock()
        # Locked before it has its name: nobody can take it for a dead one's meanwhile.
        unnamed = self._folder / f".{self.token}"
        self._mark = unnamed.open("ab")
        fcntl.flock(self._mark, fcntl.LOCK_EX)
        unnamed.rename(self._folder / self.token)

    def folder(self, kind: str, parent: str | os.PathLike[str] | None) -> Path:
        """Make a folder that no other user can enter."""
        where = tellable(Path(parent or tempfile.gettempdir()).absolute())
        self._note(where)
        prefix = f"{PREFIX}{kind}-{self.token}-"
        return Path(tempfile.mkdtemp(prefix=prefix, dir=where))

    def name(self, kind: str, parent: Path) -> str:
        """Give a name for a file or folder that is to be made in a directory."""
        self._note(parent.absolute())
        return f".{PREFIX}{kind}-{self.token}-{secrets.token_hex(8)}"

    def _note(self, where: Path) -> None:
        with self._lock:
            if where not in self._parents:
                self._mark.write(os.fsencode(where) + _END)
                self._mark.flush()
                self._parents.add(where)

    def leave(self) -> None:
        """Remove what is left, at the end of the process.

        What takes too long is left, with the mark by which others find it.
        """
        until_s = time.monotonic() + _AT_EXIT_S
        wait_removed(until_s)  # two at once would be in each other's way
        folders, files = _named_in(self._parents, self.token)
        for folder in folders:
            if not remove_folder(folder, until_s=until_s):
                _log.warning("%s is left to the next process, or to prune", folder)
        with suppress(OSError):  # of a process that has given up its privileges
            for file in (*files, *kept_environments(self.token)):
                file.unlink(missing_ok=True)
            if not any(_named_in(self._parents, self.token)):
                (self._folder / self.token).unlink(missing_ok=True)
        self._mark.close()

    def forget(self) -> None:
        """Let go, in a forked child; the lock stays with the parent."""
        self._mark.close()


@dataclass(frozen=True, slots=True)
class DeadOwner:
    """A process that ended without cleaning up, held by its lock.

    Attributes:
        token: Stands in the name of everything it made.
        folders: What is left of it.
        files: Single files that are left.
    """

    token: str
    folders: tuple[Path, ...]
    files: tuple[Path, ...] = ()


_owner: Owner | None = None
_making = threading.Lock()


def owner() -> Owner:
    """Give this process's mark, made at the first use.

    Raises:
        HostError: There is no place for it.
    """
    global _owner
    with _making:
        if _owner is None:
            _owner = Owner()
        return _owner


def owned_folder(kind: str, parent: str | os.PathLike[str] | None = None) -> Path:
    """Make a folder that is removed at the end of this process, or by a later one.

    Args:
        kind: A word that stands in its name.
        parent: Where; None for the directory of temporary files.

    Raises:
        HostError: There is no place for the mark of this process.
        OSError: It cannot be made.
    """
    return owner().folder(kind, parent)


def owned_name(kind: str, parent: Path) -> str:
    """Give a name for what this process is to make in a directory and remove again.

    Where it is killed before, a later one removes what has that name.

    Args:
        kind: A word that stands in it.
        parent: The directory.

    Raises:
        HostError: There is no place for the mark of this process.
    """
    return owner().name(kind, parent)


def box_name() -> str:
    """Give a new name for a box of this process."""
    return f"{BOX_PREFIX}{owner().token}-{secrets.token_hex(4)}"


def discard_folder(path: Path) -> None:
    """Have a folder of ours be gone from its place, whatever it was filled with.

    What takes long goes on in the background; what cannot be removed is logged.
    """
    with _opened(path) as descriptor:
        if descriptor is not None:
            remove_directory(path, descriptor)


def remove_folder(path: Path, *, until_s: float = inf) -> bool:
    """Remove a folder of ours, whatever code in a box filled it with.

    Args:
        path: The folder.
        until_s: Stop at this time of `time.monotonic()`.

    Returns:
        Whether it is gone; what could not be removed is logged.
    """
    with _opened(path) as descriptor:
        if descriptor is not None:
            remove_whole(path, descriptor, until_s=until_s)
    return not os.path.lexists(path)


@contextmanager
def _opened(path: Path) -> Generator[int | None]:
    try:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def kept_environments(token: str) -> list[Path]:
    """Find kern's copies of the environments of a process's boxes.

    kern removes those of boxes that end in order, and keeps those of killed ones.
    """
    user = os.getuid()
    folders = [Path(f"/run/user/{user}/kern/env"), Path(f"/tmp/kern-{user}/env")]
    chosen = os.environ.get("XDG_RUNTIME_DIR")
    if chosen:
        folders.append(Path(chosen) / "kern" / "env")
    names = f"{BOX_PREFIX}{token}-*"
    found = (path for folder in folders for path in sorted(folder.glob(names)))
    return list(dict.fromkeys(found))


def tokens() -> list[str]:
    """List the marks of all processes, living or dead, but not this one's."""
    try:
        names = [path.name for path in (cache_folder() / _MARKS).iterdir()]
    except FileNotFoundError:
        return []
    own = None if _owner is None else _owner.token
    return [name for name in names if _TOKEN.fullmatch(name) and name != own]


@contextmanager
def dead_owner(token: str, *, keep: bool) -> Generator[DeadOwner | None]:
    """Hold the mark of a dead process for as long as its remains are looked at.

    Args:
        token: One of `tokens`.
        keep: Leave the mark in place; else it goes once all its folders are gone.

    Yields:
        The process, or None while it lives or where another one is at it already.
    """
    path = cache_folder() / _MARKS / token
    try:
        mark = path.open("rb")
    except FileNotFoundError:
        yield None
        return
    with mark:
        if not _locked(mark):
            yield None
            return
        noted = mark.read().split(_END)[:-1]
        parents = {Path(os.fsdecode(name)) for name in noted}
        yield DeadOwner(token, *_named_in(parents, token))
        if not keep and not any(_named_in(parents, token)):
            path.unlink(missing_ok=True)


def _locked(mark: IO[bytes]) -> bool:
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _named_in(
    parents: set[Path], token: str
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Find what a process made in some directories: the folders, then the rest."""
    name = re.compile(rf"\.?{PREFIX}[a-z]+-{token}-[a-z0-9_]+")
    folders: list[Path] = []
    files: list[Path] = []
    for parent in sorted(parents):
        with suppress(OSError), os.scandir(parent) as entries:
            for entry in entries:
                if name.fullmatch(entry.name):
                    is_folder = entry.is_dir(follow_symlinks=False)
                    (folders if is_folder else files).append(parent / entry.name)
    return tuple(folders), tuple(files)


def _after_fork_in_child() -> None:
    global _owner, _making
    _making = threading.Lock()
    if _owner is not None:
        _owner.forget()
        _owner = None


def _at_exit() -> None:
    global _owner
    if _owner is not None:
        _owner.leave()
        _owner = None


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
