"""Files that an actor holds open for the pool's process, read and written in pieces."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kern_tools.faults import SnapshotError

if TYPE_CHECKING:
    from kern_tools.sandbox import Sandbox
    from kern_tools.snapshot import RestoreReport, SnapshotReport

PIECE_BYTES = 4 << 20


class HeldFiles:
    """Open files by number; one call at a time uses a file.

    Attributes:
        sandbox: Whose files they are.
    """

    sandbox: Sandbox

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[int, BinaryIO] = {}

    def open_file(self, path: str, first_bytes: int) -> tuple[int, int, bytes]:
        """Open a file of the workspace.

        Args:
            path: As in `Workspace.open_file`.
            first_bytes: How much to give at once.

        Returns:
            Its number, 0 where all of it is given; its size; its beginning.
        """
        file = self.sandbox.workspace.open_file(path)
        size = os.fstat(file.fileno()).st_size
        head = file.read(first_bytes)
        if len(head) == size:
            file.close()
            return 0, size, head
        return self._hold(file), size, head

    def read(self, number: int, offset: int, count: int) -> bytes:
        """Read a piece of a file."""
        file = self._open[number]
        file.seek(offset)
        return file.read(min(count, PIECE_BYTES))

    def let_go(self, number: int) -> None:
        """Close a file; one that is closed already is fine."""
        file = self._open.pop(number, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all."""
        for number in list(self._open):
            self.let_go(number)

    # -- snapshots that go through the pool's process

    def pack(self, max_bytes: int) -> tuple[int, SnapshotReport]:
        """Make a snapshot in a file of its own, to be read in pieces."""
        with tempfile.TemporaryDirectory(prefix="kern-tools-") as folder:
            path = Path(folder) / "snapshot.tar.gz"
            report = self.sandbox.snapshot(path, max_bytes=max_bytes)
            return self._hold(path.open("rb")), report

    def receive(self) -> int:
        """Begin a file that is sent in pieces."""
        descriptor, path = tempfile.mkstemp(prefix="kern-tools-")
        Path(path).unlink()
        return self._hold(os.fdopen(descriptor, "w+b"))

    def take(self, number: int, piece: bytes) -> None:
        """Add a piece to it."""
        self._open[number].write(piece)

    def restore(self, number: int, where: str, max_bytes: int) -> RestoreReport:
        """Put the files of the snapshot that was sent into the workspace.

        Args:
            number: Of the file.
            where: What it is called where it came from, for errors.
            max_bytes: As in `Sandbox.restore`.
        """
        file = self._open[number]
        file.flush()
        path = f"/proc/self/fd/{file.fileno()}"
        try:
            return self.sandbox.restore(path, max_bytes=max_bytes)
        except SnapshotError as error:
            message = str(error).replace(path, where)
            raise SnapshotError(message, code=error.code, location=where) from error

    def _hold(self, file: BinaryIO) -> int:
        number = next(self._numbers)
        self._open[number] = file
        return number
