"""LangChain and LangGraph: tools, agents, checkpoints."""

# The framework leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

import pytest
from langchain import agents
from langchain_core.messages import (
    AIMessage,
    ToolCall,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import SecretStr

from kern_tools import ExecutionResult, Sandbox, SandboxPool
from kern_tools.adapters.langchain import KernToolkit, as_tools, result_of
from kern_tools.scripted import ScriptedCall, ScriptedServer, Step
from kern_tools.tools import tools_of
from tests.depth import crossed

from .cells import CHARTS, LOOP, WAITS, Gate

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

GO: Any = {"messages": [("user", "go")]}

EXAMPLES: dict[str, dict[str, Any]] = {
    "run_code": {"code": "print(1)"},
    "read_file": {"path": "a.txt"},
    "write_file": {"path": "a.txt", "content": "hello"},
    "list_files": {},
}

UNUSABLE: dict[str, dict[str, Any]] = {
    "missing": {},
    "wrong type": {"code": 5},
    "null": {"code": None},
    "unknown key": {"code": "print(1)", "image": "alpine"},
    "framework key": {"code": "print(1)", "config": {}, "run_manager": None},
    "surrogate key": {"code": "print(1)", "\ud800": 1},
    "nested": {"code": {"code": "print(1)"}},
}


def named(sandbox: Sandbox, name: str = "run_code") -> BaseTool:
    """Pick one tool."""
    return {tool.name: tool for tool in as_tools(sandbox)}[name]


def call(args: dict[str, Any], call_id: str = "c1", name: str = "run_code") -> ToolCall:
    """Write a tool call."""
    return {"type": "tool_call", "id": call_id, "name": name, "args": args}


def model(server: ScriptedServer, **options: Any) -> ChatOpenAI:
    """Point LangChain's OpenAI model at the scripted server."""
    key = SecretStr("none")
    return ChatOpenAI(base_url=server.url, api_key=key, model="scripted", **options)


def agent_of(llm: ChatOpenAI, tools: list[BaseTool], **options: Any) -> Any:
    """Build LangChain's agent; its many type parameters are not our subject."""
    return agents.create_agent(llm, tools, **options)


def tool_messages(state: dict[str, Any]) -> list[ToolMessage]:
    """Pick the tools' answers out of an agent's state."""
    return [m for m in state["messages"] if isinstance(m, ToolMessage)]


class _EveryTool:
    """Gives a suite of langchain-tests each of our tools in turn."""

    @pytest.fixture(autouse=True, params=EXAMPLES)
    def _given(self, request: pytest.FixtureRequest, sandbox: Sandbox) -> None:
        self._sandbox, self._name = sandbox, str(request.param)

    @property
    def tool_constructor(self) -> BaseTool:
        """The tool under test."""
        return named(self._sandbox, self._name)

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        """Arguments that it takes."""
        return EXAMPLES[self._name]


class TestStandardUnit(_EveryTool, ToolsUnitTests):
    """LangChain's own unit suite holds for every tool."""


class TestStandardIntegration(_EveryTool, ToolsIntegrationTests):
    """LangChain's own integration suite holds for every tool."""


def test_a_tool_call_gives_a_message_with_the_result_beside_it(
    sandbox: Sandbox,
) -> None:
    """Text for the model in `content`, plain JSON for code in `artifact`."""
    message = named(sandbox).invoke(call({"code": "print(6 * 7)"}, "c7"))
    result = result_of(message)
    assert isinstance(message, ToolMessage)
    assert (message.status, message.name, message.tool_call_id) == (
        "success",
        "run_code",
        "c7",
    )
    assert isinstance(message.content, str)
    assert result is not None
    assert (result.stdout, result.call_id) == ("42\n", "c7")
    assert json.loads(json.dumps(message.artifact)) == message.artifact


def test_a_non_zero_exit_is_no_error_of_the_tool(sandbox: Sandbox) -> None:
    """The tool did its work: the exit code is in the result, the status is success."""
    message = named(sandbox).invoke(call({"code": "raise SystemExit(3)"}))
    assert (message.status, message.artifact["exitCode"]) == ("success", 3)


def test_a_fault_sets_the_status_and_raises_nothing(sandbox: Sandbox) -> None:
    """A raise would end the agent's run and lose the artifact."""
    message = named(sandbox).invoke(call(LOOP))
    match result_of(message):
        case ExecutionResult(fault=fault, stdout="before\n") if fault:
            assert fault.type == "timeout"
        case other:
            pytest.fail(f"no fault in {other!r}")
    assert message.status == "error"
    assert message.artifact["fault"]["type"] == "timeout"


@pytest.mark.parametrize("args", UNUSABLE.values(), ids=UNUSABLE)
async def test_unusable_arguments_are_answered(
    sandbox: Sandbox, args: dict[str, Any]
) -> None:
    """The framework's validation would raise; the tool says what to send instead."""
    tool = named(sandbox)
    for message in (tool.invoke(call(args)), await tool.ainvoke(call(args))):
        assert message.status == "error"
        assert message.artifact == {
            "fault": None,
            "error": "bad_arguments",
            "tool": "run_code",
        }
        assert result_of(message) is None
        assert "`code`" in message.text
        message.text.encode()


def test_a_dict_or_a_string_gives_the_content_alone(sandbox: Sandbox) -> None:
    """Without a call's id there is no message to answer with."""
    tool = named(sandbox)
    assert "42" in tool.invoke({"code": "print(6 * 7)"})
    assert "42" in tool.invoke('{"code": "print(6 * 7)"}')
    assert "bad arguments" in tool.invoke("no JSON")


def test_images_are_blocks_of_their_own(sandbox: Sandbox) -> None:
    """Two charts are two image blocks after the text, in order."""
    message = named(sandbox).invoke(call({"code": CHARTS}))
    text, *images = message.content
    assert text["type"] == "text"
    assert [image["type"] for image in images] == ["image", "image"]
    assert {image["mime_type"] for image in images} == {"image/png"}
    assert images[0]["base64"] not in text["text"]
    shown = result_of(message)
    assert shown is not None
    assert [value.data["image/png"] for value in shown.results] == [
        image["base64"] for image in images
    ]


def test_images_can_be_left_out(sandbox: Sandbox) -> None:
    """A model without eyes gets the text alone, which names the images."""
    (tool,) = as_tools(sandbox, "code", images="none")
    message = tool.invoke(call({"code": CHARTS}))
    assert isinstance(message.content, str)
    assert "image 2" in message.content


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_model_is_sent_our_schema(
    sandbox: Sandbox, name: str, strict: bool
) -> None:
    """LangChain's conversion changes nothing in it."""
    (ours,) = tools_of(sandbox, name)
    (tool,) = as_tools(sandbox, name, strict=strict)
    function = convert_to_openai_tool(tool)["function"]
    assert function["parameters"] == ours.schema(strict=strict)
    assert function["description"] == ours.description
    assert set(tool.args) == set(ours.arguments.model_fields)
    if strict:
        converted = convert_to_openai_tool(tool, strict=True)["function"]
        assert converted["parameters"] == ours.schema()


def test_the_toolkit_holds_the_same_tools(sandbox: Sandbox) -> None:
    """`KernToolkit` is `as_tools` for code that wants a toolkit."""
    tools = KernToolkit(sandbox=sandbox, tools="files").get_tools()
    assert [t.name for t in tools] == ["read_file", "write_file", "list_files"]


@pytest.mark.parametrize("responses", [False, True], ids=["chat", "responses"])
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_an_agent_reads_what_ran_and_goes_on(
    sandbox: Sandbox, responses: bool, streaming: bool
) -> None:
    """Parallel calls, a fault and unusable arguments are answered in one turn."""
    calls = [
        ScriptedCall("run_code", {"code": "print(6 * 7)"}, "good"),
        ScriptedCall("run_code", LOOP, "slow"),
        ScriptedCall("run_code", {"cod": "print(1)"}, "bad"),
    ]
    with ScriptedServer([calls, "done"]) as server:
        llm = model(server, use_responses_api=responses, streaming=streaming)
        agent = agent_of(llm, as_tools(sandbox))
        state = agent.invoke(GO)
    good, slow, bad = tool_messages(state)
    assert state["messages"][-1].text == "done"
    assert (good.tool_call_id, good.status) == ("good", "success")
    assert (slow.tool_call_id, slow.status) == ("slow", "error")
    assert (bad.tool_call_id, bad.artifact["error"]) == ("bad", "bad_arguments")
    sent = json.dumps(server.requests[1].body)
    assert all(json.dumps(m.text)[1:-1] in sent for m in (good, slow, bad))


async def test_an_async_agent_does_the_same(sandbox: Sandbox) -> None:
    """`ainvoke` takes the native async way of every tool."""
    script: list[Step] = [
        ScriptedCall("write_file", {"path": "n.txt", "content": "42"}),
        ScriptedCall("run_code", {"code": "print(open('n.txt').read())"}),
        "done",
    ]
    with ScriptedServer(script) as server:
        agent = agent_of(model(server), as_tools(sandbox))
        state = await agent.ainvoke(GO)
    assert [m.name for m in tool_messages(state)] == ["write_file", "run_code"]
    last = result_of(tool_messages(state)[-1])
    assert last is not None
    assert last.stdout == "42\n"


@pytest.mark.parametrize("mode", ["values", "updates", "messages", "debug"])
def test_results_travel_through_every_stream_mode(sandbox: Sandbox, mode: Any) -> None:
    """Whatever a graph streams, the message in it has its artifact."""
    script: list[Step] = [ScriptedCall("run_code", {"code": "print(6 * 7)"}), "done"]
    with ScriptedServer(script) as server:
        agent = agent_of(model(server), as_tools(sandbox))
        stream = agent.stream(GO, stream_mode=mode)
        found = [m for event in stream for m in _messages_in(event)]
    assert {r.stdout for m in found if (r := result_of(m)) is not None} == {"42\n"}


def _messages_in(event: Any) -> Iterator[ToolMessage]:
    """Find tool messages at any depth."""
    if isinstance(event, ToolMessage):
        yield event
    elif isinstance(event, dict):
        yield from _messages_in(list(event.values()))
    elif isinstance(event, list | tuple):
        for value in cast("Iterable[Any]", event):
            yield from _messages_in(value)


def test_results_survive_a_checkpoint(sandbox: Sandbox) -> None:
    """After a checkpointer, and after its bytes, the result is the same."""
    script: list[Step] = [ScriptedCall("run_code", {"code": CHARTS}), "done", "again"]
    config: Any = {"configurable": {"thread_id": "t1"}}
    with ScriptedServer(script) as server:
        saver = InMemorySaver()
        agent = agent_of(model(server), as_tools(sandbox), checkpointer=saver)
        state = agent.invoke(GO, config)
        state = agent.invoke(GO, config)
    (message,) = tool_messages(state)
    serde = JsonPlusSerializer()
    stored = serde.loads_typed(serde.dumps_typed(message))
    (read,) = messages_from_dict(messages_to_dict([message]))
    results = [result_of(m) for m in (message, stored, read, message.artifact)]
    assert results[0] is not None
    assert len(results[0].results) == 2
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize(
    "other",
    [AIMessage("hi"), ToolMessage("x", tool_call_id="1"), {}, None, "text", 5],
    ids=repr,
)
def test_other_messages_hold_no_result(other: object) -> None:
    """`result_of` may be asked of any message of a conversation."""
    assert result_of(other) is None


async def test_cancelling_a_call_ends_its_box(patient: Sandbox, gate: Gate) -> None:
    """The cancellation goes on once nothing of the call is left."""
    task = asyncio.create_task(named(patient).ainvoke(call({"code": WAITS})))
    assert await asyncio.to_thread(gate.wait) == b"running"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.is_gone()
    message = await named(patient).ainvoke(call({"code": "print(7)"}))
    assert "7" in message.text


async def test_cancelling_an_agent_ends_the_box_of_its_call(
    patient: Sandbox, gate: Gate
) -> None:
    """What holds for a call holds for a call inside a graph."""
    with ScriptedServer([ScriptedCall("run_code", {"code": WAITS})]) as server:
        agent = agent_of(model(server), as_tools(patient))
        run = agent.ainvoke(GO)
        task = asyncio.ensure_future(run)
        assert await asyncio.to_thread(gate.wait) == b"running"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert gate.is_gone()


# a pool


def thread(name: str, **more: Any) -> Any:
    """Write the config of a thread."""
    return {"configurable": {"thread_id": name, **more}}


READ = {"code": "import os\nprint(sorted(f for f in os.listdir() if f[0] != '.'))"}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_threads_of_an_agent_do_not_share_files(
    pool: SandboxPool, is_async: bool
) -> None:
    """Each `thread_id` has a sandbox, which its next run finds again."""
    write = ScriptedCall("write_file", {"path": "n.txt", "content": "42"})
    script: list[Step] = [
        *([write, ScriptedCall("list_files", {})], "done"),
        *(ScriptedCall("run_code", READ), "done"),
        *(ScriptedCall("run_code", READ), "done"),
    ]
    with ScriptedServer(script) as server:
        saver = InMemorySaver()
        agent = agent_of(model(server), as_tools(pool), checkpointer=saver)
        states: list[Any] = []
        for name in ("t1", "t2", "t1"):
            config = thread(name)
            if is_async:
                states.append(await agent.ainvoke(GO, config))
            else:
                states.append(agent.invoke(GO, config))
    _, *later = (result_of(tool_messages(state)[-1]) for state in states)
    assert [result and result.stdout for result in later] == ["[]\n", "['n.txt']\n"]
    assert len(pool) == 2


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("config", [None, thread(""), {"configurable": {}}], ids=repr)
def test_without_a_thread_nothing_runs(
    pool: SandboxPool, name: str, config: Any
) -> None:
    """The fault is the operator's, and says what to pass."""
    (tool,) = as_tools(pool, name)
    message = tool.invoke(call(EXAMPLES[name], name=name), config)
    result = result_of(message)
    assert result is not None
    assert result.fault is not None
    assert (result.fault.type, result.fault.reason, result.fault.actor) == (
        "startup_failed",
        "conversation",
        "operator",
    )
    assert message.status == "error"
    assert "thread_id" in message.text
    assert len(pool) == 0


def test_parallel_first_calls_share_their_threads_sandbox(pool: SandboxPool) -> None:
    """Calls of one turn that come first at once meet in one workspace."""
    first = "import os, time\nwhile not os.path.exists('b'): time.sleep(.005)"
    second = "open('b', 'w').close()"
    calls = [ScriptedCall("run_code", {"code": code}, code) for code in (first, second)]
    with ScriptedServer([calls, "done"]) as server:
        state = agent_of(model(server), as_tools(pool)).invoke(GO, thread("t1"))
    assert [message.status for message in tool_messages(state)] == ["success"] * 2
    assert len(pool) == 1


def test_the_config_tells_the_tenant(pool: SandboxPool) -> None:
    """One `thread_id` of two tenants is two sandboxes; of nobody it is none."""

    def tenant(config: RunnableConfig) -> object:
        return config.get("configurable", {})["user"]

    (tool,) = as_tools(pool, "code", tenant=tenant)
    write = call({"code": "open('n.txt', 'w').close()"})
    tool.invoke(write, thread("t1", user="ann"))
    other = result_of(tool.invoke(call(READ), thread("t1", user="bob")))
    nobody = [
        result_of(tool.invoke(call(READ), config))
        for config in (thread("t1"), thread("t1", user=None), thread("t1", user=""))
    ]
    assert other is not None
    assert other.stdout == "[]\n"
    faults = [result.fault for result in nobody if result is not None]
    assert [fault and fault.reason for fault in faults] == ["tenant"] * 3
    assert len(pool) == 2


def test_a_thread_whose_sandbox_was_closed_is_told(pool: SandboxPool) -> None:
    """The model reads it in the first reply, and code finds it in the result."""
    (tool,) = as_tools(pool, "code")
    for name in ("t1", "t2", "t3"):
        tool.invoke(call(READ), thread(name))
    message = tool.invoke(call(READ), thread("t1"))
    result = result_of(message)
    assert result is not None
    assert (result.state_new, result.files_lost) == (True, True)
    assert "files" in message.text.splitlines()[1]


def test_a_pool_that_is_full_is_a_fault_to_try_again(pool: SandboxPool) -> None:
    """A raise would end the agent's run."""
    (tool,) = as_tools(pool, "code")
    with pool.lease("a"), pool.lease("b"):
        result = result_of(tool.invoke(call(READ), thread("t1")))
    assert result is not None
    assert result.fault is not None
    assert (result.fault.reason, result.fault.retryable) == ("pool_full", True)


def test_a_pools_tools_are_described_as_its_sandboxes_are(pool: SandboxPool) -> None:
    """Same words and schema, and no sandbox is opened for them."""
    pooled = [convert_to_openai_tool(tool) for tool in as_tools(pool)]
    assert len(pool) == 0
    toolkit = KernToolkit(sandbox=pool).get_tools()
    assert [convert_to_openai_tool(tool) for tool in toolkit] == pooled
    own = [convert_to_openai_tool(tool) for tool in as_tools(pool.get("t1"))]
    assert pooled == own
