"""What an agent's loop came to, and why it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .reply import Reply


class LoopReason(StrEnum):
    """Why a loop ended.

    `CANCELLED` and `ERROR` are in `LoopFinished` alone: the exception goes on.
    """

    DONE = "done"
    """The model answered, and called nothing more."""
    EMPTY = "empty"
    """The model neither said nor called anything."""
    REFUSED = "refused"
    """The model refused; its words are the text."""
    FILTERED = "filtered"
    """The server's content filter stopped the model."""
    INCOMPLETE = "incomplete"
    """The answer was cut off: by its limit on tokens, or because the stream ended."""
    FAILED = "failed"
    """The server says that the model failed."""
    UNANSWERED = "unanswered"
    """There are calls that only you can answer."""
    MAX_TURNS = "max_turns"
    """The model was asked as often as `max_turns` allows."""
    MAX_TOKENS = "max_tokens"
    """As many tokens were used as `max_total_tokens` allows."""
    TIME = "time"
    """The loop took as long as `time_limit_s` allows."""
    REPEATED = "repeated"
    """The same call failed in the same way again and again."""
    HOST = "host"
    """The host cannot run boxes; no other code would help."""
    STOPPED = "stopped"
    """A function of yours raised `StopLoop`."""
    CANCELLED = "cancelled"
    """Cancelled, or interrupted with Ctrl-C."""
    ERROR = "error"
    """An exception ended it, such as one of the client."""


class StopLoop(Exception):
    """Raise it in `on_fault`, `on_event` or a tool of yours, and the loop ends.

    Args:
        message: Why, for the result's `message`.
    """

    def __init__(self, message: str = "a function of yours stopped the loop") -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopResult:
    """What a loop came to.

    Attributes:
        reason: Why it ended.
        message: The same in a sentence, for the person who runs the agent.
        text: What the model said in its last turn.
        history: The conversation to go on with: the list that was given, extended.
        replies: The replies to all calls, in order.
        turns: How often the model was asked.
        input_tokens: What the model read in all turns, as far as the server told.
        output_tokens: What it wrote in all turns, as far as the server told.
        last: The server's last answer, as the SDK gives it; None where there is none.
        unanswered: The calls that wait for you, as the server sent them.
        response_id: The last response's id, for `previous_response_id`; None in Chat.
        unsent: The end of `history`: what the response of that id does not know yet.
    """

    reason: LoopReason
    message: str
    text: str
    history: list[Any]
    replies: tuple[Reply, ...]
    turns: int
    input_tokens: int
    output_tokens: int
    last: Any
    unanswered: tuple[Any, ...] = ()
    response_id: str | None = None
    unsent: tuple[Any, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether the model came to an end by itself."""
        return self.reason == LoopReason.DONE
