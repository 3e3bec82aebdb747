"""Who uses what we keep in the cache, so that what nobody uses can be told.

Each kept thing, a folder that `setup` filled or an image that was built here, has a
file whose time says when it was last used. Who uses the thing holds a shared lock on
the file, which the kernel drops with the process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from .cache import cache_folder, made_cache_folder

Kind = Literal["image", "setup"]

_FOLDER = "uses"
_OPEN = os.O_RDWR | os.O_CLOEXEC


class Use:
    """One use of one thing, until it is closed.

    Attributes:
        is_first: Nobody was known to use it, or it was just being removed; what was
            seen of it before may be gone.
    """

    def __init__(self, descriptor: int, *, is_first: bool) -> None:
        self.is_first = is_first
        self._descriptor = descriptor

    def close(self) -> None:
        """Use it no longer; calling it again does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.utime(descriptor)
            os.close(descriptor)


def use(kind: Kind, name: str) -> Use:
    """Say that a thing is used from now on.

    Raises:
        HostError: There is no place for the cache.
    """
    path = made_cache_folder(_FOLDER) / _file(kind, name)
    is_first = False
    while True:
        try:
            descriptor = os.open(path, _OPEN)
        except FileNotFoundError:
            is_first = True
            descriptor = os.open(path, _OPEN | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if _is_at(path, descriptor):
            os.utime(descriptor)
            return Use(descriptor, is_first=is_first)
        os.close(descriptor)  # who removed the thing removed its file


@contextmanager
def unused(kind: Kind, name: str) -> Generator[float | None]:
    """Keep others from using a thing during the block, if nobody uses it.

    Yields:
        When it was last used, in seconds since the epoch, 0 where that is not known;
        None where it is used.
    """
    path = made_cache_folder(_FOLDER) / _file(kind, name)
    known = path.exists()
    descriptor = os.open(path, _OPEN | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        yield None
        return
    try:
        yield os.fstat(descriptor).st_mtime if known else 0.0
    finally:
        if not known:
            path.unlink(missing_ok=True)
        os.close(descriptor)


def forget_uses(kind: Kind, name: str) -> None:
    """Note that a thing is gone; only in a block of `unused`."""
    (cache_folder() / _FOLDER / _file(kind, name)).unlink(missing_ok=True)


def _file(kind: Kind, name: str) -> str:
    return f"{kind}-{quote(name, safe='')}"


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        there, held = path.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)
