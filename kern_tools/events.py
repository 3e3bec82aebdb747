"""What a call tells while it runs: pieces of its output, and at last its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from .result import ExecutionResult

StreamName = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class OutputEvent:
    """A piece of what the code wrote, in whole characters.

    The pieces of one stream, joined, are that stream; pieces of both come in the order
    in which they arrived.

    Attributes:
        call_id: The call that wrote it.
        stream: `stdout` or `stderr`.
        text: The piece; empty where only a loss is told.
        dropped_bytes: How much of the stream was lost just before this piece, because
            whoever listens was too slow; the result has it all the same.
    """

    call_id: str
    stream: StreamName
    text: str
    dropped_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ResultEvent:
    """The end of a call.

    Attributes:
        call_id: The call that ended.
        result: What came of it, whole.
    """

    call_id: str
    result: ExecutionResult


CallEvent = OutputEvent | ResultEvent
OnOutput = Callable[[OutputEvent], object]
