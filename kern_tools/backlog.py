"""A call's output on its way to one listener: bounded, in whole characters."""

from __future__ import annotations

import codecs
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from .events import OutputEvent, StreamName

_WAITING_BYTES = 1 << 20
_PIECE_BYTES = 1 << 16
_RUN_BYTES = 256  # what keeping a run apart from the next may cost
_INSIDE_CHARACTER = bytes(range(0x80, 0xC0))


@dataclass(slots=True)
class _Run:
    """Bytes of one stream without a gap, after those that were lost."""

    stream: StreamName
    data: bytearray
    dropped_bytes: int


class _Stream:
    """One stream's way from bytes to text."""

    def __init__(self, most_bytes: int | None) -> None:
        self.room = most_bytes
        self.gap_bytes = 0  # lost, and not yet told
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def decode(self, data: bytes, dropped_bytes: int) -> tuple[str, int]:
        """Give the text, and what was lost with the parts of cut characters."""
        if dropped_bytes:
            dropped_bytes += self._forget()
            whole = data.lstrip(_INSIDE_CHARACTER)
            dropped_bytes += len(data) - len(whole)
            data = whole
        return self._decoder.decode(data), dropped_bytes

    def end(self) -> tuple[str, int]:
        """Give what is left at the end of the stream."""
        gap_bytes, self.gap_bytes = self.gap_bytes, 0
        if gap_bytes:
            return "", gap_bytes + self._forget()
        return self._decoder.decode(b"", final=True), 0

    def _forget(self) -> int:
        begun, _ = self._decoder.getstate()
        self._decoder.reset()
        return len(begun)


class Backlog:
    """What a listener has yet to take; `put` and `end` never wait for it.

    At most 1 MiB waits. What comes while it is full is lost and counted, until half
    of it was taken.

    Args:
        call_id: The call that the events are of.
        wake: Called when there is something to take again, and at the end; from the
            engine's thread, so it must be quick and raise nothing.
        most_bytes: Give no more than this of each stream; the rest counts as lost.
    """

    def __init__(
        self,
        call_id: str,
        wake: Callable[[], object],
        *,
        most_bytes: int | None = None,
    ) -> None:
        self._call_id = call_id
        self._wake = wake
        self._lock = threading.RLock()
        self._runs: deque[_Run] = deque()
        self._waiting_bytes = 0
        self._is_full = False
        self._ended = False
        self._streams: dict[StreamName, _Stream] = {
            "stdout": _Stream(most_bytes),
            "stderr": _Stream(most_bytes),
        }
        self._unended: list[StreamName] = ["stdout", "stderr"]

    def put(self, stream: StreamName, chunk: bytes) -> None:
        """Take what arrived, as far as there is room."""
        with self._lock:
            if self._ended:
                return
            was_empty = not self._runs
            state = self._streams[stream]
            kept = chunk[: self._room(state, len(chunk))]
            if kept:
                self._keep(stream, state, kept)
            state.gap_bytes += len(chunk) - len(kept)
        if was_empty and kept:
            self._wake()

    def lose(self, stream: StreamName, count: int) -> None:
        """Count bytes as lost that never got here, before what is put next."""
        with self._lock:
            self._streams[stream].gap_bytes += count

    def _room(self, state: _Stream, wanted_bytes: int) -> int:
        if self._is_full and self._waiting_bytes > _WAITING_BYTES // 2:
            return 0
        room = max(0, _WAITING_BYTES - self._waiting_bytes - _RUN_BYTES)
        self._is_full = wanted_bytes > room
        return room if state.room is None else min(room, state.room)

    def _keep(self, stream: StreamName, state: _Stream, kept: bytes) -> None:
        last = self._runs[-1] if self._runs else None
        if last is not None and last.stream == stream and not state.gap_bytes:
            last.data += kept
        else:
            self._runs.append(_Run(stream, bytearray(kept), state.gap_bytes))
            state.gap_bytes = 0
            self._waiting_bytes += _RUN_BYTES
        self._waiting_bytes += len(kept)
        if state.room is not None:
            state.room -= len(kept)

    def end(self) -> None:
        """Note that nothing more will come."""
        with self._lock:
            self._ended = True
        self._wake()

    def drop(self) -> int:
        """Lose all that waits and all that may come; give how much waited."""
        with self._lock:
            lost_bytes = sum(len(run.data) for run in self._runs)
            self._runs.clear()
            self._unended.clear()
            self._ended = True
        self._wake()
        return lost_bytes

    @property
    def is_over(self) -> bool:
        """Everything was taken, and nothing more will come."""
        with self._lock:
            return self._ended and not self._runs and not self._unended

    def take(self) -> OutputEvent | None:
        """Give the next piece, or None where there is none yet, or no more."""
        with self._lock:
            while self._runs:
                stream, data, dropped_bytes = self._next_bytes()
                told = self._streams[stream].decode(data, dropped_bytes)
                if any(told):
                    return OutputEvent(self._call_id, stream, *told)
            while self._ended and self._unended:
                stream = self._unended.pop(0)
                told = self._streams[stream].end()
                if any(told):
                    return OutputEvent(self._call_id, stream, *told)
        return None

    def _next_bytes(self) -> tuple[StreamName, bytes, int]:
        run = self._runs[0]
        data = bytes(run.data[:_PIECE_BYTES])
        del run.data[:_PIECE_BYTES]
        dropped_bytes, run.dropped_bytes = run.dropped_bytes, 0
        self._waiting_bytes -= len(data)
        if not run.data:
            self._runs.popleft()
            self._waiting_bytes -= _RUN_BYTES
        return run.stream, data, dropped_bytes
