"""The kinds of steps that a loop is made of, and who is told of them."""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass
from typing import Any

from kern_tools.adapters.openai.surface import Stream
from kern_tools.faults import ConfigError
from kern_tools.loop_calls import TimeIsUp, TurnRun
from kern_tools.loop_events import LoopEvent, OnEvent, TextPiece
from kern_tools.loop_result import StopLoop
from kern_tools.reply import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where a loop ends at the latest; None is no limit."""

    max_turns: int
    max_total_tokens: int | None
    time_limit_s: float | None


def refuse_awaitable(option: str, given: object) -> None:
    """Refuse what a callback gave, where nothing awaits it.

    Raises:
        ConfigError: It is awaitable.
    """
    if not inspect.isawaitable(given):
        return
    if inspect.iscoroutine(given):
        given.close()
    raise ConfigError(
        f"{option} is async, and nothing awaits it here; give a plain function",
        option=option,
    )


class Teller:
    """Passes events on, until whoever listens fails."""

    def __init__(self, on_event: OnEvent | None) -> None:
        self.listens = on_event is not None
        self._on_event = on_event

    def __call__(self, event: LoopEvent) -> None:
        """Tell of an event; what the listener raises is told to nobody else."""
        if self._on_event is None:
            return
        try:
            refuse_awaitable("on_event", self._on_event(event))
        except StopLoop:
            raise
        except BaseException:
            self._on_event = None
            raise


@dataclass(slots=True)
class Ask:
    """The model has to be asked.

    Attributes:
        request: The parameters of the request.
        deadline: When to give up, by `time.monotonic`; or None.
        text: What it said so far, in a stream.
    """

    request: dict[str, Any]
    deadline: float | None
    turn: int
    tell: Teller
    stream: Stream | None = None
    text: str = ""

    def add(self, event: Any) -> None:
        """Take one event of the stream, and tell what the model says."""
        assert self.stream is not None
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise TimeIsUp
        self.say(self.stream.add(event))

    def say(self, words: str) -> None:
        """Tell what the model says."""
        if words:
            self.text += words
            self.tell(TextPiece(turn=self.turn, text=words))


@dataclass(frozen=True, slots=True)
class Faulted:
    """`on_fault` has to be called; it may give a note for the model."""

    reply: Reply


Step = Ask | TurnRun | Faulted
