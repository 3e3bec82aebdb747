"""Output given to a callback while it arrives, without ever holding up the box."""

from __future__ import annotations

import codecs
import threading
import warnings
from collections import deque
from collections.abc import Callable

OnText = Callable[[str], object]
_WAITING_BYTES = 1 << 20


class Feed:
    """Hands one stream's text to a callback, on a thread of its own.

    A callback that is too slow loses pieces: at most 1 MiB waits for it. One that
    raises is not called again, and a `RuntimeWarning` names what it raised.

    Attributes:
        dropped_bytes: How much the callback never saw.
    """

    def __init__(self, callback: OnText) -> None:
        self.dropped_bytes = 0
        self._callback = callback
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pieces: deque[str | None] = deque()
        self._waiting = 0
        self._changed = threading.Condition()
        self._error: Exception | None = None
        self._thread = threading.Thread(
            target=self._deliver, name="kern-tools-feed", daemon=True
        )
        self._thread.start()

    def put(self, chunk: bytes) -> None:
        """Take a chunk from the engine thread; whole code points go on."""
        with self._changed:
            if self._error is not None or self._waiting > _WAITING_BYTES:
                self.dropped_bytes += len(chunk)
                return
            text = self._decoder.decode(chunk)
            if text:
                self._pieces.append(text)
                self._waiting += len(chunk)
                self._changed.notify()

    def close(self) -> None:
        """Wait until the callback has seen the rest."""
        with self._changed:
            last = self._decoder.decode(b"", final=True)
            self._pieces.extend([last, None] if last else [None])
            self._changed.notify()
        self._thread.join()
        if self._error is not None:
            warnings.warn(
                f"an output callback raised {self._error!r} and was not called again",
                RuntimeWarning,
                stacklevel=2,
            )

    def _deliver(self) -> None:
        while (piece := self._next()) is not None:
            if self._error is not None:
                continue
            try:
                self._callback(piece)
            except Exception as error:
                self._error = error

    def _next(self) -> str | None:
        with self._changed:
            while not self._pieces:
                self._changed.wait()
            piece = self._pieces.popleft()
            self._waiting = 0 if not self._pieces else self._waiting - len(piece or "")
            return piece
