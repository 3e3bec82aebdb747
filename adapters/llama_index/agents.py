"""Agents that end where the policy of their tools says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kern_tools.adapters.llama_index.watches import stop_in
from kern_tools.extras import missing
from kern_tools.reply import member
from kern_tools.stop import Stop

try:
    from llama_index.core.agent.react.types import ResponseReasoningStep
    from llama_index.core.agent.workflow import AgentOutput, FunctionAgent
    from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
    from llama_index.core.base.llms.types import ChatMessage
except ImportError as error:
    missing("llama-index", error)

__all__ = ["KernFunctionAgent", "StopsOnFault", "stop_of"]

_KEY = "kern_stop"


class StopsOnFault(BaseWorkflowAgent):
    """Lets an agent end where its tools' policy says so; to be inherited first.

        class Agent(StopsOnFault, CodeActAgent):
            pass

    The model is not asked again: the response is the reason, for people, and
    `stop_of(response)` gives it to code. All calls are answered in the memory, and the
    next run of the same context begins anew.
    """

    async def take_step(
        self, ctx: Any, llm_input: Any, tools: Sequence[Any], memory: Any
    ) -> AgentOutput:
        """Ask the model, or say why it is not asked again."""
        stop = stop_in(ctx, tools)
        if stop is None:
            return await super().take_step(ctx, llm_input, tools, memory)  # type: ignore[safe-super]
        said = ChatMessage(role="assistant", content=stop.message)
        await self._conclude(ctx, said)
        return AgentOutput(
            response=said,
            tool_calls=[],
            raw={_KEY: stop.model_dump(mode="json")},
            current_agent_name=self.name,
        )

    async def _conclude(self, ctx: Any, said: ChatMessage) -> None:
        """Leave the last word where each kind of agent takes it to the memory from."""
        last: Any = said
        key = getattr(self, "scratchpad_key", None)
        if key is None:
            key = getattr(self, "reasoning_key", None)
            text = said.content or ""
            last = ResponseReasoningStep(thought=text, response=text)
        if key is not None:
            steps = await ctx.store.get(key, default=[])
            await ctx.store.set(key, [*steps, last])


class KernFunctionAgent(StopsOnFault, FunctionAgent):
    """A `FunctionAgent` that ends where its tools' policy says so.

        policy = FaultPolicy(max_repeats=2)
        agent = KernFunctionAgent(tools=as_tools(sandbox, policy=policy), llm=llm)
        response = await agent.run("go")
        if (stop := stop_of(response)) is not None:
            print(stop.reason, stop.message)

    An agent of another kind inherits `StopsOnFault`.
    """


def stop_of(output: object) -> Stop | None:
    """Read why an agent was ended.

    Args:
        output: What its run gave: an `AgentOutput`, or one as a dict.

    Returns:
        The reason with its words; None where the model ended by itself.
    """
    found = member(member(output, "raw", {}), _KEY)
    return None if found is None else Stop.model_validate(found)
