"""Snapshots: a workspace as one file, to go on from later or on another host.

Only files and directories are kept, with their permissions and their times in whole
seconds. Links, pipes, sockets and devices are left out and counted. What runs in a box
and the names of a kernel are in no snapshot; nor is `.kern/`, nor any value of `env`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from .archive import CHUNK_BYTES, Reader, Writer, explained_damage
from .contents import LIMIT_BYTES, LIMIT_ENTRIES, Contents, Refusal, Tally
from .descriptors import explained, open_regular, read_at
from .faults import WorkspaceError
from .locations import (
    Location,
    check_outside,
    explained_location,
    named,
    read,
    remove,
    written,
)
from .names import public_name
from .origin import Origin
from .staging import Unpacking, finish_directories, meeting, move_in, staged
from .walking import Walk

if TYPE_CHECKING:
    from .config import SandboxConfig
    from .image import ImageRef
    from .workspace import Workspace

_DOWNLOAD_SPARE_BYTES = 64 << 20  # Names, headers, and what gzip adds to random bytes.


@dataclass(frozen=True, slots=True)
class SnapshotReport:
    """What a snapshot holds.

    Attributes:
        files: Regular files in it.
        bytes: What they add up to.
        left_out: Links, pipes, sockets and devices of the workspace, not in it.
        archive_bytes: The size of the snapshot itself.
    """

    files: int
    bytes: int
    left_out: int
    archive_bytes: int


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What a restore brought.

    Attributes:
        files: Regular files put into the workspace.
        bytes: What they add up to.
        notes: What is other here than where the snapshot was made, one sentence each.
        origin: What the snapshot says about where it was made.
    """

    files: int
    bytes: int
    notes: tuple[str, ...]
    origin: Origin


def save_snapshot(
    workspace: Workspace,
    target: Location,
    *,
    config: SandboxConfig | None = None,
    image: ImageRef | None = None,
    max_bytes: int = LIMIT_BYTES,
) -> SnapshotReport:
    """Save a workspace as one `.tar.gz`.

    Each file is saved as it is when its turn comes; take a snapshot between calls for
    files that fit together. One that fails leaves what was at `target` before.

    Args:
        workspace: What to save.
        target: A path, or a URL for fsspec; missing directories are made. On a path
            only you may read it. By URL it is uploaded whole and then moved, which is
            as atomic as that store's move.
        config: Options to tell in it; secrets are not.
        image: The image to tell in it.
        max_bytes: Refuse a workspace whose files add up to more.

    Returns:
        What is in it.

    Raises:
        SnapshotError: `too_large`, `changed`, or it cannot be written.
        WorkspaceError: A file cannot be read.
        ImportError: The URL needs a library that is not installed; the text names it.
    """
    where = named(target)
    info = Origin.here(config, image).model_dump_json().encode()
    check_outside(target, workspace.root)
    with (
        explained_damage("save", where),
        explained_location("save", where),
        written(target) as file,
        workspace.lent() as root,
    ):
        packing = _Packing(Writer(file, info), max_bytes)
        packing.pack(root)
        size = file.tell()
    return SnapshotReport(packing.files, packing.bytes, packing.left_out, size)


def restore_snapshot(
    workspace: Workspace,
    source: Location,
    *,
    config: SandboxConfig | None = None,
    image: ImageRef | None = None,
    max_bytes: int = LIMIT_BYTES,
) -> RestoreReport:
    """Put the files of a snapshot into a workspace, beside and over what is there.

    The whole snapshot is judged first, then unpacked aside, then moved in by renames,
    so that a snapshot that is refused changes nothing. Files of the same name are
    replaced, others stay. Nothing that the snapshot says about options is applied.

    Args:
        workspace: Where to put them; no call should run meanwhile.
        source: A path, or a URL for fsspec.
        config: Options to compare with those of the snapshot.
        image: The image to compare.
        max_bytes: Refuse a snapshot whose files add up to more.

    Returns:
        What was restored, and what is other here than where it was made.

    Raises:
        SnapshotError: `bad_snapshot`, `newer_format`, `too_large`, or it cannot be
            read.
        WorkspaceError: `exists` or `is_directory` where a file meets a directory, or
            the files cannot be written.
        ImportError: The URL needs a library that is not installed; the text names it.
    """
    where = named(source)
    with ExitStack() as held:
        with explained_location("restore", where):
            file = held.enter_context(read(source, max_bytes + _DOWNLOAD_SPARE_BYTES))
            with explained_damage("restore", where):
                origin, contents = _judged(file, max_bytes)
        root = held.enter_context(workspace.lent())
        with explained("restore a snapshot into", str(workspace.root)):
            both = meeting(root, contents)
            stage = held.enter_context(staged(root, workspace.root))
            with explained_damage("restore", where):
                _unpack(file, stage, contents, max_bytes)
            move_in(stage, root, contents, both)
            finish_directories(root, contents)
    here = Origin.here(config, image)
    files = contents.files
    size = sum(member.size for member in files)
    return RestoreReport(len(files), size, tuple(origin.notes(here)), origin)


def remove_snapshot(location: Location) -> bool:
    """Remove a snapshot that is not needed any more.

    Args:
        location: A path, or a URL for fsspec.

    Returns:
        Whether there was one. A store that reports no missing file says True.

    Raises:
        SnapshotError: It cannot be removed.
        ImportError: The URL needs a library that is not installed; the text names it.
    """
    with explained_location("remove", named(location)):
        return remove(location)


def _judged(file: BinaryIO, max_bytes: int) -> tuple[Origin, Contents]:
    reader, contents = Reader(file, max_bytes), Contents()
    origin = Origin.parsed(reader.info())
    for member in reader:
        contents.add(member)
    return origin, contents


def _unpack(file: BinaryIO, stage: int, contents: Contents, max_bytes: int) -> None:
    reader = Reader(file, max_bytes)
    reader.info()
    with closing(Unpacking(stage)) as unpacking:
        for member in reader:
            if contents.members.get(member.path) != member:
                raise Refusal("it changed while it was read", "changed")
            if member.is_directory:
                unpacking.add_directory(member)
            else:
                unpacking.add_file(member, reader.content())


class _Packing:
    """Writes what a walk finds into an archive, and counts."""

    def __init__(self, writer: Writer, max_bytes: int) -> None:
        self._writer = writer
        self._tally = Tally(max_bytes)
        self.files = self.bytes = self.left_out = 0

    def pack(self, root: int) -> None:
        with closing(Walk(root, limit=LIMIT_ENTRIES)) as walk:
            for prefix, directory, entries, first in walk:
                if first and prefix:
                    path = os.fsencode(prefix.removesuffix("/"))
                    self._tally.add(len(path), 0)
                    self._writer.add_directory(path, os.fstat(directory))
                for entry in entries:
                    self._pack_entry(directory, prefix, entry)
        if not walk.complete:
            most = f"{LIMIT_ENTRIES:,} files and directories"
            why = f"the workspace has more than {most}, or some too deep or not ours"
            raise Refusal(f"{why}; remove some first", "too_large")
        self._writer.finish()

    def _pack_entry(self, directory: int, prefix: str, entry: os.DirEntry[str]) -> None:
        path = prefix + entry.name
        with explained("save", public_name(path)) as request:
            try:
                if not entry.is_file(follow_symlinks=False):
                    self.left_out += 1
                    return
                file = open_regular(directory, entry.name, request)
            except FileNotFoundError:
                return
            except WorkspaceError:  # Swapped for something else since the listing.
                self.left_out += 1
                return
        try:
            self._pack_file(file, path)
        finally:
            os.close(file)

    def _pack_file(self, file: int, path: str) -> None:
        found, raw = os.fstat(file), os.fsencode(path)
        self._tally.add(len(raw), found.st_size)
        if found.st_size <= CHUNK_BYTES:
            whole = read_at(file, 0, found.st_size)
            self._writer.add_file(raw, found, len(whole), [whole])
            self.bytes += len(whole)
        else:
            pieces = _pieces(file, found.st_size, path)
            self._writer.add_file(raw, found, found.st_size, pieces)
            self.bytes += found.st_size
        self.files += 1


def _pieces(file: int, size: int, path: str) -> Iterator[bytes]:
    for offset in range(0, size, CHUNK_BYTES):
        wanted = min(CHUNK_BYTES, size - offset)
        piece = read_at(file, offset, wanted)
        if len(piece) != wanted:
            why = f"{public_name(path)!r} became shorter meanwhile; try between calls"
            raise Refusal(why, "changed")
        yield piece
