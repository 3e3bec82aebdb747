"""One call as an iterator over what it tells, for `for` and for `async for`."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self

from .backlog import Backlog
from .conduct import Conduct, Request, new_call_id
from .events import CallEvent, OnOutput, ResultEvent
from .turns import Cancelled
from .waiting import asettle, settle

if TYPE_CHECKING:
    import asyncio

    from .observing import Observation
    from .opened import Opened
    from .result import ExecutionResult


class EventStream(ABC):
    """One call to be read with `for` or `async for`, and as `with` or `async with`.

    Args:
        call_id: The call's id.
    """

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        self._is_over = False
        self._observe: Callable[[], Observation | None] = lambda: None
        self._observation: Observation | None = None

    def observe(self, begin: Callable[[], Observation | None]) -> None:
        """Have `begin` called with the first step; what it gives is told the rest."""
        self._observe = begin

    def _told(self, result: ExecutionResult) -> ResultEvent:
        if self._observation is not None:
            self._observation.end(result)
        return ResultEvent(self.call_id, result)

    def _tell(self, error: BaseException) -> None:
        if self._observation is not None:
            self._observation.fail(error)

    def __iter__(self) -> Self:
        return self

    @abstractmethod
    def __next__(self) -> CallEvent: ...

    @abstractmethod
    def close(self) -> None:
        """End the call and wait until its box is gone."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> CallEvent: ...

    @abstractmethod
    async def aclose(self) -> None:
        """Do as `close`, without blocking the event loop."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


class CallStream(EventStream):
    """One call: its `OutputEvent`s as they arrive, then its `ResultEvent`.

    Iterate over it once, with `for` or with `async for`; the call begins with the
    first step. A reader that is too slow loses pieces (`OutputEvent.dropped_bytes`);
    the result is whole all the same.

    Leaving the loop early ends the call as a cancellation does. As `with` and `async
    with` it is waited for until the box is gone; without them the box is killed as
    soon as nothing refers to the iterator.

    Attributes:
        call_id: The call's id.
    """

    def __init__(self, opened: Opened, request: Request) -> None:
        super().__init__(request.call_id or new_call_id())
        self._opened = opened
        self._request = replace(request, call_id=self.call_id)
        self._conduct: Conduct | None = None
        self._backlog: Backlog | None = None
        self._pid = os.getpid()
        self._arrived = threading.Event()
        self._aarrived: asyncio.Event | None = None

    # -- whole, with a callback

    def run(self, on_output: OnOutput) -> ExecutionResult:
        """Run the call to its end instead of iterating.

        Args:
            on_output: Given the `OutputEvent`s as they arrive, on a thread of ours, up
                to `max_output_bytes` of each stream. A slow one loses pieces; within
                1 s of the call's end it is not waited for any more.

        Returns:
            As from `Sandbox.run_code`.
        """
        return self._opened.run(replace(self._request, on_output=on_output))

    async def arun(self, on_output: OnOutput) -> ExecutionResult:
        """Do as `run`; a cancellation goes on once the box is gone."""
        return await self._opened.arun(replace(self._request, on_output=on_output))

    # -- sync

    def __next__(self) -> CallEvent:
        if self._is_over:
            raise StopIteration
        try:
            return self._next()
        except Cancelled:  # another thread has closed it
            self._let_go()
            raise StopIteration from None
        except BaseException as error:
            self._tell(error)
            self.close()
            raise

    def _next(self) -> CallEvent:
        if self._conduct is None:
            self._conducted(self._arrived.set).begin()
        if self._aarrived is not None:
            raise _mixed()
        conduct, backlog = self._begun()
        while (event := backlog.take()) is None:
            if backlog.is_over:
                return self._last(self._opened.finish(conduct))
            self._arrived.wait()
            self._arrived.clear()
        return event

    def close(self) -> None:
        """End the call and wait until its box is gone."""
        if (conduct := self._end()) is not None:
            settle(conduct.call)
            conduct.let_go()
        self._tell(GeneratorExit())

    # -- async

    async def __anext__(self) -> CallEvent:
        if self._is_over:
            raise StopAsyncIteration
        try:
            return await self._anext()
        except Cancelled:  # another task has closed it
            self._let_go()
            raise StopAsyncIteration from None
        except GeneratorExit:  # nothing can be awaited; its own end lets go of the call
            raise
        except BaseException as error:
            self._tell(error)
            await self.aclose()
            raise

    async def _anext(self) -> CallEvent:
        if self._conduct is None:
            await self._conducted(self._waker()).abegin()
        if self._aarrived is None:
            raise _mixed()
        conduct, backlog = self._begun()
        while (event := backlog.take()) is None:
            if backlog.is_over:
                return self._last(await self._opened.afinish(conduct))
            await self._aarrived.wait()
            self._aarrived.clear()
        return event

    def _waker(self) -> Callable[[], object]:
        import asyncio

        loop = asyncio.get_running_loop()
        self._aarrived = arrived = asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody reads any more
                loop.call_soon_threadsafe(arrived.set)

        return wake

    async def aclose(self) -> None:
        """Do as `close`, without blocking the event loop."""
        if (conduct := self._end()) is not None:
            await asettle(conduct.call)
            conduct.let_go()
        self._tell(GeneratorExit())

    # -- both

    def _conducted(self, wake: Callable[[], object]) -> Conduct:
        self._backlog = Backlog(self.call_id, wake)
        request = replace(self._request, backlog=self._backlog)
        self._conduct = conduct = Conduct(self._opened, request)
        self._observation = self._observe()
        return conduct

    def _begun(self) -> tuple[Conduct, Backlog]:
        assert self._conduct is not None
        assert self._backlog is not None
        return self._conduct, self._backlog

    def _last(self, result: ExecutionResult) -> ResultEvent:
        self._is_over = True
        self._let_go()
        return self._told(result)

    def _let_go(self) -> None:
        conduct, _ = self._begun()
        conduct.let_go()

    def _end(self) -> Conduct | None:
        """Have the call end; give it where it is still to be waited for."""
        was_over, self._is_over = self._is_over, True
        conduct = self._conduct
        if was_over or conduct is None:
            return None
        if not conduct.call.done.done():
            conduct.cancel()
        return conduct

    def __del__(self) -> None:
        if os.getpid() != self._pid:
            return  # the box is that of the process before a fork
        if (conduct := self._end()) is not None:
            conduct.lose()
            self._opened.aside(partial(_tell_lost, self._observation))


def _tell_lost(observation: Observation | None) -> None:
    if observation is not None:
        observation.fail(GeneratorExit())


def _mixed() -> RuntimeError:
    return RuntimeError(
        "this call is read with `for` and with `async for`; use one of them, or make"
        " another call"
    )
