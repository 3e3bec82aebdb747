"""All tool calls of one model turn, run side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from .events import OnOutput
from .reply import Reply
from .toolspec import Tool, bad_arguments

_CUT = (
    "The code ends where the limit on output tokens cut it off. Send it again, whole: "
    "shorter, or in steps."
)


@dataclass(frozen=True, slots=True)
class Call:
    """One call a model made.

    Attributes:
        tool: The tool of ours that it called.
        arguments: What it wrote.
        call_id: The call's id.
        is_cut: The model was stopped while it wrote code without a frame that would
            show it: running the part that came could do half of what was meant.
        on_output: Given what the code writes as it comes, see `Tool.call`.
        conversation: Whose call it is, for a pool.
    """

    tool: Tool
    arguments: Any
    call_id: str | None
    is_cut: bool = False
    on_output: OnOutput | None = None
    conversation: object = None

    def run(self) -> Reply:
        """Answer it."""
        if self.is_cut:
            return bad_arguments(self.tool.name, _CUT, self.call_id)
        return self.tool.call(
            self.arguments,
            call_id=self.call_id,
            conversation=self.conversation,
            on_output=self.on_output,
        )

    async def arun(self) -> Reply:
        """Answer it natively async; cancelling ends its box."""
        if self.is_cut:
            return bad_arguments(self.tool.name, _CUT, self.call_id)
        return await self.tool.acall(
            self.arguments,
            call_id=self.call_id,
            conversation=self.conversation,
            on_output=self.on_output,
        )


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
        return [call.run() for call in calls]
    running: Future[_Running] = Future()
    with ThreadPoolExecutor(1, "kern-turn") as thread:
        turn = _announced(calls, running)
        replies = thread.submit(copy_context().run, asyncio.run, turn)
        try:
            return replies.result()
        except BaseException:  # also what a signal handler of the host raises
            if replies.done():
                raise
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
    arriving = [call.arun() for call in calls]
    ended = await asyncio.gather(*arriving, return_exceptions=True)
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
