"""Output told while a call runs, by each framework's own way of telling."""

# The frameworks leave type parameters of their own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from langchain import agents
from langchain_core.messages import ToolMessage
from langchain_openai import ChatOpenAI
from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.workflow import Context
from pydantic import SecretStr

from kern_tools import OutputEvent, Sandbox
from kern_tools.adapters import langchain, llama_index, openai
from kern_tools.scripted import ScriptedCall, ScriptedServer, Step

from .cells import WAITS, Gate

# The framework's workflows read pydantic's old attributes off every agent.
old_attributes = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecationWarning"
)
GO: Any = {"messages": [("user", "go")]}
BOTH = (
    "import os\nfor byte in 'aé🙂'.encode(): os.write(1, bytes([byte]))\n"
    "os.write(2, b'oh')\nos.write(1, b'{0}')"
)
ANSWERED = (
    "import os\nfor n in range(3):\n    print(n, flush=True)\n"
    "    while not os.path.exists(f'seen{n}'): pass\n"
)
"""Goes on only once somebody saw what it printed."""
TWO = {"a": BOTH.format("A"), "b": BOTH.format("B")}
TOLD = {
    **{("a", "stdout"): "aé🙂A", ("a", "stderr"): "oh"},
    **{("b", "stdout"): "aé🙂B", ("b", "stderr"): "oh"},
}
FLOOD = {"code": "import os\nfor _ in range(64): os.write(1, b'x' * 65536)\n"}


def joined(events: Sequence[Any]) -> dict[tuple[str, str], str]:
    """Join the pieces of each call's streams."""
    streams: dict[tuple[str, str], str] = {}
    for event in events:
        key = event["call_id"], event["stream"]
        streams[key] = streams.get(key, "") + event["text"]
    return streams


def calls(**code: str) -> list[Step]:
    """Script a turn that runs code under each id, and the turn after it."""
    return [[ScriptedCall("run_code", {"code": c}, i) for i, c in code.items()], "done"]


# LangChain and LangGraph


def graph(server: ScriptedServer, sandbox: Sandbox) -> Any:
    """Build LangChain's agent, which is a graph."""
    key = SecretStr("none")
    llm = ChatOpenAI(base_url=server.url, api_key=key, model="scripted")
    return agents.create_agent(llm, langchain.as_tools(sandbox))


def test_a_graph_tells_output_in_its_custom_stream(sandbox: Sandbox) -> None:
    """Calls side by side are told apart by the id that the model gave them."""
    with ScriptedServer(calls(**TWO)) as server:
        chunks = list(graph(server, sandbox).stream(GO, stream_mode="custom"))
    assert {key for chunk in chunks for key in chunk} == {"kern_tools"}
    assert joined([chunk["kern_tools"] for chunk in chunks]) == TOLD
    assert {chunk["kern_tools"]["dropped_bytes"] for chunk in chunks} == {0}


async def test_an_async_graph_does_the_same(sandbox: Sandbox) -> None:
    """`astream` takes the native async way of every tool."""
    with ScriptedServer(calls(**TWO)) as server:
        stream = graph(server, sandbox).astream(GO, stream_mode="custom")
        chunks = [chunk["kern_tools"] async for chunk in stream]
    assert joined(chunks) == TOLD


@pytest.mark.parametrize("is_async", [False, True], ids=["stream", "astream"])
def test_a_graph_tells_while_the_code_runs(sandbox: Sandbox, is_async: bool) -> None:
    """The code waits for each answer; the message comes after all of them."""

    def answer(mode: str, chunk: Any) -> str:
        if mode != "custom":
            return mode
        text = str(chunk["kern_tools"]["text"])
        sandbox.write_file(f"seen{text.strip()}", "")
        return text

    async def run(agent: Any) -> list[str]:
        stream = agent.astream(GO, stream_mode=["custom", "updates"])
        return [answer(*event) async for event in stream]

    with ScriptedServer(calls(a=ANSWERED)) as server:
        agent = graph(server, sandbox)
        if is_async:
            seen = asyncio.run(run(agent))
        else:
            stream = agent.stream(GO, stream_mode=["custom", "updates"])
            seen = [answer(*event) for event in stream]
    assert seen == ["updates", "0\n", "1\n", "2\n", "updates", "updates"]


async def test_events_of_a_graph_show_the_custom_stream(sandbox: Sandbox) -> None:
    """`astream_events` has it where it is asked for it."""
    with ScriptedServer(calls(**TWO)) as server:
        agent = graph(server, sandbox)
        events = agent.astream_events(GO, version="v2", stream_mode="custom")
        chunks = [e["data"].get("chunk") async for e in events]
    told = [
        c["kern_tools"] for c in chunks if isinstance(c, dict) and "kern_tools" in c
    ]
    assert joined(told) == TOLD


async def test_a_graph_that_nobody_reads_holds_up_no_box(sandbox: Sandbox) -> None:
    """A flood ends, its head is told, and the message has its whole result."""
    most = sandbox.config.max_output_bytes
    with ScriptedServer(calls(a=FLOOD["code"])) as server:
        state: Any = None
        told: list[Any] = []
        modes = ["custom", "values"]
        async for mode, chunk in graph(server, sandbox).astream(GO, stream_mode=modes):
            if mode == "custom":
                told.append(chunk["kern_tools"])
            else:
                state = chunk
    (message,) = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    result = langchain.result_of(message)
    assert result is not None
    assert (result.stdout_bytes, result.exit_code) == (1 << 22, 0)
    told_bytes = sum(len(event["text"]) for event in told)
    assert told_bytes <= most
    assert told_bytes + sum(event["dropped_bytes"] for event in told) == 1 << 22


async def test_leaving_a_graphs_stream_ends_the_box(
    patient: Sandbox, gate: Gate
) -> None:
    """As soon as the graph has cancelled its nodes."""
    code = f"print('on', flush=True)\n{WAITS}"
    with ScriptedServer(calls(a=code)) as server:
        stream = graph(server, patient).astream(GO, stream_mode="custom")
        assert (await anext(stream))["kern_tools"]["text"] == "on\n"
        assert await asyncio.to_thread(gate.wait) == b"running"
        await stream.aclose()
        assert await asyncio.to_thread(gate.wait_end) == b""
    assert "late" not in [file.path for file in patient.list_files()]


@pytest.mark.verify
def test_a_tool_outside_a_graph_brings_in_no_graph() -> None:
    """Nobody listens there, and LangGraph may not even be installed."""
    code = (
        "import sys\nfrom kern_tools import Sandbox\n"
        "from kern_tools.adapters.langchain import as_tools\n"
        "with Sandbox() as sandbox:\n"
        "    print(as_tools(sandbox)[0].invoke({'code': 'print(6 * 7)'}))\n"
        "assert 'langgraph' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "42" in done.stdout


# LlamaIndex


def function_agent(sandbox: Sandbox, **code: str) -> Any:
    """Build an agent whose model runs code, then says that it is done."""
    blocks = [
        ToolCallBlock(tool_call_id=i, tool_name="run_code", tool_kwargs={"code": c})
        for i, c in code.items()
    ]
    turns = iter(
        [
            ChatMessage(role="assistant", blocks=blocks),
            ChatMessage(role="assistant", content="done"),
        ]
    )

    def generate(messages: Sequence[ChatMessage], **_: object) -> ChatMessage:
        return next(turns)

    llm = MockFunctionCallingLLM(response_generator=generate)
    return FunctionAgent(tools=list(llama_index.as_tools(sandbox)), llm=llm)


@old_attributes
async def test_an_agents_event_stream_tells_output(sandbox: Sandbox) -> None:
    """The id on the pieces is that of the result, whose output they add up to."""
    handler = function_agent(sandbox, **TWO).run(user_msg="go")
    told: list[Any] = []
    names: dict[str, str] = {}
    async for event in handler.stream_events():
        if isinstance(event, llama_index.KernOutput):
            told.append(event.model_dump())
        elif isinstance(event, ToolCallResult):
            names[event.tool_output.raw_output["callId"]] = event.tool_id
    assert str(await handler) == "done"
    assert joined([{**e, "call_id": names[e["call_id"]]} for e in told]) == TOLD


@old_attributes
async def test_an_agent_tells_while_the_code_runs(sandbox: Sandbox) -> None:
    """The code waits for each answer; the result comes after all of them."""
    handler = function_agent(sandbox, a=ANSWERED).run(user_msg="go")
    seen: list[str] = []
    async for event in handler.stream_events():
        if isinstance(event, llama_index.KernOutput):
            seen.append(event.text)
            sandbox.write_file(f"seen{event.text.strip()}", "")
        elif isinstance(event, ToolCallResult):
            seen.append(event.tool_output.raw_output["stdout"])
    await handler
    assert seen == ["0\n", "1\n", "2\n", "0\n1\n2\n"]


@old_attributes
async def test_a_context_that_does_not_run_hears_nothing(sandbox: Sandbox) -> None:
    """Whoever calls a tool by hand may give it one all the same."""
    context = Context(function_agent(sandbox))
    tool: Any = llama_index.as_tools(sandbox)[0]
    for output in (
        await tool.acall(code="print(6 * 7)", ctx=context),
        await asyncio.to_thread(tool.call, code="print(6 * 7)", ctx=context),
        await tool.acall(code="print(6 * 7)"),
    ):
        assert output.raw_output["stdout"] == "42\n"
        assert "ctx" not in output.raw_input["kwargs"]


# OpenAI


def turn(**code: str) -> list[Any]:
    """Write the calls of one model turn."""
    return [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": "run_code", "arguments": {"code": each}},
        }
        for call_id, each in code.items()
    ]


@pytest.mark.parametrize("is_async", [False, True], ids=["answer", "aanswer"])
@pytest.mark.parametrize("code", [TWO, {"a": TWO["a"]}], ids=["two calls", "one"])
def test_answers_tell_output(
    sandbox: Sandbox, is_async: bool, code: dict[str, str]
) -> None:
    """The callback sees which call wrote what."""
    tools = openai.as_tools(sandbox)
    told: list[OutputEvent] = []
    if is_async:
        answers = asyncio.run(tools.aanswer(turn(**code), on_output=told.append))
    else:
        answers = tools.answer(turn(**code), on_output=told.append)
    pieces = [{"call_id": e.call_id, "stream": e.stream, "text": e.text} for e in told]
    expected = {key: text for key, text in TOLD.items() if key[0] in code}
    assert joined(pieces) == expected
    stdout = {r.call_id: r.result.stdout for r in answers if r.result is not None}
    assert stdout == {call_id: expected[call_id, "stdout"] for call_id in code}


def test_an_answer_tells_while_the_code_runs(sandbox: Sandbox) -> None:
    """The code waits until the callback has seen each line."""

    def see(event: OutputEvent) -> None:
        sandbox.write_file(f"seen{event.text.strip()}", "")

    tools = openai.as_tools(sandbox)
    (reply,) = tools.answer(turn(a=ANSWERED), on_output=see)
    assert reply.result is not None
    assert reply.result.stdout == "0\n1\n2\n"
