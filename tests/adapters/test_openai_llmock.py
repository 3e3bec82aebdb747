"""The loops on a server whose words are its own, so that not only ours were ever read.

The scripted server says what `scripted_wire` writes; this one is llmock as it comes.
"""

# The frameworks leave type parameters of their own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportMissingImports=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from llmock.scenarios import Reply, ToolCall
from llmock.testing import LLMockServer
from openai import OpenAI

from kern_tools import Sandbox
from kern_tools.adapters.openai import as_tools, run_loop
from kern_tools.scripted import ScriptedRequest

from .request_checks import problems_of

FAILS = ToolCall("run_code", {"code": "print(sum_of(6, 7))"})
WORKS = ToolCall("run_code", {"code": "print(6 * 7)"})
MODES = [(api, stream) for api in ("chat", "responses") for stream in (False, True)]
each_mode = pytest.mark.parametrize(("api", "stream"), MODES, ids=str)


@pytest.fixture
def server() -> Iterator[LLMockServer]:
    """A server that calls twice, in the second turn side by side, and then answers."""
    with LLMockServer() as server:
        for calls in ((FAILS,), (WORKS, WORKS)):
            server.state.scenarios.add(Reply(tool_calls=calls))
        server.state.scenarios.add(Reply(text="It is 42."))
        yield server


def assert_answered(server: LLMockServer) -> None:
    """Check that three valid requests came, the last one with all that ran."""
    records = server.state.journal.records(wait=2)
    requests = [ScriptedRequest(record.path, record.body) for record in records]
    assert [problems_of(request) for request in requests] == [[], [], []]
    last = str(requests[-1].body)
    assert (last.count("NameError"), last.count("```\\n42\\n```")) == (1, 2)


@each_mode
def test_run_loop(
    sandbox: Sandbox, server: LLMockServer, api: Any, stream: bool
) -> None:
    """The loop of the OpenAI adapter."""
    with OpenAI(base_url=server.base_url(), api_key="none", max_retries=0) as client:
        tools = as_tools(sandbox, "run_code")
        result = run_loop(client, tools, "go", model="m", api=api, stream=stream)
    assert (result.reason, result.text, result.turns) == ("done", "It is 42.", 3)
    assert_answered(server)


@each_mode
def test_langchain(
    sandbox: Sandbox, server: LLMockServer, api: str, stream: bool
) -> None:
    """An agent of LangChain; CI runs this with openai 3."""
    chat_models = pytest.importorskip("langchain_openai")
    agents = pytest.importorskip("langchain.agents")
    from kern_tools.adapters import langchain

    model = chat_models.ChatOpenAI(
        base_url=server.base_url(),
        api_key="none",
        model="m",
        streaming=stream,
        use_responses_api=api == "responses",
        max_retries=0,
    )
    tools = list(langchain.as_tools(sandbox, "run_code"))
    state = agents.create_agent(model, tools).invoke({"messages": [("user", "go")]})
    assert state["messages"][-1].text == "It is 42."
    assert_answered(server)


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")
@pytest.mark.parametrize("kind", ["OpenAI", "OpenAIResponses"])
async def test_llama_index(sandbox: Sandbox, server: LLMockServer, kind: str) -> None:
    """An agent of LlamaIndex, whose turns are streamed; CI runs it with openai 2."""
    models = pytest.importorskip("llama_index.llms.openai")
    from llama_index.core.agent.workflow import FunctionAgent

    from kern_tools.adapters import llama_index

    async with httpx.AsyncClient() as http:
        options = {"api_base": server.base_url(), "api_key": "none", "strict": False}
        model = getattr(models, kind)(
            model="gpt-4.1", async_http_client=http, max_retries=0, **options
        )
        tools: list[Any] = list(llama_index.as_tools(sandbox, "run_code"))
        agent = FunctionAgent(tools=tools, llm=model)
        last: Any = await agent.run(user_msg="go")  # pyright: ignore[reportDeprecated]
    assert str(last) == "It is 42."
    assert_answered(server)
