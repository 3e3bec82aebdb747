"""What a server offers: its tools, and an answer to each call of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kern_tools.adapters.mcp.notices import Line, Notices
from kern_tools.adapters.mcp.watches import Watches
from kern_tools.adapters.mcp.wire import Wire
from kern_tools.tools import TOOL_ALIASES, Tool, unknown_tool_reply
from kern_tools.toolspec import Given

NAME = "kern-tools"
WRITTEN = "dev.kern-tools/written"
"""The only key of arguments that came as text; see `stdio`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Tools and their answers, before there is a server of some SDK release.

    Attributes:
        tools: By their names.
        wire: How they are offered and answered.
        instructions: What a model is told about all of them.
        conversation: Given the SDK's context of a request, tells the id of the
            conversation; None takes the client's connection.
        watches: What makes the calls within a policy; None where there is none.
    """

    tools: Mapping[str, Tool]
    wire: Wire
    instructions: str
    conversation: Callable[[Any], Any] | None
    watches: Watches | None = None

    def listing(self) -> dict[str, Any]:
        """Give the result of `tools/list`."""
        return {"tools": [self.wire.definition(tool) for tool in self.tools.values()]}

    async def answer(
        self, name: str, arguments: Mapping[str, Any] | None, line: Line
    ) -> dict[str, Any]:
        """Answer a `tools/call`; cancelling it ends its box first.

        Args:
            name: What the model called.
            arguments: What it wrote.
            line: Back to the client.

        Returns:
            The result of the request.

        Raises:
            SandboxError: The sandbox is not open, or this machine cannot run boxes.
        """
        tool = self.tools.get(TOOL_ALIASES.get(name, name))
        if tool is None:
            reply = unknown_tool_reply(name, self.tools, call_id=line.call_id)
            return self.wire.answer(reply)
        notices = Notices(line)
        given: Given = {
            "call_id": line.call_id,
            "conversation": self._conversation_of(line),
            "offered": line.context,
            "on_output": notices.hear,
            "trace_context": line.meta,
        }
        written = _written(arguments)
        if self.watches is None:
            reply = await notices.follow(tool.acall(written, **given))
            return self.wire.answer(reply)
        watch = await self.watches.of(tool.source, given)
        reply = await notices.follow(watch.acall(tool, written, **given))
        self.watches.note(watch, reply)
        return self.wire.answer(reply, watch.stopped)

    def _conversation_of(self, line: Line) -> Any:
        if self.conversation is None:
            return line.client
        return self.conversation(line.context)


def _written(arguments: Mapping[str, Any] | None) -> object:
    given = arguments or {}
    return given[WRITTEN] if set(given) == {WRITTEN} else given
