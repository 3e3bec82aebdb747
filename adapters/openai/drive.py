"""Making the steps of a loop with the client: blocking, and async."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kern_tools.adapters.openai.step import Ask, Faulted, Step, refuse_awaitable
from kern_tools.adapters.openai.steps import Steps
from kern_tools.loop_calls import TimeIsUp
from kern_tools.loop_result import LoopResult
from kern_tools.reply import Reply, member

OnFault = Callable[[Reply], str | None]
"""Called with each reply that has a fault, before the model reads it.

What it returns is told to the model as a note. It ends the loop with `StopLoop`.
"""
AsyncOnFault = Callable[[Reply], "str | Awaitable[str | None] | None"]
"""The same for `arun_loop`; it may be async."""


def drive(steps: Steps, client: Any, on_fault: OnFault | None) -> LoopResult:
    """Make the steps of a loop, blocking, and give its result."""
    with closing(steps.run()) as making:
        came = _Came()
        while (step := came.next_of(making)) is not None:
            came = _Came()
            try:
                came.value = _made(step, steps, client, on_fault)
            except BaseException as error:
                came.error = error
        return came.result()


async def adrive(
    steps: Steps, client: Any, on_fault: AsyncOnFault | None
) -> LoopResult:
    """Make the steps of a loop in the running event loop, and give its result."""
    with closing(steps.run()) as making:
        came = _Came()
        while (step := came.next_of(making)) is not None:
            came = _Came()
            try:
                came.value = await _amade(step, steps, client, on_fault)
            except BaseException as error:
                came.error = error
        return came.result()


@dataclass(slots=True)
class _Came:
    """What came of a step, and at last of the loop."""

    value: Any = None
    error: BaseException | None = None
    end: LoopResult | None = None

    def next_of(self, making: Generator[Step, Any, LoopResult]) -> Step | None:
        """Go on to the next step; None at the end."""
        try:
            if self.error is not None:
                return making.throw(self.error)
            return making.send(self.value)
        except StopIteration as stop:
            self.end = stop.value
            return None

    def result(self) -> LoopResult:
        """Give what the loop came to."""
        assert self.end is not None
        return self.end


def _made(step: Step, steps: Steps, client: Any, on_fault: OnFault | None) -> Any:
    if isinstance(step, Ask):
        return _asked(step, steps, client)
    if isinstance(step, Faulted):
        assert on_fault is not None
        note = on_fault(step.reply)
        refuse_awaitable("on_fault", note)
        return note
    step.run(steps.tell, steps.deadline)
    return None


async def _amade(
    step: Step, steps: Steps, client: Any, on_fault: AsyncOnFault | None
) -> Any:
    if isinstance(step, Ask):
        return await _aasked(step, steps, client)
    if isinstance(step, Faulted):
        assert on_fault is not None
        note = on_fault(step.reply)
        return await note if inspect.isawaitable(note) else note
    await step.arun(steps.tell, steps.deadline)
    return None


def _asked(ask: Ask, steps: Steps, client: Any) -> Any:
    create = steps.surface.create(client)
    request = _within(ask, client)
    with _Deadline(ask.deadline):
        answer = create(**request)
    if ask.stream is None:
        return answer
    with answer:
        for event in _readable(answer, ask.deadline):
            ask.add(event)
    return ask.stream.answer()


async def _aasked(ask: Ask, steps: Steps, client: Any) -> Any:
    create = steps.surface.create(client)
    left_s = None if ask.deadline is None else ask.deadline - time.monotonic()
    limit = asyncio.timeout(left_s)
    try:
        async with limit:
            answer = await create(**ask.request)
            if ask.stream is None:
                return answer
            async with answer:
                async for event in _areadable(answer):
                    ask.add(event)
    except TimeoutError:
        if limit.expired():
            raise TimeIsUp from None
        raise
    return ask.stream.answer()


class _Deadline:
    """Takes what the client raises for the end of the time, where it is over."""

    def __init__(self, deadline: float | None) -> None:
        self._deadline = deadline

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        over = self._deadline is not None and time.monotonic() >= self._deadline
        if over and isinstance(error, Exception):
            raise TimeIsUp from error


def _readable(events: Any, deadline: float | None) -> Iterator[Any]:
    """Give the events of a stream up to one that is no JSON: there it was cut."""
    iterator = iter(events)
    while True:
        try:
            with _Deadline(deadline):
                event = next(iterator, None)
        except json.JSONDecodeError:
            return
        if event is None:
            return
        yield event


async def _areadable(events: Any) -> AsyncIterator[Any]:
    iterator = aiter(events)
    while True:
        try:
            event = await anext(iterator, None)
        except json.JSONDecodeError:
            return
        if event is None:
            return
        yield event


def _within(ask: Ask, client: Any) -> dict[str, Any]:
    """Let a request wait no longer than the loop may take."""
    if ask.deadline is None:
        return ask.request
    left_s = max(ask.deadline - time.monotonic(), 0.001)
    given = ask.request.get("timeout", getattr(client, "timeout", None))
    limit_s = member(given, "read", given)
    if isinstance(limit_s, int | float) and limit_s <= left_s:
        return ask.request
    return {**ask.request, "timeout": left_s}
