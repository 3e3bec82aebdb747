"""Look at the whole workspace: what is there, what changed, how much disk it takes.

Entries may vanish or change at any moment; what is gone is left out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from .descriptors import Request, directory_at, entry_mode, unlock
from .names import PRIVATE_DIR, public_name
from .result import FileInfo
from .walking import Found, Walk

_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system uses

Mark = tuple[int, int, int, int]
"""`mtime_ns`, size in bytes, inode, `ctime_ns`: any write changes at least one."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The regular files of a workspace at one moment.

    Attributes:
        entries: Path, as `os.scandir` spells it, to its mark.
        complete: False where files were left out: too many, or not ours to read.
    """

    entries: Mapping[str, Mark]
    complete: bool = True


class Files(list[FileInfo]):
    """Files sorted by path, perhaps the first of many.

    Attributes:
        total: How many there are, also when the list holds fewer.
        complete: False where files could not be looked at and `total` is a lower bound.
    """

    def __init__(
        self, files: Iterable[FileInfo], *, total: int, complete: bool
    ) -> None:
        super().__init__(files)
        self.total = total
        self.complete = complete


def scan_tree(root: int, prefix: str = "", *, limit: int) -> Scan:
    """Take the mark of every regular file below a descriptor.

    Args:
        root: Descriptor of the directory to start in.
        prefix: What the paths begin with, empty or ending in `/`.
        limit: Stop after this many files and directories.

    Returns:
        The marks by path.
    """
    with closing(Walk(root, prefix, limit=limit)) as walk:
        return Scan(marks_of(walk), complete=walk.complete)


def marks_of(walk: Iterable[Found]) -> dict[str, Mark]:
    """Take the mark of every regular file on a walk, by path."""
    marks: dict[str, Mark] = {}
    for below, descriptor, entries, _ in walk:
        for entry in entries:
            if not entry.is_file(follow_symlinks=False):
                continue
            found = _looked_at(entry, descriptor)
            if found is not None and stat.S_ISREG(found.st_mode):
                marks[below + entry.name] = mark_of(found)
    return marks


def scan_below(
    root: int, names: tuple[bytes, ...], request: Request, *, limit: int
) -> Scan:
    """Take the marks below a directory of the workspace, or of one file.

    Args:
        root: Descriptor of the workspace.
        names: The raw names on the way; none for all of it.
        request: Explains what is neither a directory nor a regular file.
        limit: Stop after this many files and directories.

    Returns:
        The marks by path, relative to the workspace.
    """
    if not names:
        return scan_tree(root, limit=limit)
    spelled = [os.fsdecode(name) for name in names]
    if spelled[0] == PRIVATE_DIR:
        return Scan({})
    with directory_at(root, names[:-1], request) as parent:
        found = entry_mode(parent, names[-1])
    if stat.S_ISREG(found.st_mode):
        return Scan({"/".join(spelled): mark_of(found)})
    if not stat.S_ISDIR(found.st_mode):
        raise request.refusal(found.st_mode)
    with directory_at(root, names, request) as directory:
        return scan_tree(directory, "/".join([*spelled, ""]), limit=limit)


def mark_of(found: os.stat_result) -> Mark:
    """Keep of a file's status what tells two versions of it apart."""
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns


def _looked_at(entry: os.DirEntry[str], descriptor: int) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    except PermissionError:
        unlock(descriptor)
    try:
        return entry.stat(follow_symlinks=False)
    except (FileNotFoundError, PermissionError):
        return None


def listed(scan: Scan, limit: int | None) -> Files:
    """Turn a scan into what a person or a model is told."""
    names = {public_name(name): mark[1] for name, mark in scan.entries.items()}
    files = (FileInfo(path=path, size=names[path]) for path in sorted(names)[:limit])
    return Files(files, total=len(names), complete=scan.complete)


def compared(before: Scan, after: Scan, limit: int | None) -> Files:
    """Tell what was created or modified between two scans."""
    return told(before.entries, after, before.complete, limit)


def told(
    before: Mapping[str, Mark | None], after: Scan, knew_all: bool, limit: int | None
) -> Files:
    """Tell what was created or modified.

    Args:
        before: The earlier marks; None or no entry where there was no file.
        after: The later ones.
        knew_all: Every earlier file was known; else none is called created.
        limit: Give only the first ones; `total` still counts all.
    """
    changed: dict[str, FileInfo] = {}
    total = 0
    for name, mark in after.entries.items():
        old = before.get(name)
        if old == mark or (old is None and not knew_all):
            continue
        total += 1
        path = public_name(name)
        changed[path] = FileInfo(
            path=path,
            size=mark[1],
            change="created" if old is None else "modified",
        )
    files = [changed[path] for path in sorted(changed)[:limit]]
    return Files(files, total=total, complete=knew_all and after.complete)


def tree_bytes(root: int, stop_over: int | None, *, limit: int) -> tuple[int, bool]:
    """Add up the disk blocks of everything below a descriptor, hard links once.

    Args:
        root: Descriptor of the directory to start in.
        stop_over: Stop as soon as the sum is greater.
        limit: Stop after this many files and directories.

    Returns:
        The bytes found, and whether nothing was left out.
    """
    total = 0
    linked: set[tuple[int, int]] = set()
    with closing(Walk(root, limit=limit, everything=True)) as walk:
        for _, descriptor, entries, first in walk:
            if first:
                total += os.fstat(descriptor).st_blocks * _BLOCK_BYTES
            for entry in entries:
                found = _looked_at(entry, descriptor)
                if found is None:
                    continue
                if found.st_nlink > 1:
                    inode = found.st_dev, found.st_ino
                    if inode in linked:
                        continue
                    linked.add(inode)
                total += found.st_blocks * _BLOCK_BYTES
            if stop_over is not None and total > stop_over:
                return total, False
        return total, walk.complete
