"""Resuming: with `idempotent=True` a call that had ended does not run again."""

# The frameworks leave type parameters of their own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportMissingTypeStubs=false

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from llama_index.core.agent.workflow import (
    AgentWorkflow,
    CodeActAgent,
    FunctionAgent,
    ToolCall,
    ToolCallResult,
)
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.workflow import Context, StartEvent, StopEvent, Workflow, step
from workflows.context.serializers import PickleSerializer

from kern_tools import ConfigError, Sandbox
from kern_tools.adapters import langchain, llama_index, openai
from kern_tools.tools import tools_of
from tests.depth import crossed

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

COUNTS = "open('n', 'a').write('1')\nprint('ran')"
WAITS = f"{COUNTS}\nopen('go').read()"
TWICE = [False, True]
each_way = pytest.mark.parametrize("idempotent", TWICE, ids=["plain", "idempotent"])

old_attributes = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecationWarning"
)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A sandbox in which nothing ran yet."""
    with Sandbox(mode="resident", timeout_s=20) as sandbox:
        yield sandbox


def runs(sandbox: Sandbox) -> int:
    """Say how often the code of `COUNTS` ran."""
    return len(sandbox.read_file("n"))


@pytest.mark.bug("calls that run again on resume")
@each_way
def test_a_call_made_again_runs_again_only_by_default(
    sandbox: Sandbox, idempotent: bool
) -> None:
    """The core's tools, under the same id.

    Source: https://github.com/langchain-ai/langgraph/issues/3126
    """
    (run_code,) = tools_of(sandbox, "run_code", idempotent=idempotent)
    replies = [run_code.call({"code": COUNTS}, call_id="a") for _ in range(2)]
    assert replies[0].artifact["stdout"] == replies[1].artifact["stdout"] == "ran\n"
    assert runs(sandbox) == (1 if idempotent else 2)


@tool
def approve() -> str:
    """Ask a person."""
    return str(interrupt("may I?"))


@pytest.mark.bug("calls that run again on resume")
@each_way
def test_a_graph_that_resumes_a_node_runs_its_calls_again_only_by_default(
    sandbox: Sandbox, idempotent: bool
) -> None:
    """One call of the step interrupts it, so that all of the step is made again.

    Source: https://github.com/langchain-ai/langgraph/issues/3126
    """
    (run_code,) = langchain.as_tools(sandbox, "run_code", idempotent=idempotent)
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([run_code, approve]))
    graph.add_edge(START, "tools")
    app = graph.compile(checkpointer=InMemorySaver())
    calls: Any = [
        {"name": "run_code", "args": {"code": COUNTS}, "id": "a"},
        {"name": "approve", "args": {}, "id": "b"},
    ]
    config: Any = {"configurable": {"thread_id": "t"}}
    state: Any = app.invoke({"messages": [AIMessage("", tool_calls=calls)]}, config)
    while app.get_state(config).next == ("tools",):
        state = app.invoke(Command(resume="yes"), config)
    answers = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert [answer.tool_call_id for answer in answers] == ["a", "b"]
    assert "ran" in answers[0].text
    assert runs(sandbox) == (1 if idempotent else 2)


def model(asks: ChatMessage) -> MockFunctionCallingLLM:
    """Make a model that asks once, until it has read what came of it."""

    def generate(messages: Sequence[ChatMessage], **_: object) -> ChatMessage:
        if any("stdout:" in (message.content or "") for message in messages):
            return ChatMessage(role="assistant", content="done")
        return asks

    return MockFunctionCallingLLM(response_generator=generate)


def function_agent(sandbox: Sandbox, idempotent: bool) -> Any:
    """An agent that calls tools."""
    tools: Any = llama_index.as_tools(sandbox, idempotent=idempotent)
    kwargs = {"code": WAITS}
    block = ToolCallBlock(tool_call_id="a", tool_name="run_code", tool_kwargs=kwargs)
    asks = ChatMessage(role="assistant", blocks=[block])
    return FunctionAgent(tools=tools, llm=model(asks))


def workflow_of_agents(sandbox: Sandbox, idempotent: bool) -> Any:
    """The same, one of several."""
    agent = function_agent(sandbox, idempotent)
    return AgentWorkflow(agents=[agent], root_agent=agent.name)


def code_act_agent(sandbox: Sandbox, idempotent: bool) -> Any:
    """An agent that writes code; LlamaIndex makes up the ids of its calls."""
    execute: Any = llama_index.code_execute_fn(sandbox, idempotent=idempotent)
    text = f"<execute>\n{WAITS}\n</execute>"
    llm = model(ChatMessage(role="assistant", content=text))
    return CodeActAgent(code_execute_fn=execute, llm=llm, tools=[])


@pytest.mark.bug("calls that run again on resume")
@each_way
@pytest.mark.parametrize(
    "agent_of", [function_agent, workflow_of_agents, code_act_agent]
)
@old_attributes
async def test_a_run_that_resumes_makes_its_calls_again_only_by_default(
    sandbox: Sandbox, agent_of: Any, idempotent: bool
) -> None:
    """A context that was stored while a call ran goes on with that call.

    Source: https://github.com/langchain-ai/langgraph/issues/3126
    """
    agent = agent_of(sandbox, idempotent)
    gate = sandbox.workspace.root / "go"
    os.mkfifo(gate)
    run = agent.run(user_msg="go")
    stored: Any = None
    async for event in run.stream_events():
        if isinstance(event, ToolCall) and not isinstance(event, ToolCallResult):
            with await asyncio.to_thread(gate.open, "w"):  # the code runs
                stored = run.ctx.to_dict(serializer=PickleSerializer())
                gate.unlink()
                gate.touch()  # so that it waits no more
    assert str(await run) == "done"
    context: Any = Context.from_dict(agent, stored, serializer=PickleSerializer())
    again = await agent.run(ctx=context)
    assert str(again) == "done"
    results = [llama_index.result_of(call) for call in again.tool_calls]
    assert {result.stdout for result in results if result} == {"ran\n"}
    assert (runs(sandbox) == 1) == idempotent


@pytest.mark.bug("calls that run again on resume")
@each_way
@pytest.mark.parametrize("kind", ["chat", "responses", "shell"])
def test_a_turn_answered_again_runs_again_only_by_default(
    sandbox: Sandbox, kind: str, idempotent: bool
) -> None:
    """As where a program ended before it had stored the answers.

    Source: https://github.com/langchain-ai/langgraph/issues/3126
    """
    tools = openai.as_tools(sandbox, idempotent=idempotent)
    written = {"name": "run_code", "arguments": json.dumps({"code": COUNTS})}
    action = {"commands": ["printf 1 >> n; echo ran"]}
    turns: dict[str, Any] = {
        "chat": {"id": "a", "type": "function", "function": written},
        "responses": {"type": "function_call", "call_id": "a", **written},
        "shell": {"type": "shell_call", "call_id": "a", "action": action},
    }
    first, second = (tools.answer([turns[kind]]) for _ in range(2))
    assert first.items == second.items or not idempotent
    assert "ran" in json.dumps(second.items)
    assert runs(sandbox) == (1 if idempotent else 2)


class Twice(Workflow):
    """A step of one's own that makes the same call twice."""

    run_code: Any = None

    @step
    async def go(self, ctx: Context, ev: StartEvent) -> StopEvent:
        """Make it."""
        for _ in range(2):
            await self.run_code.acall(code=COUNTS, ctx=ctx)
        return StopEvent(result="done")


@pytest.mark.bug("calls that run again on resume")
@old_attributes
async def test_calls_of_a_step_of_ones_own_have_no_id_and_run(sandbox: Sandbox) -> None:
    """The framework names those of agents alone; a loop may repeat itself.

    Source: https://github.com/langchain-ai/langgraph/issues/3126
    """
    workflow = Twice()
    (workflow.run_code,) = llama_index.as_tools(sandbox, "run_code", idempotent=True)
    assert await workflow.run() == "done"
    assert runs(sandbox) == 2


def test_a_release_that_names_no_calls_is_refused(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to install; without the option nothing is asked for."""
    monkeypatch.setitem(sys.modules, "workflows.runtime.types.results", None)
    with pytest.raises(ConfigError) as caught:
        llama_index.as_tools(sandbox, idempotent=True)
    assert caught.value.option == "idempotent"
    assert llama_index.as_tools(sandbox)
