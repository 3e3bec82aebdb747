"""One span for each call, whichever framework makes it, below the caller's own."""

# The frameworks leave parts of their types open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    RunConfig,
    Runner,
    ShellActionRequest,
    ShellCallData,
    ShellCommandRequest,
    ShellTool,
)
from agents.run_context import RunContextWrapper
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from pydantic import SecretStr

from kern_tools import FaultPolicy, Sandbox
from kern_tools.adapters import (
    deepagents,
    langchain,
    llama_index,
    mcp,
    openai,
    openai_agents,
)
from kern_tools.scripted import ScriptedCall, Step
from tests.depth import crossed
from tests.traces import Traces, attributes, id_of, parent_of

from .agents_model import ScriptedModel, asked, said
from .cells import WAITS, Gate
from .loops import WAYS, Way, aclient, client, serving
from .mcp_clients import connected

# LlamaIndex reads every attribute of its own agents, pydantic's deprecated ones too.
pytestmark = [
    crossed(),  # each value of each axis; `make verify` takes every pair
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]
PRINT = {"code": "print(6 * 7)"}
Using = Callable[[Sandbox, Way], Awaitable[object]]
"""Makes one call of `run_code`, with the id `c1` where the framework passes ids on."""


async def _langchain(sandbox: Sandbox, way: Way) -> object:
    (tool,) = langchain.as_tools(sandbox, "run_code")
    call: Any = {"type": "tool_call", "name": "run_code", "args": PRINT, "id": "c1"}
    if way == "async":
        return await tool.ainvoke(call)
    return await asyncio.to_thread(tool.invoke, call)


async def _langgraph(sandbox: Sandbox, way: Way) -> object:
    given: Any = {"messages": [("user", "go")]}
    with serving(ScriptedCall("run_code", PRINT, "c1"), "done") as server:
        model = ChatOpenAI(base_url=server.url, api_key=SecretStr("k"), model="m")
        bounds = langchain.FaultMiddleware()
        tools = langchain.as_tools(sandbox)
        agent: Any = create_agent(model, tools, middleware=[bounds])
        if way == "async":
            return await agent.ainvoke(given)
        return await asyncio.to_thread(agent.invoke, given)


async def _llama_index(sandbox: Sandbox, way: Way) -> object:
    (tool,) = llama_index.as_tools(sandbox, "run_code")
    if way == "async":
        return await tool.acall(**PRINT)
    return await asyncio.to_thread(tool.call, **PRINT)


async def _llama_index_agent(sandbox: Sandbox, _: Way) -> object:
    call = ToolCallBlock(tool_call_id="c1", tool_name="run_code", tool_kwargs=PRINT)
    turns = iter([[call], [TextBlock(text="done")]])

    def generate(messages: Any, **more: Any) -> ChatMessage:
        blocks: Any = next(turns)
        return ChatMessage(role="assistant", blocks=blocks)

    llm = MockFunctionCallingLLM(response_generator=generate)
    given: Any = llama_index.as_tools(sandbox, idempotent=True)
    agent: Any = FunctionAgent(tools=given, llm=llm)
    return await agent.run(user_msg="go")


async def _openai(sandbox: Sandbox, way: Way) -> object:
    tools = openai.as_tools(sandbox)
    written = json.dumps(PRINT)
    call = {"type": "function_call", "call_id": "c1", "name": "run_code"}
    if way == "async":
        return await tools.aanswer([{**call, "arguments": written}])
    return await asyncio.to_thread(tools.answer, [{**call, "arguments": written}])


async def _openai_loop(sandbox: Sandbox, way: Way) -> object:
    tools = openai.as_tools(sandbox)
    script: list[Step] = [ScriptedCall("run_code", PRINT, "c1"), "done"]
    with serving(*script) as server:
        if way == "async":
            async with aclient(server) as api:
                return await openai.arun_loop(api, tools, "go", model="scripted")
        with client(server) as api:
            run = openai.run_loop
            return await asyncio.to_thread(run, api, tools, "go", model="scripted")


async def _openai_agents(sandbox: Sandbox, _: Way) -> object:
    tools = openai_agents.as_tools(sandbox, policy=FaultPolicy())
    model = ScriptedModel([asked(PRINT)], [said()])
    agent = Agent(name="a", model=model, tools=tools)
    return await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))


async def _mcp(sandbox: Sandbox, _: Way) -> object:
    async with connected(mcp.as_server(sandbox)) as session:
        return await session.call_tool("run_code", PRINT)


BY_ID = {
    "langchain": _langchain,
    "langgraph": _langgraph,
    "llama_index agent": _llama_index_agent,
    "openai": _openai,
    "openai loop": _openai_loop,
    "openai_agents": _openai_agents,
}
USES = {**BY_ID, "llama_index": _llama_index, "mcp": _mcp}


@pytest.fixture
def traces(sandbox: Sandbox) -> Traces:
    """What is told of the sandbox's calls."""
    traces = Traces()
    traces.follow(sandbox)
    return traces


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_a_call_is_one_span_below_the_callers(
    sandbox: Sandbox, traces: Traces, use: Using, way: Way
) -> None:
    """In its thread, in one of the framework's, and in one of ours."""
    with traces.tracer.start_as_current_span("agent") as agent:
        await use(sandbox, way)
    span, said_of_it = traces.span(), attributes(traces.span())
    assert span.name == "execute_tool run_code"
    assert parent_of(span) == id_of(agent)
    assert said_of_it["kern_tools.stdout_bytes"] == 3
    if use in BY_ID.values():
        assert said_of_it["gen_ai.tool.call.id"] == "c1"


@pytest.mark.parametrize("way", WAYS)
async def test_a_deep_agents_commands_are_spans(
    sandbox: Sandbox, traces: Traces, way: Way
) -> None:
    """Its backend is told of no call's id, and a write takes no box."""
    backend = deepagents.KernBackend(sandbox)
    with traces.tracer.start_as_current_span("agent") as agent:
        backend.write("/workspace/a.txt", "hi")
        if way == "async":
            await backend.aexecute("cat a.txt; exit 3")
        else:
            await asyncio.to_thread(backend.execute, "cat a.txt; exit 3")
    span = traces.span()
    assert (span.name, parent_of(span)) == ("execute_tool run_command", id_of(agent))
    assert attributes(span)["process.exit.code"] == 3


async def test_a_shell_call_is_one_span(sandbox: Sandbox, traces: Traces) -> None:
    """However many commands it brings."""
    tool = openai_agents.as_shell_tool(sandbox)
    assert isinstance(tool, ShellTool)
    action = ShellActionRequest(commands=["echo 1", "echo 2"])
    data = ShellCallData(call_id="s1", action=action)
    executor: Any = tool.executor
    await executor(ShellCommandRequest(RunContextWrapper[Any](None), data))
    assert traces.span().name == "execute_tool shell"
    assert attributes(traces.span())["gen_ai.tool.call.id"] == "s1"


async def test_cancelling_a_framework_ends_the_span(
    patient: Sandbox, gate: Gate
) -> None:
    """As cancelled, when the box is gone; not every framework waits for that."""
    traces = Traces()
    traces.follow(patient)
    (tool,) = openai_agents.as_tools(patient, "run_code")
    assert isinstance(tool, FunctionTool)
    model = ScriptedModel([asked({"code": WAITS})])
    agent = Agent(name="a", model=model, tools=[tool])
    run = Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))
    running = asyncio.create_task(run)
    assert await asyncio.to_thread(gate.wait) == b"running"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    while not traces.spans():
        await asyncio.sleep(0)
    assert attributes(traces.span())["error.type"] == "cancelled"
    assert gate.is_gone()
