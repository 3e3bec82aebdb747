"""Why a loop ends, in words."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from kern_tools.loop_calls import TimeIsUp
from kern_tools.loop_result import LoopReason, StopLoop
from kern_tools.quantities import count

_MESSAGES = {
    LoopReason.DONE: "the model came to an end",
    LoopReason.EMPTY: "the model neither said nor called anything",
    LoopReason.REFUSED: "the model refused; `text` is what it said",
    LoopReason.FILTERED: "the server's content filter stopped the model",
    LoopReason.INCOMPLETE: "the answer was cut off before its end; `text` is the part"
    " that came",
    LoopReason.FAILED: "the server says that the model failed; `last` has its error",
    LoopReason.UNANSWERED: "{} left to you in `unanswered`: append the answers to"
    " `history`, and call again to go on",
    LoopReason.MAX_TURNS: "the model was asked {}, as often as max_turns allows; call"
    " again with the same history to go on",
    LoopReason.MAX_TOKENS: "the loop used the {} that max_total_tokens allows",
    LoopReason.TIME: "the loop took the {} that time_limit_s allows",
}
_UNITS = {
    LoopReason.UNANSWERED: "call",
    LoopReason.MAX_TURNS: "time",
    LoopReason.MAX_TOKENS: "token",
    LoopReason.TIME: "second",
}


@dataclass(frozen=True, slots=True)
class End:
    """The end of a loop.

    Attributes:
        reason: To branch on.
        message: For the person who runs the agent.
    """

    reason: LoopReason
    message: str


def end_of(reason: LoopReason, number: float | None = None) -> End:
    """Make the end for a reason.

    Args:
        reason: Why.
        number: The limit that was met, or how many there are, where there is one.
    """
    counted = "" if number is None else count(number, _UNITS[reason])
    return End(reason, _MESSAGES[reason].format(counted))


def why_stopped(error: BaseException) -> str:
    """Say to the model why its calls were stopped."""
    if isinstance(error, TimeIsUp):
        return "the time for this conversation was over."
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
        return "the user cancelled this turn."
    if isinstance(error, StopLoop):
        return "the application ended this turn."
    return "this turn ended with an error of the application."
