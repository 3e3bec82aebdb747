"""Put a file into a directory of the workspace in one step."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress

from .descriptors import Name, Request, entry_mode, unlock
from .names import TEMPORARY_PREFIX

CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a file is made that is not there yet, through no link."""
_PERMISSION_BITS = 0o777


def encoded(data: str | bytes, request: Request) -> bytes:
    """Give the bytes to store: text as UTF-8, with its newlines as they are.

    Raises:
        WorkspaceError: `bad_data`, the text holds a lone surrogate.
    """
    if not isinstance(data, str):
        return bytes(data)
    try:
        return data.encode("utf-8")
    except UnicodeEncodeError as error:
        why = (
            f"its text holds the lone surrogate {data[error.start]!r} at character "
            f"{error.start}, which UTF-8 cannot store; leave it out or give bytes"
        )
        raise request.error("bad_data", why) from None


def existing_file(parent: int, name: Name, request: Request) -> os.stat_result | None:
    """Look at the file that a write would replace.

    Returns:
        Its status, or None where nothing has that name.

    Raises:
        WorkspaceError: Something that is not a regular file has it.
    """
    try:
        found = entry_mode(parent, name)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise request.refusal(found.st_mode)
    return found


def replace_file(
    parent: int,
    name: Name,
    content: bytes | Iterable[bytes],
    *,
    like: os.stat_result | None = None,
    mode: int = 0o666,
) -> None:
    """Write a new file beside the old one, then give it the name.

    Args:
        parent: Descriptor of the directory.
        name: The name in it.
        content: All of the file, whole or in pieces.
        like: Status of a file whose permissions and owner to take.
        mode: Permissions of a file that is new, before the umask.

    Raises:
        OSError: It cannot be written; the old file is as it was.
    """
    temporary = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    descriptor = _create(parent, temporary, mode)
    try:
        try:
            for piece in [content] if isinstance(content, bytes) else content:
                write_all(descriptor, piece)
            if like is not None:
                _take_after(descriptor, like)
        finally:
            os.close(descriptor)
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=parent)
        raise


def _create(parent: int, name: str, mode: int) -> int:
    try:
        return os.open(name, CREATE, mode, dir_fd=parent)
    except PermissionError:
        unlock(parent)
        return os.open(name, CREATE, mode, dir_fd=parent)


def write_all(descriptor: int, content: bytes) -> None:
    """Write everything; a system call may take less."""
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def _take_after(descriptor: int, like: os.stat_result) -> None:
    made = os.fstat(descriptor)
    if (made.st_uid, made.st_gid) != (like.st_uid, like.st_gid):
        # Only root may give a file away; to others the content matters more.
        with suppress(PermissionError):
            os.chown(descriptor, like.st_uid, like.st_gid)
    os.fchmod(descriptor, like.st_mode & _PERMISSION_BITS)
