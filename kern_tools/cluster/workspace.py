"""The files of a sandbox on a node of the cluster."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from kern_tools.descriptors import Request

from .held import PIECE_BYTES
from .link import Link

if TYPE_CHECKING:
    from kern_tools.listing import Files, Scan

SEND_LIMIT_BYTES = 256 << 20
"""What one `write_file` may hold: it crosses the network in one piece."""
_HEAD_BYTES = 256 << 10


class RemoteWorkspace:
    """As `Workspace`, of another node; each method raises what that one raises there.

    Attributes:
        root: The directory on its node.
    """

    def __init__(self, link: Link, root: Path) -> None:
        self.root = root
        self._link = link

    def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Read a whole file."""
        data: bytes = self._ask("read_file", path, max_bytes=max_bytes)
        return data

    def read_range(self, path: str, *, offset_bytes: int, limit_bytes: int) -> bytes:
        """Read a part of a file."""
        part = {"offset_bytes": offset_bytes, "limit_bytes": limit_bytes}
        data: bytes = self._ask("read_range", path, **part)
        return data

    def open_file(self, path: str) -> BinaryIO:
        """Open a file to read it in pages; a page is fetched when it is read."""
        number, size, head = self._link.ask("held", "open_file", path, _HEAD_BYTES)
        if number == 0:
            return io.BytesIO(head)
        raw = _RemoteFile(self._link, number, size, head)
        return cast("BinaryIO", io.BufferedReader(raw, _HEAD_BYTES))

    def write_file(self, path: str, data: str | bytes) -> None:
        """Write a file, making the directories above it.

        Raises:
            WorkspaceError: `too_large` where it has more than `SEND_LIMIT_BYTES`.
        """
        if len(data) > SEND_LIMIT_BYTES:
            why = (
                f"it has {len(data)} bytes or characters, more than the"
                f" {SEND_LIMIT_BYTES} that are sent to a node at once; write several"
            )
            raise Request("write", path).error("too_large", why)
        self._ask("write_file", path, data)

    def list_files(self, path: str = "", *, limit: int | None = None) -> Files:
        """List the regular files below a directory, sorted by path."""
        found: Files = self._ask("list_files", path, limit=limit)
        return found

    def scan(self) -> Scan:
        """Take the marks of all files."""
        found: Scan = self._ask("scan")
        return found

    def spill(self, call_id: str, text: str) -> str:
        """Keep the whole output of a call for the tools to read."""
        path: str = self._ask("spill", call_id, text)
        return path

    def keep_image(self, call_id: str, number: int, mime: str, data: bytes) -> str:
        """Keep an image of a call for later calls and tools."""
        path: str = self._ask("keep_image", call_id, number, mime, data)
        return path

    def usage_bytes(self, stop_over: int | None = None) -> int:
        """Add up the disk space that the workspace takes on its node."""
        total: int = self._ask("usage_bytes", stop_over)
        return total

    def _ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        return self._link.ask("files", method, *arguments, **options)


class _RemoteFile(io.RawIOBase):
    """A file that is held open on its node, as it was when it was opened."""

    def __init__(self, link: Link, number: int, size: int, head: bytes) -> None:
        self._link = link
        self._number = number
        self._size = size
        self._head = head
        self._offset = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._size}
        self._offset = max(0, start[whence] + offset)
        return self._offset

    def tell(self) -> int:
        return self._offset

    def readinto(self, buffer: Any) -> int:
        piece = self._piece(len(buffer))
        buffer[: len(piece)] = piece
        self._offset += len(piece)
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            self._link.leave("held", "let_go", self._number)
        super().close()

    def _piece(self, wanted: int) -> bytes:
        count = min(wanted, self._size - self._offset, PIECE_BYTES)
        if count <= 0:
            return b""
        held = self._head[self._offset : self._offset + count]
        if held:
            return held
        piece: bytes = self._link.ask("held", "read", self._number, self._offset, count)
        return piece
