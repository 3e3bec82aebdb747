"""The steps of a loop, for whoever makes them, blocking or async.

`Steps.run` is a generator. It yields what has to be done next (ask the model, answer
calls, tell of a fault), is sent what came of it or thrown what went wrong, and returns
the result. So there is one loop and two ways to drive it. The history is extended by a
whole turn at once, with all its answers, and is valid in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kern_tools.adapters.openai.ends import End, end_of, why_stopped
from kern_tools.adapters.openai.offered import Offered, wire_answer
from kern_tools.adapters.openai.step import Ask, Faulted, Limits, Step, Teller
from kern_tools.adapters.openai.surface import Said, Surface, unforced
from kern_tools.faults import ConfigError
from kern_tools.loop_calls import TimeIsUp, TurnRun
from kern_tools.loop_events import LoopFinished, TurnStarted
from kern_tools.loop_result import LoopReason, LoopResult, StopLoop
from kern_tools.options import refusal
from kern_tools.reply import Reply
from kern_tools.reply_text import with_notes
from kern_tools.wire import WireCall, items_for
from kern_tools.wire_history import encodable, first_of_each_id, ids_in, numbered

_DOUBLED = (
    "a second call came under the id of this one and was not run; send it again,"
    " under an id of its own"
)


def _noted(note: object) -> list[str]:
    if note is not None and not isinstance(note, str):
        remedy = "return a note for the model, or None"
        raise refusal("on_fault", note, "is no text", remedy)
    return [note] if note else []


@dataclass(slots=True, kw_only=True)
class Steps:
    """One run of a loop: what it was given, and what has come of it."""

    surface: Surface
    offered: Offered
    history: list[Any]
    limits: Limits
    tell: Teller
    images: bool
    streams: bool
    hears_faults: bool
    last_id: str | None = None
    deadline: float | None = None
    turns: int = 0
    text: str = ""
    tokens: tuple[int, int] = (0, 0)
    last: Any = None
    replies: list[Reply] = field(default_factory=list[Reply])
    unanswered: list[Any] = field(default_factory=list[Any])
    known: int = 0
    taken: set[str] = field(default_factory=set[str])

    def run(self) -> Generator[Step, Any, LoopResult]:
        """Make the loop; see the module."""
        self.taken = ids_in(self.history)
        if self.limits.time_limit_s is not None:
            self.deadline = time.monotonic() + self.limits.time_limit_s
        try:
            end = yield from self._turns()
        except StopLoop as stop:
            end = End(LoopReason.STOPPED, stop.message)
        except TimeIsUp:
            end = end_of(LoopReason.TIME, self.limits.time_limit_s)
        except (asyncio.CancelledError, KeyboardInterrupt):
            self._tell_end(LoopReason.CANCELLED)
            raise
        except BaseException:
            self._tell_end(LoopReason.ERROR)
            raise
        self._tell_end(end.reason)
        return self._result(end)

    def _turns(self) -> Generator[Step, Any, End]:
        while True:
            end = self._limit()
            if end is not None:
                return end
            said = yield from self._ask()
            if isinstance(said, End):
                return said
            end = yield from self._answer(said)
            if end is not None:
                return end

    def _limit(self) -> End | None:
        limits, used = self.limits, sum(self.tokens)
        if self.turns >= limits.max_turns:
            return end_of(LoopReason.MAX_TURNS, limits.max_turns)
        if limits.max_total_tokens is not None and used >= limits.max_total_tokens:
            return end_of(LoopReason.MAX_TOKENS, limits.max_total_tokens)
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise TimeIsUp
        return None

    def _ask(self) -> Generator[Step, Any, Said | End]:
        self.turns += 1
        self.text = ""
        self.tell(TurnStarted(turn=self.turns))
        ask = Ask(self._request(), self.deadline, self.turns, self.tell)
        if self.streams:
            ask.stream = self.surface.stream()
        try:
            answer = yield ask
        finally:
            self.text = ask.text
        if answer is None:
            return end_of(LoopReason.INCOMPLETE)
        said = self.surface.read(answer)
        self.last = said.answer
        if not ask.text:
            ask.say(said.text)
        self.text = said.text
        self._count(said)
        return said

    def _request(self) -> dict[str, Any]:
        chained = self.surface.keeps_ids and self.last_id is not None
        unsent = self.history[self.known :] if chained else self.history
        request = self.surface.request(unsent, self.last_id)
        if self.turns > 1 and "tool_choice" in request:
            request["tool_choice"] = unforced(request["tool_choice"])
        return request

    def _count(self, said: Said) -> None:
        if said.tokens is not None:
            read, written = said.tokens
            self.tokens = (self.tokens[0] + read, self.tokens[1] + written)
        elif self.limits.max_total_tokens is not None:
            raise ConfigError(
                f"max_total_tokens={self.limits.max_total_tokens}: the server does not"
                " tell how many tokens were used, so this limit cannot be held; leave"
                " it out, or have the server send `usage`",
                option="max_total_tokens",
            )

    def _answer(self, said: Said) -> Generator[Step, Any, End | None]:
        """Answer what the model called, and extend the history by the turn."""
        kept = self._kept(said.calls)
        found = [self.offered.answering(c, is_whole=said.is_whole) for c in kept]
        ours = [c for c, answer in zip(kept, found, strict=True) if answer]
        theirs = [c.raw for c, answer in zip(kept, found, strict=True) if not answer]
        calls = [answer for answer in found if answer]
        run = TurnRun(self.turns, calls, listens=self.tell.listens)
        replies: list[Reply] | None = None
        why: str | None = None
        try:
            if run.calls:
                yield run
                replies = yield from self._tell_faults(run.replies())
        except BaseException as error:
            why = why_stopped(error)
            raise
        finally:
            answers = run.replies(why) if replies is None else replies
            self._extend(said, kept, ours, answers)
            run.tell_rest(self.tell)
        self.unanswered = [*theirs, *said.yours]
        return self._end(said)

    def _end(self, said: Said) -> End | None:
        """Tell why the loop ends with this turn, or None where it goes on."""
        watch = self.offered.watch
        if watch is not None and watch.stopped is not None:
            stop = watch.stopped
            return End(LoopReason(stop.reason), stop.message)
        if self.unanswered:
            return end_of(LoopReason.UNANSWERED, len(self.unanswered))
        if not said.calls or not said.is_whole:
            return end_of(said.ending)
        return None

    def _kept(self, calls: Sequence[WireCall]) -> list[WireCall]:
        if self.surface.keeps_ids:
            return first_of_each_id(calls)
        return numbered(calls, self.taken, self.turns)

    def _tell_faults(self, replies: list[Reply]) -> Generator[Step, Any, list[Reply]]:
        for index, reply in enumerate(replies):
            if self.hears_faults and reply.fault_type is not None:
                note = yield Faulted(reply)
                replies[index] = with_notes(reply, _noted(note))
        return replies

    def _extend(
        self,
        said: Said,
        kept: Sequence[WireCall],
        ours: Sequence[WireCall],
        replies: Sequence[Reply],
    ) -> None:
        """Add the turn to the history, with the answers to all its calls."""
        if said.ending == LoopReason.FAILED and not kept:
            return
        raws = [id(call.raw) for call in kept]
        dropped = [call for call in said.calls if id(call.raw) not in raws]
        # In Chat images come behind all answers, and some are still the caller's.
        images = self.images and len(ours) == len(kept)
        answers = [
            wire_answer(call, self._noted(call, reply, dropped), images=images)
            for call, reply in zip(ours, replies, strict=True)
        ]
        items = said.items(kept, dropped)
        self.last_id = said.response_id
        self.known = len(self.history) + len(items)
        self.history += [*items, *(encodable(item) for item in items_for(answers))]
        self.taken.update(str(call.call_id) for call in kept)
        self.replies += replies

    def _noted(
        self, call: WireCall, reply: Reply, dropped: Sequence[WireCall]
    ) -> Reply:
        others = [each for each in dropped if each.call_id == call.call_id]
        is_doubled = any(
            (other.name, other.written) != (call.name, call.written) for other in others
        )
        return with_notes(reply, [_DOUBLED] if is_doubled else [])

    def _tell_end(self, reason: LoopReason) -> None:
        finished = LoopFinished(
            turns=self.turns,
            reason=reason,
            text=self.text,
            input_tokens=self.tokens[0],
            output_tokens=self.tokens[1],
        )
        try:
            self.tell(finished)
        except StopLoop:
            return

    def _result(self, end: End) -> LoopResult:
        is_response = self.surface.has_response_ids
        return LoopResult(
            reason=end.reason,
            message=end.message,
            text=self.text,
            history=self.history,
            replies=tuple(self.replies),
            turns=self.turns,
            input_tokens=self.tokens[0],
            output_tokens=self.tokens[1],
            last=self.last,
            unanswered=tuple(self.unanswered),
            response_id=self.last_id if is_response else None,
            unsent=tuple(self.history[self.known :]) if is_response else (),
        )
