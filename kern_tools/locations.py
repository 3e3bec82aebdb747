"""Where snapshots are kept: a path, or whatever fsspec can reach by a URL.

A snapshot gets its name only once it is whole. On a path that is one rename, so a
reader finds the old one or the new. By URL it is uploaded under a temporary name and
moved; a store without a rename (most object stores) copies instead and removes the
temporary object after that, so whether a reader may see half a copy is up to the store.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from .extras import missing
from .faults import SnapshotError
from .ownership import owned_name

Location = str | os.PathLike[str]
"""A path, or a URL such as `s3://bucket/run.tar.gz`."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?:://|::)")
_LOCAL = re.compile(r"^(?:file|local)://")
_CHUNK_BYTES = 1 << 20
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CODES = {
    errno.ENOENT: ("not_found", "check the name"),
    errno.EEXIST: ("exists", "a part of it is a file; choose another location"),
    errno.ENOTDIR: ("exists", "a part of it is a file; choose another location"),
    errno.EISDIR: ("is_directory", "name a file in it"),
    errno.EACCES: ("permission", "choose another location or change its mode"),
    errno.EPERM: ("permission", "choose another location or change its mode"),
    errno.EROFS: ("permission", "choose another location"),
    errno.ENOSPC: ("no_space", "remove files first"),
    errno.EDQUOT: ("no_space", "remove files first"),
}


class _Store(Protocol):
    """The part of fsspec's file systems that is used."""

    def open(self, path: str, mode: str) -> Any: ...
    def makedirs(self, path: str, exist_ok: bool) -> None: ...
    def mv(self, path1: str, path2: str) -> None: ...
    def rm_file(self, path: str) -> None: ...


def named(location: Location) -> str:
    """Name a location in a message, without what may be a secret of its URL."""
    text = os.fspath(location)
    if not _URL.match(text):
        return text
    text = re.sub(r"://[^/@]*@", "://...@", text)
    return re.sub(r"\?.*", "?...", text, flags=re.DOTALL)


@contextmanager
def explained_location(verb: str, location: str) -> Generator[None]:
    """Turn every `OSError` of a block into a `SnapshotError` naming the location."""
    try:
        yield
    except OSError as error:
        number = error.errno or _number(error)
        code, remedy = _CODES.get(number, ("io", "check its disk or network"))
        told = os.strerror(number) if number else str(error) or type(error).__name__
        raise _error(verb, location, f"{told}; {remedy}", code) from error


def check_outside(location: Location, root: Path) -> None:
    """Refuse a path inside the workspace, where code in a box could swap it.

    Raises:
        SnapshotError: `bad_location`.
    """
    path = local_path(location)
    if path is not None and path.resolve().is_relative_to(root):
        why = "it is inside the workspace, where code in a box can change it"
        remedy = "choose another location"
        raise _error("save", named(location), f"{why}; {remedy}", "bad_location")


@contextmanager
def written(location: Location) -> Generator[BinaryIO]:
    """Yield a file that gets its name when the block ends well, else goes.

    Raises:
        SnapshotError: `is_directory` or `not_regular`.
        OSError: It cannot be written there; what was there before still is.
        ImportError: The URL needs a library that is not installed; the text names it.
    """
    path = local_path(location)
    writing = _uploaded(os.fspath(location)) if path is None else _renamed(path)
    with writing as file:
        yield file


@contextmanager
def read(location: Location, limit_bytes: int) -> Generator[BinaryIO]:
    """Yield a seekable file with what is at a location.

    Args:
        location: Where it is.
        limit_bytes: Download no more than this.

    Raises:
        SnapshotError: `is_directory`, `not_regular` or `too_large`.
        OSError: It cannot be read.
        ImportError: The URL needs a library that is not installed; the text names it.
    """
    path = local_path(location)
    if path is None:
        with tempfile.TemporaryFile() as copy:
            _download(os.fspath(location), copy, limit_bytes)
            yield copy
        return
    descriptor = os.open(path, _OPEN)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise _not_a_file("read", path, mode)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def remove(location: Location) -> bool:
    """Remove what is at a location; False where there is nothing.

    Raises:
        OSError: It cannot be removed.
        ImportError: The URL needs a library that is not installed; the text names it.
    """
    path = local_path(location)
    try:
        if path is None:
            store, there = _store(os.fspath(location), "remove")
            store.rm_file(there)
        else:
            path.unlink()
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _renamed(path: Path) -> Generator[BinaryIO]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise _not_a_file("save", path, mode)
    temporary = path.parent / owned_name("part", path.parent)
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


@contextmanager
def _uploaded(url: str) -> Generator[BinaryIO]:
    store, path = _store(url, "save")
    with tempfile.TemporaryFile() as file:
        yield file
        temporary = f"{path}.{secrets.token_hex(8)}.part"
        try:
            _upload(store, temporary, file)
            store.mv(temporary, path)
        except BaseException:
            with suppress(Exception):  # The first error is the one to tell.
                store.rm_file(temporary)
            raise


def _upload(store: _Store, path: str, file: BinaryIO) -> None:
    try:
        _send(store, path, file)
    except FileNotFoundError:  # Object stores have no directories; others want them.
        store.makedirs(path.rpartition("/")[0], exist_ok=True)
        _send(store, path, file)


def _send(store: _Store, path: str, file: BinaryIO) -> None:
    file.seek(0)
    with store.open(path, "wb") as there:
        shutil.copyfileobj(file, there, _CHUNK_BYTES)


def _download(url: str, copy: BinaryIO, limit_bytes: int) -> None:
    store, path = _store(url, "read")
    with store.open(path, "rb") as there:
        while piece := there.read(_CHUNK_BYTES):
            if copy.tell() + len(piece) > limit_bytes:
                why = f"it is greater than {limit_bytes} bytes; give a larger max_bytes"
                raise _error("read", named(url), why, "too_large")
            copy.write(piece)
    copy.seek(0)


def _store(url: str, verb: str) -> tuple[_Store, str]:
    """Find fsspec's file system for a URL, and the path in it."""
    try:
        from fsspec import core  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        missing("snapshots", error, user="A snapshot by URL")
    try:
        return cast("tuple[_Store, str]", cast("Any", core).url_to_fs(url))
    except ValueError as error:
        why = f"{error}; give a path, or a URL that fsspec knows"
        raise _error(verb, named(url), why, "bad_location") from error


def local_path(location: Location) -> Path | None:
    """Give the path of a location that is one; None for a URL."""
    text = _LOCAL.sub("", os.fspath(location))
    return None if _URL.match(text) else Path(text)


def _not_a_file(verb: str, path: Path, mode: int) -> SnapshotError:
    if stat.S_ISDIR(mode):
        return _error(
            verb, str(path), "it is a directory; name a file in it", "is_directory"
        )
    why = "it is not a regular file; choose another name"
    return _error(verb, str(path), why, "not_regular")


def _error(verb: str, location: str, why: str, code: str) -> SnapshotError:
    return SnapshotError(
        f"cannot {verb} the snapshot {location!r}: {why}", code=code, location=location
    )


def _number(error: OSError) -> int:
    """Give the number of an `OSError` that a library raised without one."""
    if isinstance(error, FileNotFoundError):
        return errno.ENOENT
    return errno.EACCES if isinstance(error, PermissionError) else 0
