"""Copy files of a workspace to the host, following no link on either side."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from .contents import LIMIT_BYTES
from .descriptors import Request, explained
from .names import (
    NAME_LIMIT_BYTES,
    PRIVATE_DIR,
    TEMPORARY_PREFIX,
    parts_of,
    shown_name,
)
from .quantities import size as spelled_size
from .writing import CREATE, write_all

if TYPE_CHECKING:
    from .workspace import Workspace

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 20
_SUFFIX_LENGTH = 16


def export_files(
    workspace: Workspace,
    folder: str | os.PathLike[str],
    paths: Sequence[str] = (),
    *,
    overwrite: bool = False,
    max_bytes: int = LIMIT_BYTES,
) -> list[Path]:
    r"""Copy regular files of a workspace to a folder of the host.

    The names of files are chosen by code: control and bidi characters and bytes that
    are not UTF-8 become escapes such as `\x0a`, and a name too long for the host is cut
    and told apart by a hash. Copies are new files with the host's usual permissions,
    never executable. Names that a program of the host acts on, such as `.git` or
    `conftest.py`, are kept: give a folder of its own.

    Args:
        workspace: Where the files are.
        folder: Where to put them, made if missing.
        paths: Files, and directories to take with all below them; everything in the
            workspace where there are none. `.kern/` is left out, but for a file of it
            that is named.
        overwrite: Replace files that are there; links and directories never are.
        max_bytes: Refuse files that add up to more.

    Returns:
        The copies, in the order of `paths`, then by name.

    Raises:
        WorkspaceError: `exists` where a copy's name is taken, `not_regular` where a
            link is in the way, or a file cannot be read or written. What is in the way
            is found before anything is copied.
    """
    place = Path(folder)
    sources = _sources(workspace, paths, max_bytes)
    targets = {path: _host_names(path) for path in sources}
    with explained("export to", str(place)) as request:
        if place.resolve().is_relative_to(workspace.root):
            raise request.error("outside", "it is inside the workspace; choose another")
        place.mkdir(parents=True, exist_ok=True)
        held = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for names in targets.values():
            _check_free(held, place, names, overwrite=overwrite)
        for path, names in targets.items():
            with workspace.open_file(path) as file:
                max_bytes -= _copy(file, held, place, names, max_bytes, overwrite)
    finally:
        os.close(held)
    return [place.joinpath(*names) for names in targets.values()]


def _sources(workspace: Workspace, paths: Sequence[str], max_bytes: int) -> list[str]:
    """List what to copy, each file once, while it is no more than allowed."""
    sizes: dict[str, int] = {}
    for path in paths or ("",):
        request = Request("export", path or "the workspace")
        if parts_of(path)[:1] == (PRIVATE_DIR.encode(),):
            sizes[path] = 0  # Never listed; whether it is a file is seen at opening.
            continue
        found = workspace.list_files(path)
        if not found.complete:
            why = "it has too many files, or some that are not ours; name fewer"
            raise request.error("too_large", why)
        sizes.update((file.path, file.size) for file in found)
        if sum(sizes.values()) > max_bytes:
            raise _too_large(request, max_bytes)
    return list(sizes)


def _host_names(path: str) -> tuple[str, ...]:
    parts = path.removeprefix("/workspace/").split("/")
    return tuple(_host_name(part) for part in parts if part not in {"", "."})


def _host_name(part: str) -> str:
    name = shown_name(part)
    if len(name.encode()) <= NAME_LIMIT_BYTES:
        return name
    suffix = PurePosixPath(name).suffix
    suffix = suffix if len(suffix) <= _SUFFIX_LENGTH and suffix.isascii() else ""
    ending = f"-{hashlib.sha256(name.encode()).hexdigest()[:8]}{suffix}"
    kept = name.encode()[: NAME_LIMIT_BYTES - len(ending)].decode("utf-8", "ignore")
    return kept + ending


def _check_free(
    folder: int, place: Path, names: tuple[str, ...], *, overwrite: bool
) -> None:
    """Find out whether a copy may have its name."""
    target = place.joinpath(*names)
    with explained("export to", str(target)) as request, suppress(FileNotFoundError):
        with _directory_at(folder, names[:-1], request, make=False) as parent:
            found = os.stat(names[-1], dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            raise request.refusal(found.st_mode)
        if not overwrite:
            why = "it exists; give overwrite=True or another folder"
            raise request.error("exists", why)


def _copy(
    file: BinaryIO,
    folder: int,
    place: Path,
    names: tuple[str, ...],
    most_bytes: int,
    overwrite: bool,
) -> int:
    """Copy one file under its name in the folder; returns how many bytes it has."""
    with (
        explained("export to", str(place.joinpath(*names))) as request,
        _directory_at(folder, names[:-1], request, make=True) as parent,
    ):
        if file.seek(0, os.SEEK_END) > most_bytes:
            raise _too_large(request, most_bytes)
        name = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}" if overwrite else names[-1]
        file.seek(0)
        copied = _write(file, parent, name, most_bytes)
        if overwrite:
            _replace(parent, name, names[-1])
        return copied


def _write(source: BinaryIO, parent: int, name: str, most_bytes: int) -> int:
    descriptor = os.open(name, CREATE, 0o666, dir_fd=parent)
    copied = 0
    try:
        try:
            while piece := source.read(min(_CHUNK_BYTES, most_bytes - copied)):
                write_all(descriptor, piece)
                copied += len(piece)
        finally:
            os.close(descriptor)
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=parent)
        raise
    return copied


def _replace(parent: int, temporary: str, name: str) -> None:
    try:
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=parent)
        raise


@contextmanager
def _directory_at(
    folder: int, names: tuple[str, ...], request: Request, *, make: bool
) -> Generator[int]:
    """Walk down a folder of the host, changing the permissions of nothing there."""
    held = os.dup(folder)
    try:
        for name in names:
            below = _step(held, name, request, make=make)
            os.close(held)
            held = below
        yield held
    finally:
        os.close(held)


def _step(parent: int, name: str, request: Request, *, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except NotADirectoryError:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISREG(found.st_mode):
            why = f"its part {name!r} is a file; choose another folder"
            raise request.error("exists", why) from None
        raise request.refusal(found.st_mode, f"its part {name!r}") from None


def _too_large(request: Request, max_bytes: int) -> Exception:
    most = spelled_size(max_bytes)
    return request.error("too_large", f"it is more than {most}; give max_bytes")
