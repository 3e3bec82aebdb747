"""The OpenAI Agents SDK: function tools and the shell, in runs of its own runner."""

# The SDK leaves parts of its types open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    RunState,
    ToolGuardrailFunctionOutput,
    tool_output_guardrail,
)
from openai import AsyncOpenAI

from kern_tools import ConfigError, ExecutionResult, OutputEvent, Sandbox, SandboxPool
from kern_tools.adapters.openai_agents import (
    PROVIDER_KEY,
    as_shell_tool,
    as_tools,
    result_of,
)
from kern_tools.adapters.openai_agents.caller import AgentsCaller
from kern_tools.scripted import ScriptedCall, ScriptedServer, Step
from kern_tools.testing import AdapterContract
from kern_tools.tools import tools_of

from .agents_model import ScriptedModel, asked, said
from .cells import CHARTS, LOOP, WAITS, Gate
from .words import by_turns

QUIET = RunConfig(tracing_disabled=True)
PRINT = {"code": "print(6 * 7)"}


async def outputs(*calls: Any, tools: Sequence[Any], context: Any = None) -> list[Any]:
    """Run an agent whose model makes calls and ends; give the items with outputs."""
    agent = Agent(name="a", model=ScriptedModel(calls, [said()]), tools=list(tools))
    run = await Runner.run(agent, "go", run_config=QUIET, context=context)
    return [item for item in run.new_items if item.type == "tool_call_output_item"]


@asynccontextmanager
async def client(server: ScriptedServer) -> AsyncGenerator[AsyncOpenAI]:
    """The real client, pointed at the scripted server."""
    async with AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as api:
        yield api


@by_turns(0)
class TestAgents(AdapterContract):
    """The items of a run hold the contract."""

    @pytest.fixture
    def adapter(self, sandbox: Sandbox) -> AgentsCaller:
        """Every tool."""
        return AgentsCaller(as_tools(sandbox, "coding"))


async def test_half_a_surrogate_pair_ends_a_run_before_any_tool_is_asked() -> None:
    """The SDK's runner encodes all arguments itself; this is why we call by hand."""
    asked_for: list[str] = []

    async def invoke(_: object, written: str) -> str:
        asked_for.append(written)
        return ""

    tool = FunctionTool("run_code", "", {"type": "object"}, invoke, False)
    with pytest.raises(UnicodeEncodeError):
        await outputs(asked({"code": "\ud800"}), tools=[tool])
    assert asked_for == []


@pytest.mark.parametrize("strict", [True, False])
def test_the_model_is_sent_our_schemas(sandbox: Sandbox, strict: bool) -> None:
    """The SDK's own tightening of schemas changes nothing in them."""
    offered = as_tools(sandbox, "coding", strict=strict)
    for tool, ours in zip(offered, tools_of(sandbox, "coding"), strict=True):
        assert isinstance(tool, FunctionTool)
        assert tool.params_json_schema == ours.schema(strict=strict)
        assert tool.strict_json_schema == strict
        assert (tool.name, tool.description) == (ours.name, ours.description)


@pytest.mark.parametrize("kind", [OpenAIResponsesModel, OpenAIChatCompletionsModel])
async def test_an_agent_reads_what_ran_and_goes_on(sandbox: Sandbox, kind: Any) -> None:
    """Parallel calls, a fault and unusable arguments are answered in one turn."""
    script: list[Step] = [
        [
            ScriptedCall("run_code", PRINT, "good"),
            ScriptedCall("run_code", LOOP, "slow"),
            ScriptedCall("run_code", "{", "bad"),
        ],
        "done",
    ]
    with ScriptedServer(script) as server:
        async with client(server) as api:
            model = kind(model="scripted", openai_client=api)
            agent = Agent(name="a", model=model, tools=as_tools(sandbox))
            run = await Runner.run(agent, "go", run_config=QUIET)
        sent = json.dumps(server.requests[1].body)
    new: list[Any] = [*run.new_items]
    items = {i.raw_item["call_id"]: i for i in new if hasattr(i, "output")}
    good, slow, bad = (result_of(items[name]) for name in ("good", "slow", "bad"))
    assert run.final_output == "done"
    assert good is not None
    assert (good.stdout, good.call_id) == ("42\n", "good")
    match slow:
        case ExecutionResult(fault=fault, stdout="before\n") if fault:
            assert fault.type == "timeout"
        case other:
            pytest.fail(f"no fault in {other!r}")
    assert bad is None
    assert items["bad"].custom_data["error"] == "bad_arguments"
    assert all(json.dumps(str(i.output))[1:-1] in sent for i in items.values())
    assert "exitCode" not in sent


async def test_a_streamed_run_brings_the_same(sandbox: Sandbox) -> None:
    """The items of its events carry the result too."""
    with ScriptedServer([ScriptedCall("run_code", PRINT, "c1"), "done"]) as server:
        async with client(server) as api:
            model = OpenAIResponsesModel(model="scripted", openai_client=api)
            agent = Agent(name="a", model=model, tools=as_tools(sandbox))
            run = Runner.run_streamed(agent, "go", run_config=QUIET)
            found = [
                result_of(event.item)
                async for event in run.stream_events()
                if event.type == "run_item_stream_event"
            ]
    assert [result.stdout for result in found if result is not None] == ["42\n"]


async def test_images_follow_the_text(sandbox: Sandbox) -> None:
    """As parts of their own, in order; not where they are left out."""
    charts = asked({"code": CHARTS})
    (shown,) = await outputs(charts, tools=as_tools(sandbox))
    (named,) = await outputs(charts, tools=as_tools(sandbox, images="none"))
    kinds = [part["type"] for part in shown.raw_item["output"]]
    assert kinds == ["input_text", "input_image", "input_image"]
    assert isinstance(named.raw_item["output"], str)
    assert "image 2" in named.raw_item["output"]
    for item in (shown, named):
        result = result_of(item)
        assert result is not None
        assert [value.png is not None for value in result.results] == [True, True]


async def test_the_first_tools_words_can_be_the_answer(sandbox: Sandbox) -> None:
    """Text alone is a string, so that the run's output is one too."""
    agent = Agent(
        name="a",
        model=ScriptedModel([asked(PRINT)]),
        tools=as_tools(sandbox),
        tool_use_behavior="stop_on_first_tool",
    )
    run = await Runner.run(agent, "go", run_config=QUIET)
    assert isinstance(run.final_output, str)
    assert "42" in run.final_output


async def test_results_survive_a_stored_run(sandbox: Sandbox) -> None:
    """An approval may come a day later, from another process."""
    tools = as_tools(sandbox)
    (needs,) = as_tools(sandbox, "write_file")
    assert isinstance(needs, FunctionTool)
    needs.needs_approval = True
    agent = Agent(
        name="a",
        model=ScriptedModel(
            [asked(PRINT)],
            [asked({"path": "a.txt", "content": "hi"}, "write_file", "c2")],
            [said()],
        ),
        tools=[tools[0], needs],
    )
    run = await Runner.run(agent, "go", run_config=QUIET)
    stored = json.dumps(run.to_state().to_json())
    state: Any = await RunState.from_string(agent, stored)
    state.approve(run.interruptions[0])
    resumed = await Runner.run(agent, state, run_config=QUIET)
    assert resumed.final_output == "done"
    assert sandbox.read_file("a.txt") == b"hi"
    results = [result_of(item) for item in resumed.new_items]
    assert [result.stdout for result in results if result is not None] == ["42\n"]


async def test_output_is_told_while_the_code_runs(sandbox: Sandbox) -> None:
    """The code waits until somebody saw what it printed; the id is the call's."""
    code = "import os\nprint(7, flush=True)\nwhile not os.path.exists('seen7'): pass\n"
    told: list[OutputEvent] = []

    def see(event: OutputEvent) -> None:
        told.append(event)
        sandbox.write_file(f"seen{event.text.strip()}", "")

    tools = as_tools(sandbox, on_output=see)
    (item,) = await outputs(asked({"code": code}, call_id="c9"), tools=tools)
    assert item.custom_data["stdout"] == "7\n"
    assert {(event.call_id, event.stream) for event in told} == {("c9", "stdout")}


async def test_cancelling_a_run_ends_its_box(patient: Sandbox, gate: Gate) -> None:
    """Nothing that the code would have done afterwards happens."""
    calls = outputs(asked({"code": WAITS}), tools=as_tools(patient))
    running = asyncio.create_task(calls)
    assert await asyncio.to_thread(gate.wait) == b"running"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await asyncio.to_thread(gate.wait_end) == b""
    assert "late" not in [file.path for file in patient.list_files()]


async def test_words_that_a_guardrail_put_in_place_of_ours_carry_no_result(
    sandbox: Sandbox,
) -> None:
    """What it kept from the model is in no item of the run either."""

    @tool_output_guardrail
    def no_numbers(_: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("not for you")

    (tool,) = as_tools(sandbox, "run_code")
    assert isinstance(tool, FunctionTool)
    tool.tool_output_guardrails = [no_numbers]
    (item,) = await outputs(asked(PRINT), tools=[tool])
    assert (item.output, item.custom_data) == ("not for you", None)
    assert result_of(item) is None


def test_what_was_no_run_has_no_result() -> None:
    """Messages and other tools' items are passed over."""
    others: list[object] = [None, "", {}, said()]
    assert [result_of(each) for each in others] == [None] * 4


# the shell


def shell_call(commands: Sequence[str], **action: Any) -> dict[str, Any]:
    """Write a whole response whose only item is a `shell_call`."""
    item = {
        "id": "sh_1",
        "type": "shell_call",
        "call_id": "s1",
        "status": "completed",
        "action": {
            "commands": list(commands),
            "timeout_ms": None,
            "max_output_length": None,
            **action,
        },
        "environment": None,
    }
    return {
        "id": "resp_0",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": "scripted",
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


async def shell_run(sandbox: Any, turn: Any, **options: Any) -> tuple[Any, Any]:
    """Run an agent that has the shell; give the output item and what was sent of it."""
    with ScriptedServer([turn, "done"]) as server:
        async with client(server) as api:
            model = OpenAIResponsesModel(model="scripted", openai_client=api)
            tool = as_shell_tool(sandbox, **options)
            agent = Agent(name="a", model=model, tools=[tool])
            run = await Runner.run(agent, "go", run_config=QUIET)
        assert run.final_output == "done"
        request = server.requests[1].body
    (item,) = (i for i in run.new_items if i.type == "tool_call_output_item")
    (sent,) = (i for i in request["input"] if i.get("type") == "shell_call_output")
    return item, sent


async def test_each_command_has_its_outcome(sandbox: Sandbox) -> None:
    """An exit code, or that its time was over; code finds the result beside it."""
    commands = ["echo out; echo err >&2; exit 3", "echo before; sleep 50"]
    item, sent = await shell_run(sandbox, shell_call(commands, timeout_ms=2000))
    first, second = sent["output"]
    assert first == {
        "stdout": "out\n",
        "stderr": "err\n",
        "outcome": {"type": "exit", "exit_code": 3},
    }
    assert (second["stdout"], second["outcome"]) == ("before\n", {"type": "timeout"})
    assert second["stderr"].startswith("fault: timeout.")
    assert PROVIDER_KEY not in json.dumps(sent)
    result = result_of(item)
    assert result is not None
    assert result.fault_type == "timeout"


async def test_output_is_kept_within_what_was_asked(sandbox: Sandbox) -> None:
    """And the length goes back, as the API wants it."""
    turn = shell_call(["seq 100000"], max_output_length=500)
    _, sent = await shell_run(sandbox, turn)
    (only,) = sent["output"]
    assert sent["max_output_length"] == 500
    assert len(only["stdout"]) + len(only["stderr"]) <= 500
    assert only["outcome"] == {"type": "exit", "exit_code": 0}


async def test_a_command_that_cannot_be_one_is_answered(sandbox: Sandbox) -> None:
    """Nothing was run, which an exit code of a shell says; the next one was."""
    _, sent = await shell_run(sandbox, shell_call(["a\0b", "echo 2"]))
    first, second = sent["output"]
    assert first["outcome"] == {"type": "exit", "exit_code": 126}
    assert second["stdout"] == "2\n"


# pools


@dataclass
class Caller:
    """A run's own context, as an application has one."""

    thread: str | None
    customer: str = "ann"


def _of(run: Any) -> Any:
    return run.context.thread


async def test_conversations_do_not_share_files(pool: SandboxPool) -> None:
    """The developer tells which run belongs to which; the shell goes there too."""
    tools = as_tools(pool, conversation=_of)
    written = asked({"path": "a.txt", "content": "hi"}, "write_file")
    listing = asked({}, "list_files")
    await outputs(written, tools=tools, context=Caller("t1"))
    found = [
        str((await outputs(listing, tools=tools, context=Caller(t)))[0].output)
        for t in ("t1", "t2")
    ]
    assert ["a.txt" in text for text in found] == [True, False]
    assert len(pool) == 2


@pytest.mark.parametrize("options", [{}, {"conversation": _of}], ids=["none", "None"])
async def test_without_a_conversation_nothing_runs(
    pool: SandboxPool, options: dict[str, Any]
) -> None:
    """The fault is the operator's, and says what to pass; the shell says it too."""
    (item,) = await outputs(
        asked(PRINT), tools=as_tools(pool, **options), context=Caller(None)
    )
    result = result_of(item)
    assert result is not None
    assert result.fault is not None
    assert (result.fault.type, result.fault.reason) == (
        "startup_failed",
        "conversation",
    )
    assert "conversation=" in str(item.output)
    shell, sent = await shell_run(pool, shell_call(["true"]))
    refused = result_of(shell)
    assert refused is not None
    assert refused.fault_type == "startup_failed"
    assert "conversation=" in sent["output"][0]["stderr"]
    assert len(pool) == 0


async def test_the_run_tells_the_tenant(pool: SandboxPool) -> None:
    """The same conversation of two customers is two conversations."""
    tools = as_tools(pool, conversation=_of, tenant=lambda run: run.context.customer)
    await outputs(asked(PRINT), tools=tools, context=Caller("t1", "bob"))
    assert pool.peek("t1", tenant="bob") is not None
    assert pool.peek("t1") is None
    with pytest.raises(ConfigError, match="pool"):
        as_tools(pool.get("t2"), tenant=str)
