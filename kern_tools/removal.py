"""Remove a directory that hostile code filled, however deep and whatever its modes."""

from __future__ import annotations

import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path

from .descriptors import Name, open_directory, unlock, unlock_child
from .names import TEMPORARY_PREFIX

_PASSES = 3

_log = logging.getLogger(__name__)


def empty_directory(root: int) -> bool:
    """Remove everything below a descriptor, never following a link.

    Directories found are first moved up to the top, so that depth costs neither open
    descriptors nor recursion.

    Args:
        root: Descriptor of the directory; it stays.

    Returns:
        Whether it is empty now. Entries of other users stay, as does what running code
        keeps adding.
    """
    for _ in range(_PASSES):
        with suppress(OSError):
            _empty(root)
            if _is_empty(root):
                return True
    return False


def remove_directory(path: Path, descriptor: int) -> None:
    """Remove a directory with all that is in it; what has to stay is logged.

    Args:
        path: Where it is; nothing hostile may write beside it.
        descriptor: The directory itself.
    """
    emptied = empty_directory(descriptor)
    try:
        path.rmdir()
    except FileNotFoundError:
        return
    except OSError as error:
        why = error.strerror if emptied else "some entries are not ours"
        _log.warning("workspace %s was not removed: %s", path, why)


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


def _empty(top: int) -> None:
    moved = _clear(top, top)
    while moved:
        name = moved.pop()
        with suppress(OSError):
            below = open_directory(top, name)
            try:
                moved += _clear(below, top)
            finally:
                os.close(below)
            os.rmdir(name, dir_fd=top)


def _clear(directory: int, top: int) -> list[str]:
    """Remove the files of one directory and move its directories to the top."""
    unlock(directory)
    moved: list[str] = []
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
    finally:
        os.close(again)
    return moved


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
