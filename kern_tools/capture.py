"""One output stream of a call: kept up to a cap, counted to its end."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable

_SCRATCH = bytearray(1 << 18)  # read into by the engine thread only
_VIEW = memoryview(_SCRATCH)
_READS_A_PASS = 16
_REST_BYTES = 2 << 20
"""More than a pipe holds: who goes on writing after the end is not heard out."""
_PIPE_BYTES = 1 << 14


class Capture:
    """The host's end of one pipe, read without blocking.

    Attributes:
        writer: The end for the box; close it with `close_writer` once handed over.
        total_bytes: How much was written so far, the discarded part included.
    """

    def __init__(
        self, cap_bytes: int, on_chunk: Callable[[bytes], None] | None = None
    ) -> None:
        self.reader = self.writer = -1
        self.total_bytes = 0
        self._cap = cap_bytes
        self._kept = bytearray()
        self._on_chunk = on_chunk

    def open(self) -> None:
        """Make the pipe; until then the capture holds no descriptor."""
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.reader, False)  # the box's end blocks, as programs expect

    def drain(self) -> bool:
        """Take what is there, up to a bound; False once every writer is gone."""
        for _ in range(_READS_A_PASS):
            try:
                count = os.readv(self.reader, [_SCRATCH])
            except BlockingIOError:
                return True
            if count == 0:
                return False
            self._take(_VIEW[:count])
        return True

    def drain_rest(self) -> None:
        """Take what was written before now; from any thread that has it to itself."""
        most_bytes = self.total_bytes + _REST_BYTES
        while self.reader >= 0 and self.total_bytes < most_bytes:
            try:
                chunk = os.read(self.reader, _PIPE_BYTES)
            except BlockingIOError:
                return
            if not chunk:
                return
            self._take(chunk)

    def _take(self, chunk: bytes | memoryview) -> None:
        self.total_bytes += len(chunk)
        room = self._cap - len(self._kept)
        if room > 0:
            self._kept += chunk[:room]
        if self._on_chunk is not None:
            self._on_chunk(bytes(chunk))

    def take_kept(self) -> bytes:
        """Give what was kept, and keep it no longer."""
        kept = bytes(self._kept)
        self._kept.clear()
        return kept

    @property
    def truncated(self) -> bool:
        """More was written than the cap keeps."""
        return self.total_bytes > len(self._kept)

    def text(self) -> tuple[str, bool]:
        """Give the kept part as text, and whether invalid bytes were replaced.

        A character that the cap cut in two is dropped whole.
        """
        if not self._kept:
            return "", False
        decoder = codecs.getincrementaldecoder("utf-8")("strict")
        try:
            return decoder.decode(self._kept, final=not self.truncated), False
        except UnicodeDecodeError:
            replacing = codecs.getincrementaldecoder("utf-8")("replace")
            return replacing.decode(self._kept, final=not self.truncated), True

    def close_writer(self) -> None:
        """Close the box's end in this process."""
        writer, self.writer = self.writer, -1  # first: an interrupt may come in between
        if writer >= 0:
            os.close(writer)

    def close(self) -> None:
        """Close both ends."""
        self.close_writer()
        reader, self.reader = self.reader, -1
        if reader >= 0:
            os.close(reader)
