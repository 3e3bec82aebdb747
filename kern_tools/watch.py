"""The calls of one loop, made as a policy says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Unpack

from pydantic import BaseModel

from .arguments import Read
from .ledger import AGAIN_MAX_CHARS, Failure, Ledger, Outcome, call_key
from .reply import Reply, TextPart
from .reply_text import note_lines, text_reply, with_notes
from .saying import saying
from .stop import Stop
from .toolspec import Given, Tool

if TYPE_CHECKING:
    from .policy import FaultPolicy

_LIMIT = "timeout_s"


class FaultWatch:
    """Makes the calls of one loop, and says when it has to end; see `FaultPolicy`.

    Threads, and calls side by side, may share one. Made by `FaultPolicy.start`.
    """

    def __init__(
        self, policy: FaultPolicy, state: Mapping[str, Any] | None = None
    ) -> None:
        self.policy = policy
        self._ledger = Ledger(policy, state)
        self._lock = Lock()

    @property
    def stopped(self) -> Stop | None:
        """Why the loop has to end: look at it after each turn of the model."""
        return self._ledger.stop

    def dump(self) -> dict[str, Any]:
        """Give all that was counted as plain JSON, for `FaultPolicy.start`."""
        with self._lock:
            return self._ledger.dump()

    def replay(self, turns: Iterable[Sequence[Outcome]]) -> None:
        """Count calls that were made before, as a history has them.

        Args:
            turns: For each turn of the model, its calls in order.
        """
        with self._lock:
            self._ledger.replay(turns)

    def call(self, tool: Tool, arguments: object, **given: Unpack[Given]) -> Reply:
        """Answer one call as `Tool.call` does, within the policy.

        A call of which nothing ran is made again; one that failed before and is sent
        again unchanged runs once more, since what it met may have changed, and where it
        fails again, the reply says so first.

        Args:
            tool: The tool that the model called.
            arguments: What it wrote.
            **given: `call_id`, `conversation` and so on, as in `Tool.call`.

        Returns:
            The reply. Once `stopped` is set nothing runs any more: its `error` is
            `stopped`.

        Raises:
            SandboxClosed: The sandbox is not open.
            HostError: This machine cannot run boxes.
        """
        return tool.observed(
            arguments, given, lambda: self._call(tool, arguments, given)
        )

    def _call(self, tool: Tool, arguments: object, given: Given) -> Reply:
        if self.stopped is not None:
            return _not_run(tool, self.stopped, given.get("call_id"))
        begun = self._begin(tool, arguments)
        while True:
            with saying(begun.lines):
                reply = tool.answer(begun.read, **given)
            if not self._tries_again(begun, reply):
                return self._end(begun, reply)
            time.sleep(self.policy.retry_pause_s)

    async def acall(
        self, tool: Tool, arguments: object, **given: Unpack[Given]
    ) -> Reply:
        """Answer one call as `call` does; cancelling it ends its box first."""
        return await tool.aobserved(
            arguments, given, lambda: self._acall(tool, arguments, given)
        )

    async def _acall(self, tool: Tool, arguments: object, given: Given) -> Reply:
        if self.stopped is not None:
            return _not_run(tool, self.stopped, given.get("call_id"))
        begun = self._begin(tool, arguments)
        while True:
            with saying(begun.lines):
                reply = await tool.aanswer(begun.read, **given)
            if not self._tries_again(begun, reply):
                return self._end(begun, reply)
            await asyncio.sleep(self.policy.retry_pause_s)

    def _begin(self, tool: Tool, arguments: object) -> _Begun:
        read = tool.read(arguments)
        key = call_key(tool.name, arguments, read)
        with self._lock:
            known = self._ledger.known(key)
        raised_s = self._raised_timeout_s(tool, read, known)
        if raised_s is not None:
            assert read.arguments is not None
            note = f"ran with {_LIMIT} {raised_s:g}, as it timed out with less before"
            more = read.arguments.model_copy(update={_LIMIT: raised_s})
            read = Read(more, (*read.repairs, note))
        return _Begun(key, read, known, raised_s)

    def _raised_timeout_s(
        self, tool: Tool, read: Read[BaseModel], known: Failure | None
    ) -> float | None:
        if known is None or not known.timed_out or read.arguments is None:
            return None
        if _LIMIT not in tool.arguments.model_fields:
            return None
        facts = tool.source.describe()
        asked_s: float | None = getattr(read.arguments, _LIMIT, None)
        before_s = known.raised_timeout_s or asked_s or facts.timeout_s
        most_s = facts.timeout_max_s
        raised_s = float(min(before_s * self.policy.timeout_factor, most_s))
        return raised_s if raised_s > min(before_s, most_s) else None

    def _tries_again(self, begun: _Begun, reply: Reply) -> bool:
        fault = None if reply.result is None else reply.result.fault
        if fault is None or not fault.retryable:
            return False
        if begun.attempts > self.policy.retries:
            return False
        begun.attempts += 1
        return True

    def _end(self, begun: _Begun, reply: Reply) -> Reply:
        """Count the call, and say in its reply and on its result what was done."""
        if reply.replayed:  # It was counted when it ran.
            return reply
        reply = _with_result(
            reply, attempts=begun.attempts, raised_timeout_s=begun.raised_timeout_s
        )
        outcome = Outcome(reply.name, begun.key, reply.result, reply.error)
        with self._lock:
            again = self._ledger.enter(outcome, begun.known)
        reply = with_notes(reply, begun.notes)
        if again is None:
            return reply
        first, *others = reply.parts
        assert isinstance(first, TextPart)
        led = TextPart(f"{again.line}\n{first.text}")
        reply = _with_result(reply, repeats=again.repeats)
        return replace(reply, parts=(led, *others), repeats=again.repeats)


@dataclass(slots=True)
class _Begun:
    """One call on its way.

    Attributes:
        key: See `call_key`.
        read: Its arguments, as they are run.
        known: How it failed before, if it did.
        raised_timeout_s: The limit that it is given in place of its own.
        attempts: How often it was made.
    """

    key: str
    read: Read[BaseModel]
    known: Failure | None
    raised_timeout_s: float | None
    attempts: int = 1

    @property
    def notes(self) -> list[str]:
        """What its reply says of the attempts, as clauses."""
        if self.attempts == 1:
            return []
        return [f"this is attempt {self.attempts}; nothing of it ran before"]

    @property
    def lines(self) -> list[str]:
        """What may come to stand above its reply, or lines as long."""
        again = () if self.known is None else ("." * AGAIN_MAX_CHARS,)
        return [*note_lines(self.notes), *again]


def _with_result(reply: Reply, **fields: Any) -> Reply:
    """Set fields of the result, and of the one that is stored."""
    if reply.result is None:
        return reply
    result = reply.result.model_copy(update=fields)
    if reply.stored is None:
        return replace(reply, result=result)
    stored = reply.stored.model_copy(update=fields)
    return replace(reply, result=result, stored=stored)


def _not_run(tool: Tool, stop: Stop, call_id: str | None) -> Reply:
    text = f"not run: this loop has ended.\n{stop.message}"
    return text_reply(tool.name, text, call_id, error="stopped")
