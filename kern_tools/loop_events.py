"""What an agent's loop tells while it runs: turns, text, calls, and its end.

The events are the same for every framework, so that a display need know none of them:

    def show(event: LoopEvent) -> None:
        match event:
            case TextPiece(text=text):
                print(text, end="")
            case CallFinished(reply=reply):
                print(reply.text)
            case _:
                pass
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .events import OutputEvent
from .reply import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """The model is asked.

    Attributes:
        turn: Its number, from 1.
    """

    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPiece:
    """Something the model says, as it comes or whole.

    Attributes:
        turn: The turn it says it in.
        text: The piece, never empty; the pieces of one turn, joined, are its text.
    """

    turn: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted:
    """A call is about to be answered; `OutputEvent` tells what it writes meanwhile.

    Attributes:
        turn: The turn that made it.
        call_id: Its id, which the framework gave it.
        tool: The name that the model wrote.
        arguments: The arguments as the model wrote them: JSON or free text.
    """

    turn: int
    call_id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFinished:
    """A call was answered.

    Attributes:
        turn: The turn that made it.
        call_id: Its id.
        tool: The name that the model wrote.
        reply: What came of it.
        duration_ms: From `CallStarted` to here, in milliseconds, waiting included.
    """

    turn: int
    call_id: str
    tool: str
    reply: Reply
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopFinished:
    """The loop is over; always the last event.

    Attributes:
        turns: How often the model was asked.
        reason: Why it ended, such as `done` or `max_turns`.
        text: What the model said last.
        input_tokens: What was read in all turns, as far as the server told.
        output_tokens: What was written in all turns, as far as the server told.
    """

    turns: int
    reason: str
    text: str
    input_tokens: int
    output_tokens: int


LoopEvent = (
    TurnStarted | TextPiece | CallStarted | OutputEvent | CallFinished | LoopFinished
)
OnEvent = Callable[[LoopEvent], None]
"""Called with each event, in order, one at a time.

It is called on the thread, or in the event loop, that runs the agent's loop, and needs
no lock. What it raises ends the loop, and is raised there.
"""
