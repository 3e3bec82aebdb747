"""Middleware for `langchain.agents.create_agent`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any

from kern_tools.adapters.langchain.history import messages_of, watch_of
from kern_tools.adapters.langchain.images import images_to_user
from kern_tools.adapters.langchain.stopping import stop_message
from kern_tools.adapters.langchain.tools import WATCH, KernTool
from kern_tools.extras import missing
from kern_tools.policy import FaultPolicy, check_policy

try:
    from langchain.agents.middleware import (
        AgentMiddleware,
        AgentState,
        ModelRequest,
        ModelResponse,
        hook_config,
    )
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime
    from langgraph.types import Command
except ImportError as error:
    missing("langchain", error, user="The middleware", package="langchain")

__all__ = ["FaultMiddleware", "ImagesToUser"]

_Answer = ToolMessage | Command[Any]
_ToolHandler = Callable[[ToolCallRequest], _Answer]
_AsyncToolHandler = Callable[[ToolCallRequest], Awaitable[_Answer]]
_ModelHandler = Callable[[ModelRequest[Any]], ModelResponse[Any]]
_AsyncModelHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]


class FaultMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Hold the calls of our tools to a policy, and end the agent where it says so.

        policy = FaultPolicy(max_repeats=2)
        agent = create_agent(
            model, as_tools(sandbox), middleware=[FaultMiddleware(policy)]
        )

    The last message then says why, for people, and `stop_of(state)` for code. All calls
    are answered before, and the model is not asked again. What was counted is read off
    the messages since the user's last one: a thread that goes on from a checkpoint, in
    another process too, goes on counting. Other tools are left alone.

    In a graph of your own give `ToolNode` its `wrap_tool_call` and `awrap_tool_call`,
    and `route_on_fault` the policy.

    Args:
        policy: The bounds; by default those of `FaultPolicy()`.
    """

    def __init__(self, policy: FaultPolicy | None = None) -> None:
        super().__init__()
        given = FaultPolicy() if policy is None else policy
        self.policy = check_policy("policy", given)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: _ToolHandler
    ) -> _Answer:
        """Make one call within the policy."""
        with self._watching(request):
            return handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: _AsyncToolHandler
    ) -> _Answer:
        """Do the same, natively async."""
        with self._watching(request):
            return await handler(request)

    @hook_config(can_jump_to=["end"])
    def before_model(
        self, state: AgentState[Any], runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """End the agent instead of asking the model again, where a bound is reached."""
        stop = watch_of(self.policy, messages_of(state)).stopped
        if stop is None:
            return None
        return {"jump_to": "end", "messages": [stop_message(stop)]}

    @hook_config(can_jump_to=["end"])
    async def abefore_model(
        self, state: AgentState[Any], runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Do the same in an async run."""
        return self.before_model(state, runtime)

    @contextmanager
    def _watching(self, request: ToolCallRequest) -> Generator[None]:
        if not isinstance(request.tool, KernTool):
            yield
            return
        watch = watch_of(self.policy, messages_of(request.state))
        token = WATCH.set(watch)
        try:
            yield
        finally:
            WATCH.reset(token)


class ImagesToUser(AgentMiddleware[AgentState[Any], Any, Any]):
    """Show the images of tools to models that take images from the user alone.

        agent = create_agent(model, as_tools(sandbox), middleware=[ImagesToUser()])

    Such as every model behind Chat Completions: its tool messages hold text only. What
    the model is sent is changed, see `images_to_user`; the state is not.
    """

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: _ModelHandler
    ) -> ModelResponse[Any] | AIMessage:
        """Ask the model with the images moved."""
        return handler(_moved(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: _AsyncModelHandler
    ) -> ModelResponse[Any] | AIMessage:
        """Do the same, natively async."""
        return await handler(_moved(request))


def _moved(request: ModelRequest[Any]) -> ModelRequest[Any]:
    return request.override(messages=images_to_user(request.messages))
