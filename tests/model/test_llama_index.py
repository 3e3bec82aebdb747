"""A real small model drives an agent of LlamaIndex, through its own OpenAI models."""

# The framework leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportMissingImports=false

from __future__ import annotations

from typing import Any

import httpx
import pytest
from llama_index.core.agent.workflow import AgentOutput, FunctionAgent, ToolCallResult

from kern_tools import Sandbox
from kern_tools.adapters.llama_index import as_tools, result_of

from .judging import MAX_TOKENS, MAX_TURNS, QUESTION, TOOL, Seen, judged

pytestmark = [
    pytest.mark.model,
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),
]


async def test_llama_index(model_url: str, told: list[str]) -> None:
    """A `FunctionAgent`, whose turns are always streamed."""
    reason = "llama-index-llms-openai refuses openai 3; `make test-model` has both"
    models = pytest.importorskip("llama_index.llms.openai", reason=reason)
    # The name is one whose context window the framework knows; the server ignores it.
    options = {"temperature": 0, "max_tokens": MAX_TOKENS, "strict": False}
    async with httpx.AsyncClient(timeout=1800) as http:
        model = models.OpenAI(
            model="gpt-4.1",
            api_base=model_url,
            api_key="none",
            async_http_client=http,
            **options,
        )
        with Sandbox() as sandbox, judged("LlamaIndex, chat", sandbox, told) as seen:
            await _run(sandbox, model, seen)


async def _run(sandbox: Sandbox, model: Any, seen: Seen) -> None:
    agent = FunctionAgent(tools=list(as_tools(sandbox, TOOL)), llm=model)
    limit: Any = {"max_iterations": MAX_TURNS, "early_stopping_method": "generate"}
    handler: Any = agent.run(user_msg=QUESTION, **limit)  # pyright: ignore[reportDeprecated]
    async for event in handler.stream_events():
        if isinstance(event, ToolCallResult):
            seen.calls.append((event.tool_kwargs, result_of(event)))
        if isinstance(event, AgentOutput):
            seen.turns, seen.text = seen.turns + 1, str(event.response.content)
    await handler
