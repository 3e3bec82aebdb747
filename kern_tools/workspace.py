"""The host side of a workspace: a directory that hostile code can write at any time.

Nothing here follows a link, waits on a pipe, or reaches a file outside, whatever the
box planted and whenever it swaps it. Paths are spelled as `names` describes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self

from .descriptors import (
    HeldDirectory,
    Request,
    directory_at,
    explained,
    open_regular,
    read_at,
)
from .listing import (
    Files,
    Scan,
    compared,
    listed,
    scan_below,
    scan_tree,
    tree_bytes,
)
from .names import file_names, parts_of
from .ownership import owned_folder
from .removal import remove_directory
from .spilling import write_image, write_spill
from .tracking import Moment, Tracking
from .writing import encoded, existing_file, replace_file

READ_LIMIT_BYTES = 256 << 20
"""What `read_file` reads at most where no `max_bytes` is given."""
SCAN_LIMIT_ENTRIES = 250_000
"""Files and directories that a scan looks at before it gives up being complete."""
USAGE_LIMIT_ENTRIES = 2_000_000
"""Files and directories that are measured; more count as over any bound."""
CHANGES_LIMIT_FILES = 1000
"""Changed files told one by one; the true count is kept."""


class Workspace:
    """One directory, seen by the box as `/workspace`; usable from any thread.

    Every method raises `WorkspaceError` for a path or file that cannot be used, with
    the reason in `code`, and `SandboxClosed` after `close`.

    Attributes:
        root: The directory on the host.
        owned: Whether `close` removes it.
    """

    def __init__(self, root: Path, *, owned: bool) -> None:
        self.root = root.resolve()
        self.owned = owned
        self._process = os.getpid()
        with explained("open", str(root)):
            self._directory = HeldDirectory(self.root)
        self._tracking = Tracking(self._directory, limit=SCAN_LIMIT_ENTRIES)

    @classmethod
    def create(cls) -> Self:
        """Make a private, empty workspace that `close` removes."""
        with explained("make a workspace in", tempfile.gettempdir()):
            root = owned_folder("ws")
        return cls(root, owned=True)

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Self:
        """Use a directory of yours, made if missing and never removed."""
        root = Path(path)
        with explained("use", str(root)) as request:
            try:
                root.mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                why = "it, or a part of it, is a file; give a directory"
                raise request.error("exists", why) from None
        return cls(root, owned=False)

    def __repr__(self) -> str:
        state = "closed" if self._directory.closed else "open"
        return f"<{type(self).__name__} {str(self.root)!r}, {state}>"

    def close(self) -> None:
        """Remove the directory where it is ours; calling it again does nothing.

        What cannot be removed is logged, never raised. A forked child of the process
        that opened the workspace removes nothing.
        """
        descriptor = self._directory.give_up()
        if descriptor is None:
            return
        self._tracking.close()
        try:
            if self.owned and os.getpid() == self._process:
                remove_directory(self.root, descriptor)
        finally:
            os.close(descriptor)

    def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Read a whole file.

        Args:
            path: Relative to the workspace, or below `/workspace`.
            max_bytes: Refuse a greater file; `READ_LIMIT_BYTES` where it is None.

        Returns:
            The bytes, up to the size that the file had when it was opened.

        Raises:
            WorkspaceError: `too_large`, or the file cannot be read.
        """
        most = READ_LIMIT_BYTES if max_bytes is None else max_bytes
        with explained("read", path) as request, self._opened(path, request) as file:
            size = os.fstat(file).st_size
            if size > most:
                why = f"it has {size} bytes, more than the {most} allowed; read a part"
                raise request.error("too_large", why)
            return read_at(file, 0, size)

    def read_range(self, path: str, *, offset_bytes: int, limit_bytes: int) -> bytes:
        """Read a part of a file.

        Args:
            path: Relative to the workspace, or below `/workspace`.
            offset_bytes: Where to begin; at or after the end there is nothing.
            limit_bytes: How much to read at most.

        Returns:
            The bytes of the part.

        Raises:
            WorkspaceError: The file cannot be read.
            ValueError: An argument is negative.
        """
        if offset_bytes < 0 or limit_bytes < 0:
            raise ValueError(
                f"offset_bytes={offset_bytes!r} and limit_bytes={limit_bytes!r} "
                "cannot be negative: give 0 or more"
            )
        with explained("read", path) as request, self._opened(path, request) as file:
            left = os.fstat(file).st_size - offset_bytes
            if left <= 0:
                return b""
            return read_at(file, offset_bytes, min(left, limit_bytes))

    def open_file(self, path: str) -> BinaryIO:
        """Open a file to read it in pages; the caller closes it.

        Args:
            path: Relative to the workspace, or below `/workspace`.

        Returns:
            A binary file, seekable and read-only.

        Raises:
            WorkspaceError: The file cannot be read.
        """
        with explained("read", path) as request, self._opened(path, request) as file:
            return os.fdopen(os.dup(file), "rb")

    @contextmanager
    def lent(self) -> Generator[int]:
        """Lend a descriptor of the directory, good until the end of the block."""
        with self._directory.lent() as root:
            yield root

    @contextmanager
    def _opened(self, path: str, request: Request) -> Generator[int]:
        names = file_names(path)
        with (
            self._directory.lent() as root,
            directory_at(root, names[:-1], request) as parent,
        ):
            descriptor = open_regular(parent, names[-1], request)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def write_file(self, path: str, data: str | bytes) -> None:
        """Write a file, making the directories above it.

        The new content replaces the old in one step, so code in the box reads one or
        the other. Permissions of a file that was there are kept; links, pipes and other
        things that are not regular files are refused.

        Args:
            path: Relative to the workspace, or below `/workspace`.
            data: Bytes, or text to store as UTF-8 with its newlines as they are.

        Raises:
            WorkspaceError: `bad_data` for text with lone surrogates, or the file cannot
                be written.
        """
        with explained("write", path) as request:
            content = encoded(data, request)
            names = file_names(path)
            with (
                self._directory.lent() as root,
                directory_at(root, names[:-1], request, make=True) as parent,
            ):
                old = existing_file(parent, names[-1], request)
                replace_file(parent, names[-1], content, like=old)

    def spill(self, call_id: str, text: str) -> str:
        """Keep the whole output of a call for the tools to read; the last 20 stay.

        Args:
            call_id: Names the file; odd characters are replaced.
            text: What to keep, stored as UTF-8.

        Returns:
            The path, relative to the workspace.

        Raises:
            WorkspaceError: The file cannot be written.
        """
        with explained("keep the output of", call_id), self._directory.lent() as root:
            return write_spill(root, call_id, text)

    def keep_image(self, call_id: str, number: int, mime: str, data: bytes) -> str:
        """Keep an image of a call for later calls and tools; the last 20 stay.

        Args:
            call_id: Names the file; odd characters are replaced.
            number: Which image of the call it is.
            mime: `image/png` or `image/jpeg`.
            data: The file as it is.

        Returns:
            The path, relative to the workspace.

        Raises:
            WorkspaceError: The file cannot be written.
            ValueError: Images of that type are not kept.
        """
        with explained("keep an image of", call_id), self._directory.lent() as root:
            return write_image(root, call_id, number, mime, data)

    def list_files(self, path: str = "", *, limit: int | None = None) -> Files:
        """List the regular files below a directory, sorted by path.

        Args:
            path: The directory, or a file to list alone; empty for the workspace.
            limit: Give only the first ones; `total` still counts all.

        Returns:
            Their paths, relative to the workspace, and sizes in bytes.

        Raises:
            WorkspaceError: There is no such directory.
        """
        with explained("list", path) as request, self._directory.lent() as root:
            found = scan_below(root, parts_of(path), request, limit=SCAN_LIMIT_ENTRIES)
            return listed(found, limit)

    def scan(self) -> Scan:
        """Take a snapshot to compare with later, by `changes`."""
        with explained("scan", str(self.root)), self._directory.lent() as root:
            return scan_tree(root, limit=SCAN_LIMIT_ENTRIES)

    def changes(
        self, before: Scan, *, limit: int | None = CHANGES_LIMIT_FILES
    ) -> Files:
        """Tell which files were created or modified since a scan, sorted by path.

        Args:
            before: What `scan` gave earlier.
            limit: Give only the first ones; `total` still counts all.

        Returns:
            The files with `change` set. Removed ones are not told.
        """
        return compared(before, self.scan(), limit)

    def now(self) -> Moment:
        """Begin to note changes, for `changes_since`; `forget` it when done."""
        with explained("scan", str(self.root)):
            return self._tracking.now()

    def changes_since(
        self, moment: Moment, *, limit: int | None = CHANGES_LIMIT_FILES
    ) -> Files:
        """Tell which files were created or modified since a moment, as `changes`."""
        with explained("scan", str(self.root)):
            return self._tracking.since(moment, limit)

    def forget(self, moment: Moment) -> None:
        """Note changes since a moment no longer."""
        self._tracking.forget(moment)

    def usage_bytes(self, stop_over: int | None = None) -> int:
        """Add up the disk space that the workspace takes, hard links counted once.

        Files that were removed while code holds them open are not seen.

        Args:
            stop_over: Stop counting as soon as the sum is greater.

        Returns:
            Bytes allocated on disk. Greater than `stop_over` also where a tree is
            too deep, too many-branched, or too locked, to be measured.
        """
        with explained("measure", str(self.root)), self._directory.lent() as root:
            total, complete = tree_bytes(root, stop_over, limit=USAGE_LIMIT_ENTRIES)
        if stop_over is None or complete:
            return total
        return max(total, stop_over + 1)
