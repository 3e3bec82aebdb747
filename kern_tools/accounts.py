"""A workspace shared with the account that code runs as, where that is not root.

kern maps root of a box to the user of this process, and every other account to an id of
that user's subordinate range. Such an account could neither enter a folder of ours nor
leave in it what we can change; an access control list lets both in, and is inherited by
whatever either makes.

Source: acl(5) for the meaning, `linux/posix_acl_xattr.h` for the bytes.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import struct
import subprocess
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from .call import Work
from .faults import SandboxError
from .image_store import image_user
from .launch import Launcher
from .names import BOX_ROOT
from .result import ExecutionResult
from .walking import Walk

_SHELL = """\
tell() { while read -r first rest; do echo "$first $rest"; done; }
tell < /proc/self/uid_map; tell < /proc/self/status
"""
_PYTHON = """\
for name in ("uid_map", "status"):
    print(open(f"/proc/self/{name}").read())
"""
ASK_S = 60.0
"""How long a box may take to say who its code is."""
_TAKE_BACK_S = 60
_ROOT = ("", "0", "root")

_ACCESS, _DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
_VERSION = 2
_OWNER, _NAMED, _GROUP, _NAMED_GROUP, _MASK, _OTHER = 1, 2, 4, 8, 16, 32
_NOBODY = 0xFFFFFFFF
_ALL = 7


_log = logging.getLogger(__name__)


class _Entry(NamedTuple):
    tag: int
    bits: int
    who: int = _NOBODY


def account_name(launcher: Launcher) -> str | None:
    """Name the account that code runs as, by option or image; None for root."""
    name = launcher.config.user
    if name is None and not launcher.image.host_python:
        name = image_user(launcher.image.reference)
    return None if name is None or name.partition(":")[0] in _ROOT else name


def about_account(launcher: Launcher) -> str:
    """Say what an image's own account needs of this machine, as part of a sentence."""
    name = account_name(launcher)
    if name is None or launcher.config.user is not None:
        return ""
    return (
        f"; it runs as {name!r}, for which this user needs `newuidmap` and a range in"
        " /etc/subuid; or set user='0'"
    )


def find_account(
    launcher: Launcher, ask: Callable[[Work], ExecutionResult], *, python: bool
) -> int | None:
    """Find out which user of this machine code is, by asking a box.

    Args:
        launcher: Makes the boxes of the sandbox.
        ask: Runs a call in one of them.
        python: The image has Python; else it has a shell.

    Returns:
        The user, or None where that is the one of this process, or no box starts.

    Raises:
        SandboxError: The box did not say.
    """
    name = account_name(launcher)
    if name is None:
        return None
    told = ask(who_in_python() if python else who_in_shell())
    if told.fault is not None:
        return None  # every call will say it
    user = host_id(told.stdout)
    if user is None:
        raise SandboxError(
            f"which user of this machine {name!r} is could not be told from"
            f" {told.stdout!r}; raise max_output_bytes, or set user='0'",
            code="host",
        )
    return None if user == os.geteuid() else user


def who_in_python() -> Work:
    """Give the call whose output `host_id` reads."""
    return Work(language="python", code=_PYTHON)


def who_in_shell() -> Work:
    """Give the same call by a shell's own commands, for images without Python."""
    return Work(language="command", argv=("sh", "-c", _SHELL))


def host_id(said: str) -> int | None:
    """Read off which user of this machine an account of the box is.

    Args:
        said: The box's `/proc/self/uid_map`, then its `/proc/self/status`.

    Returns:
        The id, or None where the text does not say.
    """
    ranges: list[list[int]] = []
    for words in map(str.split, said.splitlines()):
        if len(words) == 3 and all(word.isdigit() for word in words):
            ranges.append([int(word) for word in words])
        elif len(words) > 1 and words[0] == "Uid:" and words[1].isdigit():
            return _outside(int(words[1]), ranges)
    return None


def _outside(inside: int, ranges: Iterable[Iterable[int]]) -> int | None:
    for first, outside, count in ranges:
        if first <= inside < first + count:
            return outside + inside - first
    return None


def share(folder: Path, account: int, *, limit: int) -> None:
    """Let an account read and change what is ours in a directory, and we what is its.

    Entries of others are passed over. What is later made in the directory is shared
    too, unless its maker closes it on purpose, as with mode 0600.

    Args:
        folder: The directory.
        account: A user of this machine.
        limit: Entries to look at; those beyond it are left as they are.

    Raises:
        SandboxError: The file system keeps no such lists.
    """
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _let_in_below(root, account, limit)
        finally:
            os.close(root)
    except OSError as error:
        raise SandboxError(
            f"{str(folder)!r} cannot be shared with user {account} of this machine, as"
            f" which code runs: {error.strerror}; put it on a file system with access"
            " control lists (ext4, xfs, btrfs, tmpfs), or set user='0'",
            code="host",
        ) from error


def take_back(launcher: Launcher) -> None:
    """Make everything in the workspace ours again, by root of a box, to remove it.

    Args:
        launcher: Makes the boxes of the sandbox; none of them may run any more.
    """
    own = replace(launcher, config=launcher.config.replace(user="0", cap_drop=()))
    command = ["chown", "-hR", "0:0", BOX_ROOT]
    launch = own.direct(command, _TAKE_BACK_S, shell=False)
    try:
        ended = subprocess.run(
            launch.argv,
            env=launch.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    finally:
        launch.forget_env_file()
    if ended.returncode:
        words = ended.stderr.decode("utf-8", "replace").strip()[-200:]
        _log.warning("files of another account stay in the workspace: %s", words)


def _let_in_below(root: int, account: int, limit: int) -> None:
    with closing(Walk(root, limit=limit, everything=True)) as walk:
        for found in walk:
            if found.first:
                _let_in(found.descriptor, account)
            for entry in found.entries:
                _let_in_at(found.descriptor, entry.name, account)


def _let_in_at(directory: int, name: str, account: int) -> None:
    # O_PATH neither follows a link nor waits for a pipe.
    with suppress(FileNotFoundError, PermissionError):
        entry = os.open(
            name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory
        )
        try:
            _let_in(entry, account)
        finally:
            os.close(entry)


def _let_in(descriptor: int, account: int) -> None:
    found = os.fstat(descriptor)
    plain = stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)
    if not plain or found.st_uid != os.geteuid():
        return
    path = f"/proc/self/fd/{descriptor}"  # an O_PATH descriptor takes no attributes
    bits = found.st_mode >> 6 & _ALL
    entries = _entries(path, _ACCESS) or [
        _Entry(_OWNER, bits),
        _Entry(_GROUP, found.st_mode >> 3 & _ALL),
        _Entry(_OTHER, found.st_mode & _ALL),
    ]
    os.setxattr(path, _ACCESS, _encoded(_with(entries, account, bits)))
    if stat.S_ISDIR(found.st_mode):
        kept = [e for e in _entries(path, _DEFAULT) if e.tag in (_NAMED, _NAMED_GROUP)]
        ours = [_Entry(_OWNER, _ALL), _Entry(_GROUP, 0), _Entry(_OTHER, 0), *kept]
        for user in (os.geteuid(), account):
            ours = _with(ours, user, _ALL)
        os.setxattr(path, _DEFAULT, _encoded(ours))


def _with(entries: Iterable[_Entry], account: int, bits: int) -> list[_Entry]:
    """Add a user to a list; the mask is what all but the owner and others may have."""
    kept = [
        entry
        for entry in entries
        if entry.tag != _MASK and (entry.tag, entry.who) != (_NAMED, account)
    ]
    kept.append(_Entry(_NAMED, bits, account))
    mask = 0
    for entry in kept:
        if entry.tag in (_NAMED, _GROUP, _NAMED_GROUP):
            mask |= entry.bits
    return [*kept, _Entry(_MASK, mask)]


def _entries(path: str, name: str) -> list[_Entry]:
    try:
        stored = os.getxattr(path, name)
    except OSError as error:
        if error.errno == errno.ENODATA:
            return []
        raise
    return [_Entry(*parts) for parts in struct.iter_unpack("<HHI", stored[4:])]


def _encoded(entries: Iterable[_Entry]) -> bytes:
    ordered = sorted(entries, key=lambda entry: (entry.tag, entry.who))
    return struct.pack("<I", _VERSION) + b"".join(
        struct.pack("<HHI", *entry) for entry in ordered
    )
