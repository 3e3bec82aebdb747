"""What a client is told of a call while it runs: its output, and that it goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from kern_tools.escaping import escape, escape_line
from kern_tools.events import OutputEvent
from kern_tools.extras import missing
from kern_tools.reply import Reply

try:
    import anyio
except ImportError as error:
    missing("mcp", error)

BEAT_S = 5.0
"""Seconds after which a silent call says that it goes on. Many clients give up on a
request after a minute, unless they hear of its progress.

Source: https://github.com/modelcontextprotocol/typescript-sdk/issues/192
"""
_MESSAGE_MAX_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The way from one call back to the client that made it.

    Attributes:
        call_id: The id of the request.
        client: An id of the connection, where it belongs to one client alone.
        context: The SDK's own context of the request.
        meta: What the client sent beside the request, such as `traceparent`.
        progress: Sends seconds and a message, where progress was asked for.
        log: Sends an entry of the log; None where the client wants none.
    """

    call_id: str
    client: str | None
    context: Any
    meta: Mapping[str, Any] | None
    progress: Callable[[float, str], Awaitable[None]]
    log: Callable[[dict[str, Any]], Awaitable[None]] | None


class Notices:
    """Follows one call; made in the event loop that it runs in.

    Args:
        line: To the client.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._heard: list[OutputEvent] = []
        self._woken = asyncio.Event()
        self._started_s = time.monotonic()

    async def follow(self, call: Coroutine[Any, Any, Reply]) -> Reply:
        """Run a call to its end and tell of it; cancelling this ends its box first.

        Args:
            call: It was given `hear` as `on_output`.

        Returns:
            Its reply, once all of its output was told.
        """
        running = asyncio.create_task(call)
        running.add_done_callback(lambda _: self._woken.set())
        try:
            while not running.done():
                await self._next()
                if self._heard or not running.done():
                    await self._tell()
            return running.result()
        except BaseException:
            await _ended(running)
            raise

    def hear(self, event: OutputEvent) -> None:
        """Take a piece of the call's output; from any thread."""
        with suppress(RuntimeError):  # the loop is closed: the client is gone
            self._loop.call_soon_threadsafe(self._take, event)

    def _take(self, event: OutputEvent) -> None:
        self._heard.append(event)
        self._woken.set()

    async def _next(self) -> None:
        """Wait until there is something to tell."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), BEAT_S)
        self._woken.clear()

    async def _tell(self) -> None:
        heard, self._heard = self._heard, []
        for event in _joined(heard):
            if self._line.log is not None:
                await self._line.log(_entry(event))
        passed_s = time.monotonic() - self._started_s
        await self._line.progress(round(passed_s, 6), _message(heard, passed_s))


async def _ended(running: asyncio.Task[Reply]) -> None:
    """End a call and wait until its box is gone, however often one is told to stop."""
    running.cancel()
    with anyio.CancelScope(shield=True):
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])


def _joined(events: Sequence[OutputEvent]) -> Iterator[OutputEvent]:
    """Join the pieces of a stream that came one after the other."""
    for _, pieces in groupby(events, lambda event: event.stream):
        first, *others = pieces
        yield replace(
            first,
            text=first.text + "".join(piece.text for piece in others),
            dropped_bytes=first.dropped_bytes + sum(p.dropped_bytes for p in others),
        )


def _entry(event: OutputEvent) -> dict[str, Any]:
    return {
        "callId": event.call_id,
        "stream": event.stream,
        "text": escape(event.text),
        "droppedBytes": event.dropped_bytes,
    }


def _message(heard: Sequence[OutputEvent], passed_s: float) -> str:
    """Say the last line that was printed, else for how long the call has run."""
    lines = (line for event in reversed(heard) for line in _lines(event.text))
    last = next(lines, f"running for {passed_s:.0f} s")
    return last[-_MESSAGE_MAX_CHARS:]


def _lines(text: str) -> Iterator[str]:
    tail = text[-4 * _MESSAGE_MAX_CHARS :]
    return (escape_line(line) for line in reversed(tail.splitlines()) if line.strip())
