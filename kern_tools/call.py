"""One call on its way through a box: what to run, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .capture import Capture
from .frames import MAX_RESULTS, MAX_RESULTS_BYTES, rich_result
from .result import RichResult
from .verdict import EndedBy, Evidence

if TYPE_CHECKING:
    from .service import Service

Chunk = Callable[[bytes], None]
Lost = Literal["names", "files"]
"""What an earlier sandbox of the same conversation took with it; files with names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What to run: a Python cell, or a command with an optional script.

    Attributes:
        language: `python` for a cell; anything else becomes the command.
        code: The cell, or a script too long for a command line.
        argv: The command; empty for a cell.
    """

    language: str
    code: str | None = None
    argv: tuple[str, ...] = ()

    @property
    def is_cell(self) -> bool:
        """The code runs in the driver itself."""
        return self.language == "python"

    def as_request(self) -> dict[str, object]:
        """Give the driver's view of it."""
        return {"language": self.language, "code": self.code, "argv": list(self.argv)}


class Call:
    """The engine's record of one call.

    Attributes:
        done: Resolves to the `Evidence` once the box is gone and the streams are read.
        ended_by: Our own reason to end it, set before the kill.
        exit_code: What the driver said, or minus the signal of a child.
        notes: What kern said, for people.
        stray_stderr: What came after it on the same stream, of a command in an image
            that has no shell to keep the two apart.
        leaves_nothing: The end of its process will let go of memory alone.
        state_new: Earlier calls of the sandbox had another box, which is gone.
        service: What a box does for it, once it has one.
        unwanted: Somebody has asked for its end.
        interrupted: Somebody has asked that it be interrupted, once the engine has it.
        caller: The thread that is or was lent its box; 0 for none.
        cold: A box was started for it; the others are there already.
        ready_s: When that box was ready, by `time.monotonic()`.
    """

    def __init__(
        self,
        work: Work,
        *,
        timeout_s: float,
        cap_bytes: int,
        call_id: str | None = None,
        on_stdout: Chunk | None = None,
        on_stderr: Chunk | None = None,
    ) -> None:
        self.work = work
        self.timeout_s = timeout_s
        self.call_id = call_id
        self.stdout = Capture(cap_bytes, on_stdout)
        self.stderr = Capture(cap_bytes, on_stderr)
        self.results: list[RichResult] = []
        self.results_omitted = 0
        self.notes = self.stray_stderr = ""
        self.done: Future[Evidence] = Future()
        self.ended_by: EndedBy | None = None
        self.exit_code: int | None = None
        self.leaves_nothing = False
        self.state_new = False
        self.service: Service | None = None
        self.unwanted = self.interrupted = False
        self.caller = 0
        self.exec_failure: tuple[int, bool, str] | None = None
        self.submitted_s = time.monotonic()
        self.started_s: float | None = None
        self.cold = False
        self.ready_s: float | None = None
        self.ended_s: float | None = None
        self._results_bytes = 0

    def begin(self) -> float:
        """Open the streams and note the start, once; give the deadline."""
        if self.started_s is None:
            self.stdout.open()
            self.stderr.open()
            self.started_s = time.monotonic()
        return self.started_s + self.timeout_s

    def withdraw(self) -> None:
        """Be as before `begin`: the box did not hear of this call."""
        self.close()
        self.started_s = self.service = None

    def take(self, kind: bytes, payload: bytes, *, in_child: bool = False) -> None:
        """Take one frame; what a cell could not have said truly is ignored.

        Args:
            kind: The frame's letter.
            payload: Its content.
            in_child: The frame is of a driver that no code can speak for.
        """
        if kind == b"r":
            self._take_result(payload)
        elif kind == b"o":
            self.results_omitted += 1
        elif kind in (b"x", b"z"):
            self.leaves_nothing = kind == b"z"
            self._take_end(payload, in_child=in_child)
        elif kind == b"e" and not self.work.is_cell:
            self._take_exec_failure(payload)

    def _take_exec_failure(self, payload: bytes) -> None:
        number, _, rest = payload.partition(b"\0")
        exists, _, path = rest.partition(b"\0")
        if number.isdigit() and path:
            shown = path.decode("utf-8", "replace")
            self.exec_failure = (int(number[:4]), exists == b"1", shown)

    def _take_end(self, payload: bytes, *, in_child: bool) -> None:
        if payload.isdigit():
            self.exit_code = int(payload[:4]) & 0xFF
        elif in_child and payload[:1] == b"-" and payload[1:].isdigit():
            self.exit_code = -int(payload[1:4])

    def _take_result(self, payload: bytes) -> None:
        self._results_bytes += len(payload)
        full = self._results_bytes > MAX_RESULTS_BYTES
        value = None if full else rich_result(payload)
        if value is None or len(self.results) >= MAX_RESULTS:
            self.results_omitted += 1
        else:
            self.results.append(value)

    def finish(self, evidence: Evidence) -> None:
        """Read what is left in the pipes and hand the evidence over."""
        self.ended_s = time.monotonic()
        self.stdout.drain_rest()
        self.stderr.drain_rest()
        self.close()
        if not self.done.done():
            self.done.set_result(evidence)

    def fail(self, error: BaseException) -> None:
        """End the call with trouble of our own house."""
        self.close()
        if not self.done.done():
            self.done.set_exception(error)

    def close_writers(self) -> None:
        """Close the box's ends in this process: it has its own."""
        self.stdout.close_writer()
        self.stderr.close_writer()

    def close(self) -> None:
        """Close the pipes."""
        self.stdout.close()
        self.stderr.close()
