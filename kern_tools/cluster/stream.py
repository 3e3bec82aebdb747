"""One call on another node as an iterator, for `for` and for `async for`."""

from __future__ import annotations

import asyncio

from kern_tools.conduct import new_call_id
from kern_tools.config import SandboxConfig
from kern_tools.events import CallEvent, OnOutput, OutputEvent, ResultEvent
from kern_tools.result import ExecutionResult
from kern_tools.streaming import EventStream
from kern_tools.streams import Listeners

from .channel import Channel, HungUp
from .link import Link
from .request import RemoteRequest
from .told import RemoteCall, Told
from .trouble import NodeLost, lost_result


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
        self._channel: Channel | None = None

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
            with self._link.using(), self._link.noticing():
                said = self._next()
            event = self._event(said)
        except NodeLost as error:
            return self._lost(error)
        except BaseException as error:
            self._tell(error)
            self.close()
            raise
        if event is None:
            raise StopIteration
        return event

    def _next(self) -> OutputEvent | Told | None:
        if self._channel is None:
            self._channel = self._link.begin(self._asked())
        try:
            said: OutputEvent | Told = self._channel.receive()
        except HungUp:
            if self._is_over:  # another thread has closed it
                return None
            raise
        return said

    def close(self) -> None:
        """End the call and wait until its box is gone."""
        if (channel := self._end()) is not None:
            self._link.settle(channel)
            self._tell(GeneratorExit())

    # -- async

    async def __anext__(self) -> CallEvent:
        if self._is_over:
            raise StopAsyncIteration
        try:
            with self._link.using(), self._link.noticing():
                said = await self._anext()
            event = self._event(said)
        except NodeLost as error:
            return self._lost(error)
        except GeneratorExit:  # nothing can be awaited; its own end lets go of the call
            raise
        except BaseException as error:
            self._tell(error)
            await self.aclose()
            raise
        if event is None:
            raise StopAsyncIteration
        return event

    async def _anext(self) -> OutputEvent | Told | None:
        if self._channel is None:
            self._channel = await self._link.abegin(self._asked())
        try:
            said: OutputEvent | Told = await self._channel.areceive()
        except HungUp:
            if self._is_over:  # another task has closed it
                return None
            raise
        return said

    async def aclose(self) -> None:
        """Do as `close`, without blocking the event loop."""
        if (channel := self._end()) is not None:
            await self._link.asettle(channel)
            self._tell(GeneratorExit())

    # -- both

    def _asked(self) -> RemoteCall:
        self._observation = self._observe()
        return self._request.asked(self.call_id, is_heard=True)

    def _event(self, said: OutputEvent | Told | None) -> CallEvent | None:
        """Give what was said to the reader; None where the call was closed meanwhile.

        Raises:
            BaseException: What was raised on the node.
        """
        if not isinstance(said, Told):
            return said
        was_over, self._is_over = self._is_over, True
        channel, self._channel = self._channel, None
        if was_over:  # whoever closes the call waits for the channel's end
            return None
        assert channel is not None
        self._link.end(channel)
        return self._told(said.opened())

    def _lost(self, error: NodeLost) -> ResultEvent:
        self._is_over = True
        return self._told(lost_result(self.call_id, str(error)))

    def _end(self) -> Channel | None:
        """Give what the call is to be ended over, where it has not ended."""
        was_over, self._is_over = self._is_over, True
        return None if was_over else self._channel


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
