"""One call on another node as an iterator, for `for` and for `async for`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import ray

from kern_tools.conduct import new_call_id
from kern_tools.config import SandboxConfig
from kern_tools.events import CallEvent, OnOutput, OutputEvent, ResultEvent
from kern_tools.result import ExecutionResult
from kern_tools.streaming import EventStream
from kern_tools.streams import Listeners

from .link import Link
from .request import RemoteRequest
from .told import Told
from .trouble import NodeLost, aside, lost_result

_AHEAD = 8


class RemoteStream(EventStream):
    """As `CallStream`, of a sandbox on a node of the cluster.

    Attributes:
        call_id: The call's id.
    """

    def __init__(
        self, link: Link, config: SandboxConfig, request: RemoteRequest
    ) -> None:
        super().__init__(request.call_id or new_call_id())
        self._link = link
        self._config = config
        self._request = request
        self._token = link.new_token()
        self._items: Any = None

    # -- whole, with callbacks

    def run(self, on_output: OnOutput | None = None) -> ExecutionResult:
        """Run the call to its end; as `CallStream.run`."""
        listeners = self._listeners(on_output)
        try:
            with self:
                for event in self:
                    if isinstance(event, ResultEvent):
                        return _heard_out(listeners, event.result)
                    _hear(listeners, event)
        finally:
            listeners.stop()
        raise AssertionError("a stream ends with its result")

    async def arun(self, on_output: OnOutput | None = None) -> ExecutionResult:
        """Do as `run`; a cancellation goes on once the box is gone."""
        listeners = self._listeners(on_output)
        try:
            async with self:
                async for event in self:
                    if isinstance(event, ResultEvent):
                        return await asyncio.to_thread(
                            _heard_out, listeners, event.result
                        )
                    _hear(listeners, event)
        finally:
            listeners.stop()
        raise AssertionError("a stream ends with its result")

    def _listeners(self, on_output: OnOutput | None) -> Listeners:
        listeners = Listeners(self.call_id)
        listeners.add_text("stdout", self._request.on_stdout or self._config.on_stdout)
        listeners.add_text("stderr", self._request.on_stderr or self._config.on_stderr)
        listeners.add_output(on_output, self._config.max_output_bytes)
        listeners.start()
        return listeners

    # -- sync

    def __next__(self) -> CallEvent:
        if self._is_over:
            raise StopIteration
        try:
            with self._link.using():
                return self._event(self._link.received(self._next))
        except NodeLost as error:
            return self._lost(error)
        except BaseException as error:
            self._tell(error)
            self.close()
            raise

    def _next(self) -> OutputEvent | Told:
        get: Any = ray.get
        item: OutputEvent | Told = get(next(self._begun()))
        return item

    def close(self) -> None:
        """End the call and wait until its box is gone."""
        if self._end():
            with suppress(NodeLost, StopIteration):
                while not isinstance(self._link.received(self._next), Told):
                    pass
            self._tell(GeneratorExit())

    # -- async

    async def __anext__(self) -> CallEvent:
        if self._is_over:
            raise StopAsyncIteration
        try:
            with self._link.using():
                return self._event(await self._anext())
        except NodeLost as error:
            return self._lost(error)
        except GeneratorExit:  # nothing can be awaited; its own end lets go of the call
            raise
        except BaseException as error:
            self._tell(error)
            await self.aclose()
            raise

    async def _anext(self) -> OutputEvent | Told:
        with self._link.noticing():
            item: OutputEvent | Told = await (await anext(self._begun()))
            return item

    async def aclose(self) -> None:
        """Do as `close`, without blocking the event loop."""
        if not self._end():
            return
        draining = asyncio.ensure_future(self._drain())
        while not draining.done():
            with suppress(asyncio.CancelledError):  # the box is being killed
                await asyncio.wait([draining])
        draining.result()
        self._tell(GeneratorExit())

    async def _drain(self) -> None:
        with suppress(NodeLost, StopAsyncIteration):
            while not isinstance(await self._anext(), Told):
                pass

    # -- both

    def _begun(self) -> Any:
        if self._items is None:
            self._observation = self._observe()
            asked = self._request.asked(self._token, self.call_id)
            self._items = self._link.open_stream("stream", asked, ahead=_AHEAD)
        return self._items

    def _event(self, item: OutputEvent | Told) -> CallEvent:
        if not isinstance(item, Told):
            return item
        self._is_over = True
        return self._told(item.opened())

    def _lost(self, error: NodeLost) -> ResultEvent:
        self._is_over = True
        return self._told(lost_result(self.call_id, str(error)))

    def _end(self) -> bool:
        """Have the call end; tell whether its end is still to be waited for."""
        was_over, self._is_over = self._is_over, True
        if was_over or self._items is None:
            return False
        self._link.stop(self._token)
        return True

    def __del__(self) -> None:
        if not self._is_over and self._items is not None:
            link, token = self._link, self._token
            aside(lambda: link.stop(token))


def _hear(listeners: Listeners, event: OutputEvent) -> None:
    if event.dropped_bytes:
        listeners.lose(event.stream, event.dropped_bytes)
    ear = listeners.ear(event.stream)
    if ear is not None:
        ear(event.text.encode())


def _heard_out(listeners: Listeners, result: ExecutionResult) -> ExecutionResult:
    listeners.end()
    listeners.hear_out()
    return result
