"""All tool calls of one model turn, run side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .apart import Apart
from .events import OnOutput
from .reply import Reply
from .reply_text import bad_arguments
from .saying import saying
from .toolspec import Given, Tool

if TYPE_CHECKING:
    from .watch import FaultWatch

_CUT = (
    "The code ends where the limit on output tokens cut it off. Send it again, whole: "
    "shorter, or in steps."
)


class Call(NamedTuple):
    """One call a model made.

    Attributes:
        tool: The tool of ours that it called.
        arguments: What it wrote.
        call_id: The call's id.
        is_cut: The model was stopped while it wrote code without a frame that would
            show it: running the part that came could do half of what was meant.
        takes_limit: It could have asked for more time; free text cannot.
        on_output: Given what the code writes as it comes, see `Tool.call`.
        conversation: Whose call it is, for a pool.
        watch: What answers it within a policy; None for the tool itself.
    """

    tool: Tool
    arguments: Any
    call_id: str | None
    is_cut: bool = False
    takes_limit: bool = True
    on_output: OnOutput | None = None
    conversation: object = None
    watch: FaultWatch | None = None

    def run(self) -> Reply:
        """Answer it."""
        if self.is_cut:
            return self.tool.observed(self.arguments, self._given(), self._refuse)
        call = self.tool.call
        if self.watch is not None:
            call = partial(self.watch.call, self.tool)
        with nullcontext() if self.takes_limit else saying(takes_limit=False):
            return call(self.arguments, **self._given())

    async def arun(self) -> Reply:
        """Answer it natively async; cancelling ends its box."""
        if self.is_cut:
            return self.tool.observed(self.arguments, self._given(), self._refuse)
        call = self.tool.acall
        if self.watch is not None:
            call = partial(self.watch.acall, self.tool)
        with nullcontext() if self.takes_limit else saying(takes_limit=False):
            return await call(self.arguments, **self._given())

    def _refuse(self) -> Reply:
        return bad_arguments(self.tool.name, _CUT, self.call_id)

    def _given(self) -> Given:
        return {
            "call_id": self.call_id,
            "conversation": self.conversation,
            "on_output": self.on_output,
        }


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
    with Apart(lambda: arun_turn(calls)) as turn:
        return turn.result()


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
