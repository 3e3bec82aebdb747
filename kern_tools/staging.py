"""Put the files of an archive into a workspace: first aside, then all by renames."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from .contents import Contents, Member, shown
from .descriptors import (
    Request,
    directory_at,
    entry_mode,
    explained,
    open_directory,
    unlock,
)
from .emptying import remove_entry
from .names import PRIVATE_DIR
from .ownership import owned_name
from .spilling import private_directory
from .writing import CREATE, write_all

_REQUEST = Request("restore into", "the workspace")


@contextmanager
def staged(root: int, path: Path) -> Generator[int]:
    """Yield an empty directory on the workspace's own disk, removed at the end.

    It lies in `.kern/`, where code in a box can reach it: what is done in it follows no
    link, and what code adds to it is no more than it could write itself.

    Args:
        root: Descriptor of the workspace.
        path: Where the workspace is.
    """
    private = private_directory(root)
    name = owned_name("restore", path / PRIVATE_DIR)
    try:
        os.mkdir(name, 0o700, dir_fd=private)
        try:
            stage = open_directory(private, name)
            try:
                yield stage
            finally:
                os.close(stage)
        finally:
            with suppress(OSError):
                remove_entry(private, name)
    finally:
        os.close(private)


class Unpacking:
    """Writes members below a descriptor; the last directory used stays open."""

    def __init__(self, stage: int) -> None:
        self._stage = stage
        self._above: bytes | None = None
        self._held = ExitStack()

    def close(self) -> None:
        """Let go of the directory that is open."""
        self._held.close()

    def add_directory(self, member: Member) -> None:
        """Make a directory and those above it."""
        self._directory(member.path)

    def add_file(self, member: Member, content: Iterable[bytes]) -> None:
        """Write a file, with its permissions and time."""
        above, _, name = member.path.rpartition(b"/")
        descriptor = os.open(name, CREATE, 0o600, dir_fd=self._directory(above))
        try:
            for piece in content:
                write_all(descriptor, piece)
            os.fchmod(descriptor, member.mode)
            os.utime(descriptor, (member.mtime_s, member.mtime_s))
        finally:
            os.close(descriptor)

    def _directory(self, path: bytes) -> int:
        if path != self._above:
            self._above = None
            self._held.close()
            self._descriptor = self._held.enter_context(
                directory_at(self._stage, _parts(path), _REQUEST, make=True)
            )
            self._above = path
        return self._descriptor


def meeting(root: int, contents: Contents) -> list[bytes]:
    """Find the directories that the workspace and an archive both have.

    Args:
        root: Descriptor of the workspace.
        contents: What is to be put into it.

    Returns:
        Their paths, `b""` first.

    Raises:
        WorkspaceError: One has a directory where the other has none: `exists` or
            `is_directory`.
    """
    both: list[bytes] = []
    pending = [b""]
    while pending:
        path = pending.pop()
        both.append(path)
        with directory_at(root, _parts(path), _REQUEST) as directory:
            for child, found in _found(directory, path, contents):
                _check(child, found, is_directory=contents.is_directory(child))
                if contents.is_directory(child):
                    pending.append(child)
    return both


def move_in(stage: int, root: int, contents: Contents, both: list[bytes]) -> None:
    """Rename everything from the stage to its place, replacing files of the same name.

    Args:
        stage: Descriptor of the unpacked archive.
        root: Descriptor of the workspace.
        contents: What was unpacked.
        both: The directories that are there already.

    Raises:
        OSError: Something could not be moved; what was moved before is in its place.
    """
    stays = set(both)
    for path in both:
        with (
            directory_at(stage, _parts(path), _REQUEST) as source,
            directory_at(root, _parts(path), _REQUEST) as target,
        ):
            for name in contents.children[path]:
                if _joined(path, name) not in stays:
                    _rename(source, target, name)


def finish_directories(root: int, contents: Contents) -> None:
    """Give the directories their permissions and times, now that nothing moves."""
    for member in contents.directories:
        parts = _parts(member.path)
        with directory_at(root, parts, _REQUEST) as directory:
            os.fchmod(directory, member.mode)
            os.utime(directory, (member.mtime_s, member.mtime_s))


def _found(
    directory: int, path: bytes, contents: Contents
) -> Iterator[tuple[bytes, os.stat_result]]:
    """Give the members of one directory whose names are taken in the workspace."""
    for name in contents.children[path]:
        with suppress(FileNotFoundError):
            yield _joined(path, name), entry_mode(directory, name)


def _check(path: bytes, found: os.stat_result, *, is_directory: bool) -> None:
    there = stat.S_ISDIR(found.st_mode)
    if there == is_directory:
        return
    with explained("restore", shown(path)) as request:
        if there:
            why = "a directory has its name here; remove that first"
            raise request.error("is_directory", why)
        why = "it is a directory, and something else has its name; remove that first"
        raise request.error("exists", why)


def _rename(source: int, target: int, name: bytes) -> None:
    try:
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
    except PermissionError:
        unlock(target)
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)


def _parts(path: bytes) -> tuple[bytes, ...]:
    return tuple(path.split(b"/")) if path else ()


def _joined(path: bytes, name: bytes) -> bytes:
    return path + b"/" + name if path else name
