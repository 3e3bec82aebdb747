"""All tool calls of one model turn, run side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from .reply import Reply
from .tools import Tool


@dataclass(frozen=True, slots=True)
class Call:
    """One call a model made: a tool of ours and what it wrote for it."""

    tool: Tool
    arguments: Any
    call_id: str | None


def run_turn(calls: Sequence[Call]) -> list[Reply]:
    """Run `calls` and wait for all, also where an event loop is running already.

    Args:
        calls: The calls of one turn.

    Returns:
        One reply per call, in order.

    Raises:
        SandboxError: The sandbox is not open; all calls have ended by then.
        KeyboardInterrupt: The boxes of all calls are gone by then.
    """
    if len(calls) < 2:
        return [call.tool.call(call.arguments, call_id=call.call_id) for call in calls]
    running: Future[_Running] = Future()
    with ThreadPoolExecutor(1, "kern-turn") as thread:
        turn = _announced(calls, running)
        replies = thread.submit(copy_context().run, asyncio.run, turn)
        try:
            return replies.result()
        except KeyboardInterrupt:
            loop, task = running.result()
            with suppress(RuntimeError):  # The loop has just ended by itself.
                loop.call_soon_threadsafe(task.cancel)
            raise


async def arun_turn(calls: Sequence[Call]) -> list[Reply]:
    """Run `calls` and wait for all; cancelling ends the boxes of all.

    Args:
        calls: The calls of one turn.

    Returns:
        One reply per call, in order.

    Raises:
        SandboxError: The sandbox is not open; all calls have ended by then.
    """
    ended = await asyncio.gather(
        *(call.tool.acall(call.arguments, call_id=call.call_id) for call in calls),
        return_exceptions=True,
    )
    replies: list[Reply] = []
    for reply in ended:
        if isinstance(reply, BaseException):
            raise reply
        replies.append(reply)
    return replies


_Running = tuple[asyncio.AbstractEventLoop, "asyncio.Task[Any]"]


async def _announced(calls: Sequence[Call], running: Future[_Running]) -> list[Reply]:
    task = asyncio.current_task()
    assert task is not None
    running.set_result((asyncio.get_running_loop(), task))
    return await arun_turn(calls)
