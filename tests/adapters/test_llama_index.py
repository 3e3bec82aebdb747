"""LlamaIndex: tools, agents, serializers."""

# The framework leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import FunctionTool, ToolOutput, calling
from llama_index.core.workflow import (
    Context,
    JsonSerializer,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from pydantic import BaseModel
from workflows.context.serializers import PickleSerializer
from workflows.errors import WorkflowCancelledByUser

from kern_tools import Sandbox, SandboxPool
from kern_tools.adapters.llama_index import KernToolSpec, as_tools, result_of
from kern_tools.tools import tools_of

from .cells import CHARTS, LOOP, WAITS, Gate

# The framework's workflows read pydantic's old attributes off every agent.
old_attributes = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecationWarning"
)

UNUSABLE: dict[str, dict[str, Any]] = {
    "missing": {},
    "wrong type": {"code": 5},
    "unknown key": {"code": "print(1)", "image": "alpine"},
    "python's own names": {"self": 1, "args": 2, "kwargs": 3},
    "surrogate key": {"code": "print(1)", "\ud800": 1},
    "nested": {"code": {"code": "print(1)"}},
}


def named(sandbox: Sandbox, name: str = "run_code") -> FunctionTool:
    """Pick one tool."""
    return {tool.metadata.get_name(): tool for tool in as_tools(sandbox)}[name]


def asked(*calls: tuple[str, str, dict[str, Any]]) -> ChatMessage:
    """Write a model's turn of tool calls: id, name, arguments."""
    blocks = [
        ToolCallBlock(tool_call_id=i, tool_name=name, tool_kwargs=kwargs)
        for i, name, kwargs in calls
    ]
    return ChatMessage(role="assistant", blocks=blocks)


def agent(sandbox: Sandbox | SandboxPool, turns: Sequence[ChatMessage]) -> Any:
    """Build an agent whose model says `turns`."""
    script = iter(turns)

    def generate(messages: Sequence[ChatMessage], **_: object) -> ChatMessage:
        return next(script)

    llm = MockFunctionCallingLLM(response_generator=generate)
    return FunctionAgent(tools=list(as_tools(sandbox)), llm=llm)


def test_a_call_gives_blocks_and_the_result_beside_them(sandbox: Sandbox) -> None:
    """Text for the model in `blocks`, plain JSON for code in `raw_output`."""
    output = named(sandbox).call(code="print(6 * 7)")
    result = result_of(output)
    assert (output.tool_name, output.is_error) == ("run_code", False)
    assert [type(block) for block in output.blocks] == [TextBlock]
    assert "42" in output.content
    assert result is not None
    assert result.stdout == "42\n"
    assert json.loads(json.dumps(output.raw_output)) == output.raw_output


def test_a_non_zero_exit_is_no_error_of_the_tool(sandbox: Sandbox) -> None:
    """The tool did its work: the exit code is in the result."""
    output = named(sandbox)(code="raise SystemExit(3)")
    assert (output.is_error, output.raw_output["exitCode"]) == (False, 3)


def test_a_fault_sets_is_error_and_raises_nothing(sandbox: Sandbox) -> None:
    """The fault is data beside the text."""
    output = named(sandbox)(**LOOP)
    assert output.is_error
    assert output.raw_output["fault"]["type"] == "timeout"
    assert "before" in output.content


@pytest.mark.parametrize("arguments", UNUSABLE.values(), ids=UNUSABLE)
async def test_unusable_arguments_are_answered(
    sandbox: Sandbox, arguments: dict[str, Any]
) -> None:
    """The framework checks nothing; the tool says what to send instead."""
    tool = named(sandbox)
    outputs = [
        tool(**arguments),
        tool.call(**arguments),
        await tool.acall(**arguments),
        calling.call_tool(tool, arguments),
        await calling.acall_tool(tool, arguments),
    ]
    for output in outputs:
        assert output.is_error
        assert output.raw_output["error"] == "bad_arguments"
        assert result_of(output) is None
        assert "`code`" in output.content
        JsonSerializer().serialize(output).encode()


def test_positional_arguments_are_named_by_the_schema(sandbox: Sandbox) -> None:
    """LlamaIndex calls a tool of one property with its bare value at times."""
    sandbox.write_file("d/a.txt", "x")
    output = named(sandbox, "list_files")("d")
    assert "a.txt" in output.content
    assert "42" in named(sandbox).call("print(6 * 7)").content


def test_images_are_blocks_of_their_own(sandbox: Sandbox) -> None:
    """Two charts are two image blocks after the text, in order."""
    output = named(sandbox).call(code=CHARTS)
    text, *images = output.blocks
    result = result_of(output)
    assert isinstance(text, TextBlock)
    assert result is not None
    shown = [value.png for value in result.results]
    sent: list[bytes] = []
    for image in images:
        assert isinstance(image, ImageBlock)
        assert image.image_mimetype == "image/png"
        sent.append(image.resolve_image().read())
    assert sent == shown
    assert len(sent) == 2


def test_images_can_be_left_out(sandbox: Sandbox) -> None:
    """A model without eyes gets the text alone, which names the images."""
    (tool,) = as_tools(sandbox, "code", images="none")
    output = tool.call(code=CHARTS)
    assert [type(block) for block in output.blocks] == [TextBlock]
    assert "image 2" in output.content


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("name", ["run_code", "read_file", "write_file", "list_files"])
def test_the_model_is_sent_our_schema(
    sandbox: Sandbox, name: str, strict: bool
) -> None:
    """LlamaIndex would leave nullable properties out of `required`."""
    (ours,) = tools_of(sandbox, name)
    (tool,) = as_tools(sandbox, name, strict=strict)
    function = tool.metadata.to_openai_tool()["function"]
    assert function == {
        "name": name,
        "description": ours.description,
        "parameters": ours.schema(strict=strict),
    }


def test_the_tool_spec_holds_the_same_tools(sandbox: Sandbox) -> None:
    """`KernToolSpec` is `as_tools` for code that wants a tool spec."""
    spec = KernToolSpec(sandbox, "files")
    names = [t.metadata.name for t in spec.to_tool_list()]
    assert names == ["read_file", "write_file", "list_files"]
    (only,) = spec.to_tool_list(spec_functions=["list_files"])
    assert only.metadata.name == "list_files"


@old_attributes
async def test_an_agent_reads_what_ran_and_goes_on(sandbox: Sandbox) -> None:
    """Parallel calls, a fault and unusable arguments are answered in one turn."""
    turn = asked(
        ("good", "run_code", {"code": "print(6 * 7)"}),
        ("slow", "run_code", LOOP),
        ("bad", "run_code", {"cod": "print(1)"}),
    )
    done = ChatMessage(role="assistant", content="done")
    handler = agent(sandbox, [turn, done]).run(user_msg="go")
    seen = {
        event.tool_id: event
        async for event in handler.stream_events()
        if isinstance(event, ToolCallResult)
    }
    last: Any = await handler
    good, slow, bad = (seen[i].tool_output for i in ("good", "slow", "bad"))
    assert str(last) == "done"
    assert [o.is_error for o in (good, slow, bad)] == [False, True, True]
    assert slow.raw_output["fault"]["type"] == "timeout"
    assert bad.raw_output["error"] == "bad_arguments"
    result = result_of(seen["good"])
    assert result is not None
    assert result.stdout == "42\n"
    assert {call.tool_id for call in last.tool_calls} == set(seen)


@pytest.mark.parametrize("serializer", [JsonSerializer(), PickleSerializer()])
def test_results_survive_a_serializer(sandbox: Sandbox, serializer: Any) -> None:
    """After the bytes of a context the result is the same."""
    arguments = {"code": CHARTS}
    output = named(sandbox).call(**arguments)
    event = ToolCallResult(
        tool_name="run_code",
        tool_kwargs=arguments,
        tool_id="c1",
        tool_output=output,
        return_direct=False,
    )
    read = serializer.deserialize(serializer.serialize(event))
    forms = [output, event, read, event.model_dump(), output.model_dump()]
    results = [result_of(form) for form in [*forms, output.raw_output]]
    assert results[0] is not None
    assert len(results[0].results) == 2
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize(
    "other",
    [
        ToolOutput(tool_name="t", content="x", raw_input={}, raw_output="x"),
        {},
        {"raw_output": None},
        None,
        "text",
    ],
    ids=repr,
)
def test_other_outputs_hold_no_result(other: object) -> None:
    """`result_of` may be asked of any tool's output."""
    assert result_of(other) is None


async def test_cancelling_a_call_ends_its_box(patient: Sandbox, gate: Gate) -> None:
    """The cancellation goes on once nothing of the call is left."""
    task = asyncio.create_task(named(patient).acall(code=WAITS))
    assert await asyncio.to_thread(gate.wait) == b"running"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.is_gone()
    assert "7" in (await named(patient).acall(code="print(7)")).content


@old_attributes
async def test_cancelling_a_run_ends_the_box_of_its_call(
    patient: Sandbox, gate: Gate
) -> None:
    """What holds for a call holds for a call inside a workflow."""
    turn = asked(("c1", "run_code", {"code": WAITS}))
    handler = agent(patient, [turn]).run(user_msg="go")
    assert await asyncio.to_thread(gate.wait) == b"running"
    await handler.cancel_run()
    with pytest.raises(WorkflowCancelledByUser):
        await handler
    assert await asyncio.to_thread(gate.wait_end) == b""
    assert "late" not in [file.path for file in patient.list_files()]


# a pool

# What the framework keeps beside our id, it says, it cannot serialize.
other_keys = pytest.mark.filterwarnings("ignore:Skipping serialization of known")
DONE = ChatMessage(role="assistant", content="done")
WRITE: dict[str, Any] = {"path": "n.txt", "content": "42"}
LIST = ("list", "list_files", dict[str, Any]())


async def last_text(running: Any, *, context: Any) -> str:
    """Run an agent that says `DONE` in the end; give what its last tool call said."""
    output: Any = await running.run(user_msg="go", ctx=context)
    return str(output.tool_calls[-1].tool_output.content)


@old_attributes
@other_keys
async def test_contexts_do_not_share_files(pool: SandboxPool) -> None:
    """Each `Context` has a sandbox, which its next run finds again."""
    turns = [asked(("w", "write_file", WRITE)), DONE, *[asked(LIST), DONE] * 2]
    running = agent(pool, turns)
    first, second = Context(running), Context(running)
    await last_text(running, context=first)
    assert "ok, 0 files" in await last_text(running, context=second)
    assert "n.txt" in await last_text(running, context=first)
    assert len(pool) == 2


@old_attributes
@other_keys
async def test_a_context_that_was_serialized_finds_its_sandbox(
    pool: SandboxPool,
) -> None:
    """It holds an id, and nothing that is alive."""
    running = agent(pool, [asked(("w", "write_file", WRITE)), DONE])
    context = Context(running)
    await last_text(running, context=context)
    stored = json.dumps(context.to_dict(serializer=JsonSerializer()))
    again = agent(pool, [asked(LIST), DONE])
    read = Context.from_dict(again, json.loads(stored), serializer=JsonSerializer())
    assert "n.txt" in await last_text(again, context=read)
    assert len(pool) == 1


@old_attributes
async def test_parallel_first_calls_share_their_contexts_sandbox(
    pool: SandboxPool,
) -> None:
    """Calls of one turn that come first at once meet in one workspace."""
    first = "import os, time\nwhile not os.path.exists('b'): time.sleep(.005)"
    second = "open('b', 'w').close()"
    turn = asked(
        ("a", "run_code", {"code": first}), ("b", "run_code", {"code": second})
    )
    running = agent(pool, [turn, DONE])
    output: Any = await running.run(user_msg="go", ctx=Context(running))
    assert [c.tool_output.is_error for c in output.tool_calls] == [False, False]
    assert len(pool) == 1


@pytest.mark.parametrize("name", ["run_code", "list_files"])
async def test_without_a_context_nothing_runs(pool: SandboxPool, name: str) -> None:
    """The fault is the operator's; a model cannot write itself a context."""
    arguments = {"code": "print(1)"} if name == "run_code" else {}
    (tool,) = as_tools(pool, name)
    forged = await tool.acall(**arguments, ctx="t1")
    assert forged.raw_output["error"] == "bad_arguments"
    for output in (tool.call(**arguments), await tool.acall(**arguments)):
        result = result_of(output)
        assert result is not None
        assert result.fault is not None
        assert (result.fault.type, result.fault.reason, result.fault.actor) == (
            "startup_failed",
            "conversation",
            "operator",
        )
        assert output.is_error
        assert "ctx" in output.content
    assert len(pool) == 0


class Kept(BaseModel):
    """A state with fields of its own."""

    asked: int = 0


class KeptWithId(Kept):
    """The same, with a place for the id."""

    kern_conversation: str | None = None


class Typed(Workflow):
    """A workflow with a typed state."""

    @step
    async def answer(self, event: StartEvent, ctx: Context[Kept]) -> StopEvent:
        """Do nothing."""
        return StopEvent()


class TypedWithId(Workflow):
    """The same, with a place for the id."""

    @step
    async def answer(self, event: StartEvent, ctx: Context[KeptWithId]) -> StopEvent:
        """Do nothing."""
        return StopEvent()


async def test_a_typed_state_without_a_place_for_the_id_is_no_conversation(
    pool: SandboxPool,
) -> None:
    """Nothing runs, and nothing is shared; with the field it works."""
    (tool,) = as_tools(pool, "list_files")
    refused = result_of(await tool.acall(ctx=Context(Typed())))
    assert refused is not None
    assert refused.fault is not None
    assert refused.fault.reason == "conversation"
    assert len(pool) == 0
    context: Any = Context(TypedWithId())
    assert not (await tool.acall(ctx=context)).is_error
    state = await context.store.get_state()
    assert state.kern_conversation
    assert len(pool) == 1


async def test_calls_that_come_first_at_once_agree_on_the_id(
    pool: SandboxPool,
) -> None:
    """None has found one yet when the first of them makes it; the others take that."""
    context: Any = Context(TypedWithId())
    write, listing = as_tools(pool, ["write_file", "list_files"])
    async with context.store.edit_state():
        calls = [
            asyncio.ensure_future(write.acall(**WRITE, ctx=context)),
            asyncio.ensure_future(listing.acall(ctx=context)),
        ]
        for _ in range(50):  # they get as far as they can, to the state
            await asyncio.sleep(0)
    outputs = await asyncio.gather(*calls)
    assert [output.is_error for output in outputs] == [False, False]
    assert "n.txt" in (await listing.acall(ctx=context)).content
    assert len(pool) == 1


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_the_function_of_a_tool_gives_the_words(
    sandbox: Sandbox, is_async: bool
) -> None:
    """Where a framework calls the function itself, past the tool's `call`."""
    tool = named(sandbox)
    if is_async:
        said = await tool.async_fn(code="print(6 * 7)")
    else:
        said = tool.fn(code="print(6 * 7)")
    assert said == tool.call(code="print(6 * 7)").content


@old_attributes
async def test_the_context_tells_the_tenant(pool: SandboxPool) -> None:
    """Also by an async function, as `ctx.store` wants it."""

    async def tenant(context: Context[Any]) -> str:
        return str(await context.store.get("user"))

    running = agent(pool, [])
    context = Context(running)
    (tool,) = as_tools(pool, "list_files", tenant=tenant)
    refused = result_of(await tool.acall(ctx=context))
    assert refused is not None
    assert refused.fault is not None
    assert refused.fault.reason == "tenant"
    for user in ("ann", "bob"):
        await context.store.set("user", user)
        assert not (await tool.acall(ctx=context)).is_error
    assert len(pool) == 2


@old_attributes
def test_a_sync_call_takes_the_context_too(pool: SandboxPool) -> None:
    """And leaves it out of `raw_input`, which has to be serialized."""
    context = Context(agent(pool, []))
    write, listing = as_tools(pool, ["write_file", "list_files"])
    written = write.call(**WRITE, ctx=context)
    assert written.raw_input["kwargs"] == WRITE
    assert "n.txt" in listing(ctx=context).content
    assert len(pool) == 1
