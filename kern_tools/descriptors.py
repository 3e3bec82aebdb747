"""Open files and directories step by step, so that no planted link is ever followed.

Code in a box can replace any name at any moment. Each step here is therefore relative
to a descriptor that is already held, refuses links, and judges what was opened by its
descriptor, never by a name that may have changed since.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from .faults import SandboxClosed, WorkspaceError

_COMMON = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | _COMMON
_ENTER, _CHANGE, _READ = 0o500, 0o700, 0o400

Name = str | bytes

_KINDS = (
    (stat.S_ISLNK, "a symbolic link, which is never followed"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISREG, "a file"),
)
_FOREIGN = "it belongs to another user; change its owner or mode"
_REASONS = {
    errno.ENOENT: ("not_found", "it does not exist; list_files() shows what does"),
    errno.EACCES: ("permission", _FOREIGN),
    errno.EPERM: ("permission", _FOREIGN),
    errno.EROFS: ("permission", "its file system is read-only; use another directory"),
    errno.ENOSPC: ("no_space", "the disk is full; remove files first"),
    errno.EDQUOT: ("no_space", "the disk quota is used up; remove files first"),
    errno.EFBIG: ("no_space", "the limit on file sizes is reached; write less"),
    errno.ENAMETOOLONG: ("bad_path", "its name is too long; choose a shorter one"),
    errno.EISDIR: ("is_directory", "it is a directory; name a file in it"),
    errno.ENOTEMPTY: ("is_directory", "it is a directory; name a file in it"),
    errno.ELOOP: ("not_regular", "it is a symbolic link, which is never followed"),
    errno.EAGAIN: ("io", "code in the box holds it under a lease; try again later"),
}


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asked for, kept to explain why it cannot be done."""

    verb: str
    path: str

    def error(self, code: str, why: str) -> WorkspaceError:
        """Make the error that says why, naming the path as it was given."""
        shown = self.path if len(self.path) <= 200 else self.path[:200] + "..."
        return WorkspaceError(
            f"cannot {self.verb} {shown!r}: {why}", code=code, path=self.path
        )

    def refusal(self, mode: int, where: str = "it") -> WorkspaceError:
        """Make the error for something that is not the regular file asked for."""
        kind = next((text for test, text in _KINDS if test(mode)), "a device")
        if stat.S_ISDIR(mode):
            return self.error("is_directory", f"{where} is {kind}; name a file in it")
        return self.error(
            "not_regular", f"{where} is {kind}; only regular files can be used"
        )

    def from_os(self, error: OSError) -> WorkspaceError:
        """Make the error for what the kernel answered."""
        told = os.strerror(error.errno or errno.EIO)
        code, why = _REASONS.get(
            error.errno or errno.EIO, ("io", f"{told}; check the disk of the workspace")
        )
        return self.error(code, why)


class explained:
    """Turn every `OSError` of a block into a `WorkspaceError` that names the path."""

    __slots__ = ("_request",)

    def __init__(self, verb: str, path: str) -> None:
        self._request = Request(verb, path)

    def __enter__(self) -> Request:
        return self._request

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, OSError):
            raise self._request.from_os(error) from error


def unlock(descriptor: int, bits: int = _CHANGE) -> None:
    """Give the owner's bits back to a file or directory of ours that lost them."""
    found = os.fstat(descriptor)
    plain = stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)
    if plain and found.st_uid == os.geteuid() and found.st_mode & bits != bits:
        mode = stat.S_IMODE(found.st_mode) | bits
        # fchmod refuses an O_PATH descriptor; its link in /proc does not.
        os.chmod(f"/proc/self/fd/{descriptor}", mode)  # noqa: PTH101


def unlock_child(parent: int, name: Name, bits: int) -> None:
    """Do the same for an entry, and for its directory, without opening the entry."""
    unlock(parent, _ENTER)
    entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        unlock(entry, bits)
    finally:
        os.close(entry)


def open_directory(parent: int, name: Name) -> int:
    """Open a directory that is really there, under that name, in `parent`."""
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except PermissionError:
        unlock_child(parent, name, _CHANGE)
        return os.open(name, _DIRECTORY, dir_fd=parent)


class Lent:
    """A descriptor of a held directory, for one block."""

    __slots__ = ("_descriptor", "_directory")

    def __init__(self, directory: HeldDirectory) -> None:
        self._directory = directory

    def __enter__(self) -> int:
        self._descriptor = self._directory.another()
        return self._descriptor

    def __exit__(self, *error: object) -> None:
        os.close(self._descriptor)


class HeldDirectory:
    """The workspace itself, lent to threads while another may close it."""

    def __init__(self, path: os.PathLike[str]) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @property
    def closed(self) -> bool:
        """Whether nothing can be lent any more."""
        return self._descriptor < 0

    def lent(self) -> Lent:
        """Lend a descriptor that stays good until the end of the block.

        Raises:
            SandboxClosed: The directory was given up before.
        """
        return Lent(self)

    def another(self) -> int:
        """Give a descriptor of one's own.

        Raises:
            SandboxClosed: The directory was given up before.
        """
        with self._lock:
            if self.closed:
                raise SandboxClosed(
                    f"the workspace {os.fspath(self._path)!r} is closed: open a new one"
                )
            return os.dup(self._descriptor)

    def give_up(self) -> int | None:
        """Lend nothing any more.

        Returns:
            The descriptor, now the caller's to close; None the second time.
        """
        with self._lock:
            descriptor, self._descriptor = self._descriptor, -1
        return None if descriptor < 0 else descriptor


def entry_mode(parent: int, name: Name) -> os.stat_result:
    """Look at an entry itself, never through a link."""
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except PermissionError:
        unlock(parent, _ENTER)
        return os.stat(name, dir_fd=parent, follow_symlinks=False)


def open_regular(parent: int, name: Name, request: Request) -> int:
    """Open a regular file for reading; anything else is refused unopened."""
    before = entry_mode(parent, name)
    if not stat.S_ISREG(before.st_mode):
        raise request.refusal(before.st_mode)
    try:
        descriptor = _open_file(parent, name)
    except OSError as error:
        # What was a file a moment ago is now a socket or a device without a driver.
        if error.errno in {errno.ENXIO, errno.ENODEV}:
            raise request.refusal(stat.S_IFSOCK) from error
        raise
    opened = os.fstat(descriptor)
    if not stat.S_ISREG(opened.st_mode):
        os.close(descriptor)
        raise request.refusal(opened.st_mode)
    return descriptor


def _open_file(parent: int, name: Name) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_NOCTTY | _COMMON, dir_fd=parent)
    except PermissionError:
        unlock_child(parent, name, _READ)
        return os.open(name, os.O_RDONLY | os.O_NOCTTY | _COMMON, dir_fd=parent)


def read_at(descriptor: int, offset_bytes: int, wanted_bytes: int) -> bytes:
    """Read that many bytes, or what there is where the file became shorter."""
    pieces: list[bytes] = []
    while wanted_bytes > 0:
        piece = os.pread(descriptor, min(wanted_bytes, 1 << 24), offset_bytes)
        if not piece:
            break
        pieces.append(piece)
        offset_bytes += len(piece)
        wanted_bytes -= len(piece)
    return b"".join(pieces)


class directory_at:
    """Walk down from the root and hold the last directory open during a block.

    Args:
        root: Descriptor of the workspace.
        names: The names on the way.
        request: Explains a part that is not a directory.
        make: Make directories that are missing.
    """

    __slots__ = ("_held", "_make", "_names", "_request", "_root")

    def __init__(
        self,
        root: int,
        names: Sequence[Name],
        request: Request,
        *,
        make: bool = False,
    ) -> None:
        self._root = self._held = root
        self._names = names
        self._request = request
        self._make = make

    def __enter__(self) -> int:
        try:
            for name in self._names:
                below = _step(self._held, name, self._request, make=self._make)
                self._let_go()
                self._held = below
        except BaseException:
            self._let_go()
            raise
        return self._held

    def __exit__(self, *error: object) -> None:
        self._let_go()

    def _let_go(self) -> None:
        held, self._held = self._held, self._root
        if held != self._root:
            os.close(held)


def _step(parent: int, name: Name, request: Request, *, make: bool) -> int:
    try:
        return open_directory(parent, name)
    except NotADirectoryError:
        raise _not_a_directory(parent, name, request, make=make) from None
    except FileNotFoundError:
        if not make:
            raise
    make_directory(parent, name)
    try:
        return open_directory(parent, name)
    except NotADirectoryError:
        raise _not_a_directory(parent, name, request, make=make) from None


def make_directory(parent: int, name: Name, mode: int = 0o777) -> None:
    """Make a directory; one that is already there is fine."""
    with suppress(FileExistsError):
        try:
            os.mkdir(name, mode, dir_fd=parent)
        except PermissionError:
            unlock(parent)
            os.mkdir(name, mode, dir_fd=parent)


def _not_a_directory(
    parent: int, name: Name, request: Request, *, make: bool
) -> WorkspaceError:
    mode = entry_mode(parent, name).st_mode
    shown = os.fsencode(name).decode("utf-8", "backslashreplace")
    where = f"its part {shown!r}"
    if not stat.S_ISREG(mode):
        return request.refusal(mode, where)
    why = f"{where} is a file, so nothing can be below it; choose another directory"
    return request.error("exists" if make else "not_found", why)
