"""Empty a directory that hostile code filled, however deep and whatever its modes."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from math import inf

from .descriptors import Name, open_directory, unlock, unlock_child
from .names import TEMPORARY_PREFIX

_PASSES = 3


def empty_directory(root: int, *, until_s: float = inf) -> bool:
    """Remove everything below a descriptor, never following a link.

    Directories found are first moved up to the top, so that depth costs neither open
    descriptors nor recursion.

    Args:
        root: Descriptor of the directory; it stays.
        until_s: Stop at this time of `time.monotonic()`.

    Returns:
        Whether it is empty now. Entries of other users stay, as does what running code
        keeps adding.
    """
    for _ in range(_PASSES):
        with suppress(OSError):
            for _ in _emptying(root):
                if time.monotonic() > until_s:
                    return False
            if _is_empty(root):
                return True
    return False


def remove_entry(parent: int, name: Name) -> None:
    """Remove one entry of whatever kind, with all that is below it.

    Raises:
        OSError: It cannot be removed.
    """
    unlock(parent)
    try:
        os.unlink(name, dir_fd=parent)
    except IsADirectoryError:
        directory = open_directory(parent, name)
        try:
            empty_directory(directory)
        finally:
            os.close(directory)
        os.rmdir(name, dir_fd=parent)


def _emptying(top: int) -> Iterator[None]:
    """Empty a directory, in steps that each take little time."""
    moved: list[str] = []
    yield from _clearing(top, top, moved)
    while moved:
        name = moved.pop()
        with suppress(OSError):
            below = open_directory(top, name)
            try:
                yield from _clearing(below, top, moved)
            finally:
                os.close(below)
            os.rmdir(name, dir_fd=top)
            yield


def _clearing(directory: int, top: int, moved: list[str]) -> Iterator[None]:
    """Remove the files of one directory and move its directories to the top."""
    unlock(directory)
    again = open_directory(directory, ".")
    try:
        with os.scandir(again) as entries:
            for entry in entries:
                with suppress(OSError):
                    if not entry.is_dir(follow_symlinks=False):
                        os.unlink(entry.name, dir_fd=directory)
                    elif directory == top:
                        moved.append(entry.name)
                    else:
                        moved.append(_move_up(directory, entry.name, top))
                yield
    finally:
        os.close(again)


def _move_up(directory: int, name: str, top: int) -> str:
    up = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    try:
        os.rename(name, up, src_dir_fd=directory, dst_dir_fd=top)
    except PermissionError:
        unlock_child(directory, name, 0o700)
        os.rename(name, up, src_dir_fd=directory, dst_dir_fd=top)
    return up


def _is_empty(directory: int) -> bool:
    again = open_directory(directory, ".")
    try:
        with os.scandir(again) as entries:
            return next(entries, None) is None
    finally:
        os.close(again)
