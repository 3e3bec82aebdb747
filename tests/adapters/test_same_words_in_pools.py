"""The contract of the adapters once more, each conversation in a sandbox of a pool."""

# The framework leaves type parameters of its own open.
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from llama_index.core.workflow import Context, StartEvent, StopEvent, Workflow, step

from kern_tools import SandboxPool
from kern_tools.adapters import langchain, llama_index, openai
from kern_tools.testing import AdapterContract, Outcome

from .callers import LangChainCaller, LlamaIndexCaller, OpenAICaller
from .words import by_turns

THREAD: RunnableConfig = {"configurable": {"thread_id": "conversation-17"}}


class Nothing(Workflow):
    """Has contexts, as agents do, and does nothing."""

    @step
    async def end(self, event: StartEvent) -> StopEvent:
        """End where it begins."""
        return StopEvent(result=event)


@dataclass
class ThreadCaller(LangChainCaller):
    """Tool calls of one thread, as a graph with a checkpointer makes them."""

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call a tool."""
        call = self._call(tool, arguments)
        return self._read(self.tools[tool].invoke(call, THREAD))

    async def acall(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call it natively async."""
        call = self._call(tool, arguments)
        return self._read(await self.tools[tool].ainvoke(call, THREAD))


@dataclass
class ContextCaller(LlamaIndexCaller):
    """Keyword arguments, and the `Context` that agents pass beside them."""

    context: Any = field(default_factory=lambda: Context(Nothing()))

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call a tool."""
        return self._read(self.tools[tool](ctx=self.context, **arguments))

    async def acall(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call it natively async."""
        output = await self.tools[tool].acall(ctx=self.context, **arguments)
        return self._read(output)


@dataclass
class ConversationCaller(OpenAICaller):
    """Function calls of one conversation."""

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call a tool."""
        calls = [self._call(tool, arguments)]
        return self._read(self.tools.answer(calls, conversation=17))

    async def acall(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call it natively async."""
        calls = [self._call(tool, arguments)]
        return self._read(await self.tools.aanswer(calls, conversation=17))


class InPool(AdapterContract):
    """Where the calls run: in a pool, of which each has one sandbox."""

    @pytest.fixture
    def pool(self) -> Iterator[SandboxPool]:
        """A pool with the options of the contract's own sandbox."""
        with SandboxPool(timeout_s=20, prewarm=0) as pool:
            yield pool
            assert len(pool) <= 1


@by_turns(1)
class TestLangChain(InPool):
    """LangChain's messages hold the contract, by `thread_id`."""

    @pytest.fixture
    def adapter(self, pool: SandboxPool) -> ThreadCaller:
        """Every tool, by name."""
        tools: list[BaseTool] = langchain.as_tools(pool, "coding")
        return ThreadCaller({tool.name: tool for tool in tools})


@by_turns(1)
class TestLlamaIndex(InPool):
    """LlamaIndex's outputs hold the contract, by `Context`."""

    @pytest.fixture
    def adapter(self, pool: SandboxPool) -> ContextCaller:
        """Every tool, by name."""
        tools = llama_index.as_tools(pool, "coding")
        return ContextCaller({tool.metadata.get_name(): tool for tool in tools})


@by_turns(1)
class TestResponses(InPool):
    """OpenAI's Responses hold the contract, by `conversation=`."""

    @pytest.fixture
    def adapter(self, pool: SandboxPool) -> ConversationCaller:
        """All tools at once."""
        return ConversationCaller(openai.as_tools(pool, "coding"))
