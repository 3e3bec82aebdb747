"""The calls of one turn of a loop: run side by side, each told and each answered.

What happens is told on the thread, or in the event loop, that runs the agent's loop: a
callback sees one event at a time and needs no lock. However the turn ends, each call
has a reply then, which is what keeps the history valid.
"""

from __future__ import annotations

import asyncio
import json
import queue
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .apart import PAUSE_S, Apart
from .events import OnOutput, OutputEvent
from .loop_events import CallFinished, CallStarted, LoopEvent
from .other_tools import OtherCall
from .reply import Reply
from .reply_text import text_reply
from .turn import Call

Emit = Callable[[LoopEvent], None]
_Told = tuple[int, LoopEvent]
_Inbox = queue.SimpleQueue[_Told | None]


class TimeIsUp(Exception):
    """The loop's time limit was reached."""


@dataclass(frozen=True, slots=True)
class LoopCall:
    """One call of a turn, and what answers it.

    Attributes:
        call_id: Its id.
        tool: The name that the model wrote.
        written: Its arguments, as the model wrote them.
        answer: A call of a tool, or the reply to one that cannot be made.
    """

    call_id: str
    tool: str
    written: Any
    answer: Call | OtherCall | Reply

    @property
    def arguments(self) -> str:
        """The arguments as text."""
        if isinstance(self.written, str):
            return self.written
        return "" if self.written is None else json.dumps(self.written, default=str)

    @property
    def is_here(self) -> bool:
        """Whether a loop that is not async answers it on the thread it runs on."""
        return isinstance(self.answer, OtherCall)

    async def arun(self, on_output: OnOutput | None) -> Reply:
        """Answer it; cancelling ends its box."""
        if isinstance(self.answer, Call):
            return await self.answer._replace(on_output=on_output).arun()
        if isinstance(self.answer, OtherCall):
            return await self.answer.arun()
        return self.answer


class TurnRun:
    """The calls of one turn while they run.

    Args:
        turn: The turn's number.
        calls: Its calls, in order.
        listens: Tell what the calls write while they run.
    """

    def __init__(
        self, turn: int, calls: Sequence[LoopCall], *, listens: bool = False
    ) -> None:
        self.calls = calls
        self._turn = turn
        self._listens = listens
        self._replies: dict[int, Reply] = {}
        self._began: dict[int, float] = {}
        self._ran: set[int] = set()
        self._told: set[int] = set()
        self._errors: list[Exception] = []

    def run(self, emit: Emit, deadline: float | None) -> None:
        """Answer the calls and wait for all.

        Tools of the caller run on this thread, one after the other; the rest side by
        side, beside them.

        Args:
            emit: Given the events, on this thread.
            deadline: When to give up, by `time.monotonic`.

        Raises:
            TimeIsUp: At the deadline; the boxes of all calls are gone by then.
            SandboxError: The sandbox is not open; all calls have ended by then.
        """
        inbox: _Inbox = queue.SimpleQueue()
        apart = [n for n, call in enumerate(self.calls) if not call.is_here]
        here = [n for n, call in enumerate(self.calls) if call.is_here]
        self._begin(emit)
        with Apart(lambda: self._all(apart, inbox.put)) as work:
            work.done.add_done_callback(lambda _: inbox.put(None))
            for index in here:
                self._run_here(index, emit, deadline)
            while (told := _next(inbox, deadline)) is not None:
                self._tell(told, emit)
        work.done.result()
        self._raise()

    async def arun(self, emit: Emit, deadline: float | None) -> None:
        """Do as `run`, with all calls side by side; `emit` is called in this loop."""
        inbox: asyncio.Queue[_Told | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def post(told: _Told | None) -> None:
            with suppress(RuntimeError):  # The event loop ended before its calls did.
                loop.call_soon_threadsafe(inbox.put_nowait, told)

        self._begin(emit)
        task = asyncio.create_task(self._all(range(len(self.calls)), post))
        task.add_done_callback(lambda _: post(None))
        limit = asyncio.timeout(deadline and deadline - time.monotonic())
        try:
            async with limit:
                while (told := await inbox.get()) is not None:
                    self._tell(told, emit)
        except BaseException as error:
            await _ended(task)
            if isinstance(error, TimeoutError) and limit.expired():
                raise TimeIsUp from None
            raise
        await task
        self._raise()

    def replies(self, why: str | None = None) -> list[Reply]:
        """Give the reply to each call, in order.

        Args:
            why: What the model is told of a call that has no reply.
        """
        for index, call in enumerate(self.calls):
            if index not in self._replies:
                text = self._unfinished(index, why)
                reply = text_reply(call.tool, text, call.call_id, error="cancelled")
                self._replies[index] = reply
        return [self._replies[index] for index in range(len(self.calls))]

    def tell_rest(self, emit: Emit) -> None:
        """Tell of the calls that began and of whose end nobody was told yet."""
        for index in sorted(self._began.keys() - self._told):
            self._tell((index, self._finished(index)), emit)

    def _unfinished(self, index: int, why: str | None) -> str:
        why = why or "the turn ended before the call did."
        if index not in self._ran:
            return f"not run: {why}"
        return f"stopped: {why} What the call did until then may remain."

    async def _all(self, indices: Sequence[int], post: Callable[[_Told], None]) -> None:
        # All are waited for, else the first that was cancelled would end the wait.
        each = (self._one(index, post) for index in indices)
        for ended in await asyncio.gather(*each, return_exceptions=True):
            if ended is not None:
                raise ended

    async def _one(self, index: int, post: Callable[[_Told], None]) -> None:
        def listen(event: OutputEvent) -> None:
            post((index, event))

        self._ran.add(index)
        listener = listen if self._listens else None
        try:
            self._replies[index] = await self.calls[index].arun(listener)
        except Exception as error:
            self._errors.append(error)
        else:
            post((index, self._finished(index)))

    def _run_here(self, index: int, emit: Emit, deadline: float | None) -> None:
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeIsUp
        self._ran.add(index)
        answer = self.calls[index].answer
        assert isinstance(answer, OtherCall)
        try:
            self._replies[index] = answer.run()
        except Exception as error:
            self._errors.append(error)
        else:
            self._tell((index, self._finished(index)), emit)

    def _begin(self, emit: Emit) -> None:
        for index, call in enumerate(self.calls):
            self._began[index] = time.perf_counter()
            started = CallStarted(
                turn=self._turn,
                call_id=call.call_id,
                tool=call.tool,
                arguments=call.arguments,
            )
            self._tell((index, started), emit)

    def _tell(self, told: _Told, emit: Emit) -> None:
        index, event = told
        if isinstance(event, CallFinished):
            self._told.add(index)
        emit(event)

    def _finished(self, index: int) -> CallFinished:
        call = self.calls[index]
        return CallFinished(
            turn=self._turn,
            call_id=call.call_id,
            tool=call.tool,
            reply=self._replies[index],
            duration_ms=(time.perf_counter() - self._began[index]) * 1000,
        )

    def _raise(self) -> None:
        if self._errors:
            raise self._errors[0]


def _next(inbox: _Inbox, deadline: float | None) -> _Told | None:
    while True:
        left_s = PAUSE_S if deadline is None else deadline - time.monotonic()
        try:
            return inbox.get(timeout=max(0, min(left_s, PAUSE_S)))
        except queue.Empty:
            if left_s <= 0:
                raise TimeIsUp from None


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait until nothing of it is left, however often cancelled."""
    cancelled = False
    task.cancel()
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
