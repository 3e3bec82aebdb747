"""Middleware for calls that LangChain could not read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from kern_tools.adapters.langchain.tools import UNREADABLE, KernTool
from kern_tools.extras import missing
from kern_tools.jsontext import NotJson, is_object, read_json
from kern_tools.reply import member
from kern_tools.tools import TOOL_ALIASES

try:
    from langchain.agents.middleware import (
        AgentMiddleware,
        AgentState,
        ModelRequest,
        ModelResponse,
    )
    from langchain_core.messages import AIMessage, BaseMessage, ToolCall
    from langchain_core.messages.tool import tool_call
except ImportError as error:
    missing("langchain", error, user="The middleware", package="langchain")

__all__ = ["CallRepair"]

_ModelHandler = Callable[[ModelRequest[Any]], ModelResponse[Any]]
_AsyncModelHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]


class CallRepair(AgentMiddleware[AgentState[Any], Any, Any]):
    """Have our tools answer calls that LangChain sets aside or does not know.

        agent = create_agent(model, as_tools(sandbox), middleware=[CallRepair()])

    LangChain keeps a call whose arguments are no JSON out of `tool_calls`; where a turn
    has no other, the agent ends, with an empty answer. Here such a call reaches its
    tool, which runs what can be read and tells the model what to send otherwise. A name
    that usually means one of our tools, such as `python`, is that tool where there is
    no other of that name. Calls of other tools are left alone.

    Source: https://github.com/langchain-ai/langchain/issues/9130
    """

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: _ModelHandler
    ) -> ModelResponse[Any]:
        """Ask the model, and put its calls right."""
        return _repaired(handler(request), request.tools)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: _AsyncModelHandler
    ) -> ModelResponse[Any]:
        """Do the same, natively async."""
        return _repaired(await handler(request), request.tools)


def _repaired(
    response: ModelResponse[Any], tools: Sequence[object]
) -> ModelResponse[Any]:
    ours = {tool.name for tool in tools if isinstance(tool, KernTool)}
    names = _Names(ours, {str(member(tool, "name")) for tool in tools})
    return replace(response, result=[_readable(m, names) for m in response.result])


class _Names:
    """Which tool a model means.

    Args:
        ours: The names of our tools.
        known: The names of all tools.
    """

    def __init__(self, ours: set[str], known: set[str]) -> None:
        self._ours = ours
        self._known = known

    def meant(self, name: object) -> str | None:
        """Give the name of the tool of ours that is meant, or None."""
        name = str(name)
        meant = name if name in self._known else TOOL_ALIASES.get(name)
        return meant if meant in self._ours else None


def _readable(message: BaseMessage, names: _Names) -> BaseMessage:
    if not isinstance(message, AIMessage):
        return message
    calls = [_renamed(call, names) for call in message.tool_calls]
    aside = [
        call
        for call in message.invalid_tool_calls
        if call["id"] is None or names.meant(call["name"]) is None
    ]
    calls += [
        tool_call(
            name=str(names.meant(call["name"])),
            args=_arguments(call["args"] or ""),
            id=call["id"],
        )
        for call in message.invalid_tool_calls
        if call not in aside
    ]
    update = {"tool_calls": calls, "invalid_tool_calls": aside}
    return message.model_copy(update=update)


def _renamed(call: ToolCall, names: _Names) -> ToolCall:
    meant = names.meant(call["name"])
    return call if meant is None else {**call, "name": meant}


def _arguments(text: str) -> dict[str, Any]:
    """Give an object for the text that stands in its place."""
    try:
        value, _ = read_json(text)
    except NotJson:
        value = None
    return value if is_object(value) else {UNREADABLE: text}
