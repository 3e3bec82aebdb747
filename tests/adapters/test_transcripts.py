"""A framework's own stream, as a transcript shows it."""

# The frameworks leave type parameters of their own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from llama_index.core.agent.workflow import (
    CodeActAgent,
    FunctionAgent,
    ToolCallResult,
)
from llama_index.core.base.llms.types import AudioBlock, TextBlock
from llama_index.core.tools import FunctionTool, ToolOutput

from kern_tools import Sandbox, Transcript
from kern_tools.adapters import langchain, llama_index
from kern_tools.scripted import ScriptedCall, ScriptedServer, Step
from kern_tools.stand_in import Said, llama_index_model

from .cells import CHARTS

old_attributes = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecationWarning"
)

GO: Any = {"messages": [("user", "go")]}
TURN = [
    ScriptedCall("run_code", {"code": "print(6 * 7)"}, "good"),
    ScriptedCall(
        "run_code", {"code": "import time; time.sleep(60)", "timeout_s": 1}, "slow"
    ),
    ScriptedCall("run_code", {"cod": 1}, "bad"),
    ScriptedCall("broken", {"x": 1}, "other"),
]
SHOWN = ["> run_code", "  print(6 * 7)", "= exit 0", "= timeout", "= bad arguments"]
MODES: Any = ["updates", "custom"]


def lines_of(transcript: Transcript) -> list[str]:
    """Give the lines of a transcript, without times."""
    return [line.split("  ")[0] or line for line in str(transcript).splitlines()]


@tool
def broken(x: int) -> str:
    """Fail, as other tools may."""
    raise ValueError(f"no {x}")


def graph(server: ScriptedServer, sandbox: Sandbox) -> Any:
    """Build an agent with our tools and another one."""
    model = ChatOpenAI(model="m", base_url=server.url, api_key="k")  # type: ignore[arg-type]
    broken.handle_tool_error = True
    return create_agent(model, [*langchain.as_tools(sandbox), broken])


def stream_langchain(sandbox: Sandbox, *script: Step) -> Transcript:
    """Show what an agent streams."""
    transcript = Transcript(live=False)
    with ScriptedServer(script) as server:
        for part in graph(server, sandbox).stream(GO, stream_mode=MODES):
            transcript.add(*langchain.events_of(part))
    return transcript


def test_a_langchain_agent_is_shown(sandbox: Sandbox) -> None:
    """Turns, words, calls and what came of each, the tool of somebody else too."""
    lines = lines_of(stream_langchain(sandbox, TURN[:3], "It is 42."))
    assert [line for line in lines if line.startswith("turn")] == ["turn 1", "turn 2"]
    assert set(SHOWN) <= set(lines)
    assert "It is 42." in str(lines)


def test_a_langchain_state_is_shown_afterwards(sandbox: Sandbox) -> None:
    """Messages hold all but the order of the output."""
    with ScriptedServer([TURN[:3], "It is 42."]) as server:
        state = graph(server, sandbox).invoke(GO)
    transcript = Transcript(live=False).add(*langchain.events_of(state))
    assert set(SHOWN) <= set(lines_of(transcript))


@pytest.mark.parametrize("parts", [MODES, "updates", "custom"], ids=str)
def test_output_and_calls_come_in_any_mode(sandbox: Sandbox, parts: Any) -> None:
    """With the mode in front, or alone; through a subgraph too."""
    transcript = Transcript(live=False)
    with ScriptedServer([TURN[0], "done"]) as server:
        agent = graph(server, sandbox)
        for part in agent.stream(GO, stream_mode=parts, subgraphs=True):
            transcript.add(*langchain.events_of(part))
    assert "| 42" in str(transcript)


def test_images_of_a_message_are_shown(sandbox: Sandbox) -> None:
    """Also where the artifact has lost them."""
    (run_code,) = langchain.as_tools(sandbox, "run_code")
    call: Any = {"type": "tool_call", "id": "c", "name": "run_code"}
    message = run_code.invoke({**call, "args": {"code": CHARTS}})
    message.artifact["results"] = []
    transcript = Transcript(live=False).add(*langchain.events_of(message))
    assert str(transcript).count("image: image/png") == 2


def test_a_failure_of_another_tool_is_an_error() -> None:
    """Its framework says so; there is no result to read."""
    message = ToolMessage("no", tool_call_id="c", name="other", status="error")
    transcript = Transcript(live=False).add(*langchain.events_of(message))
    assert "= error" in lines_of(transcript)


def test_arguments_that_were_no_json_are_shown_as_they_are() -> None:
    """LangChain keeps them apart."""
    bad: Any = {"id": "c", "name": "run_code", "args": "{broken", "error": None}
    message = AIMessage("", invalid_tool_calls=[{**bad, "type": "invalid_tool_call"}])
    transcript = Transcript(live=False).add(*langchain.events_of(message))
    assert "  {broken" in str(transcript).splitlines()


@pytest.mark.parametrize("part", [None, "x", 1, (), [], {}, {"a": None}, {"a": {1: 2}}])
def test_what_is_no_event_is_passed_over(part: object) -> None:
    """A graph streams whatever its nodes return."""
    assert list(langchain.events_of(part)) == []
    assert list(llama_index.events_of(part)) == []


# LlamaIndex


def fail(x: int) -> str:
    """Fail, as other tools may."""
    raise ValueError(f"no {x}")


async def shown(agent: Any) -> Transcript:
    """Show what an agent's run streams."""
    transcript = Transcript(live=False)
    running = agent.run(user_msg="go")
    async for event in running.stream_events():
        transcript.add(*llama_index.events_of(event))
    await running
    return transcript


@old_attributes
async def test_a_llama_index_agent_is_shown(sandbox: Sandbox) -> None:
    """Turns, words, calls and what came of each, the tool of somebody else too."""
    others = [FunctionTool.from_defaults(fail, name="broken")]
    tools: Any = [*llama_index.as_tools(sandbox), *others]
    llm = llama_index_model([TURN, "It is 42."])
    lines = lines_of(await shown(FunctionAgent(tools=tools, llm=llm)))
    assert [line for line in lines if line.startswith("turn")] == ["turn 1", "turn 2"]
    assert {*SHOWN, "= error"} <= set(lines)
    assert "It is 42." in str(lines)


@old_attributes
async def test_a_code_act_agent_is_shown() -> None:
    """Its code is the argument of a tool called `execute`."""
    script = ["Look: <execute>\nprint(6 * 7)\n</execute>", "It is 42."]
    with Sandbox(mode="kernel") as sandbox:
        execute = llama_index.code_execute_fn(sandbox)
        llm = llama_index_model(script)
        transcript = await shown(CodeActAgent(code_execute_fn=execute, llm=llm))
    lines = lines_of(transcript)
    assert {"> execute", "  print(6 * 7)", "= exit 0"} <= set(lines)
    assert "| 42" in lines


@old_attributes
async def test_images_of_blocks_are_shown(sandbox: Sandbox) -> None:
    """Two charts are two images."""
    script: list[Said] = [ScriptedCall("run_code", {"code": CHARTS}), "done"]
    tools = llama_index.as_tools(sandbox)
    agent = FunctionAgent(tools=list(tools), llm=llama_index_model(script))
    assert str(await shown(agent)).count("image: image/png") == 2


@old_attributes
async def test_the_events_of_a_run_are_shown_at_once(sandbox: Sandbox) -> None:
    """A list of them, as a program may have kept it, shows the same."""
    llm = llama_index_model([TURN[:1], "It is 42."])
    agent: Any = FunctionAgent(tools=[*llama_index.as_tools(sandbox)], llm=llm)
    running = agent.run(user_msg="go")
    kept = [event async for event in running.stream_events()]
    await running
    one_by_one, at_once = Transcript(live=False), Transcript(live=False)
    for event in kept:
        one_by_one.add(*llama_index.events_of(event))
    at_once.add(*llama_index.events_of(kept))
    assert lines_of(at_once) == lines_of(one_by_one)
    assert "= exit 0" in lines_of(at_once)


def test_what_no_transcript_can_show_is_left_out() -> None:
    """Another tool may answer with a sound; its words are shown."""
    blocks: Any = [AudioBlock(audio=b"x"), TextBlock(text="a bell rings")]
    output = ToolOutput(tool_name="ring", blocks=blocks, raw_input={}, raw_output=None)
    came = ToolCallResult(
        tool_name="ring",
        tool_kwargs={},
        tool_id="r",
        tool_output=output,
        return_direct=False,
    )
    transcript = Transcript(live=False).add(*llama_index.events_of(came))
    assert str(transcript).count("a bell rings") == 1
    assert "audio" not in str(transcript).lower()
