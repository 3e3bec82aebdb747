"""LlamaIndex: events of faults, and what a policy does in agents and workflows."""

# The framework leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import (
    AgentOutput,
    AgentWorkflow,
    BaseWorkflowAgent,
    FunctionAgent,
    ReActAgent,
    ToolCallResult,
)
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.workflow import (
    Context,
    Event,
    JsonSerializer,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)

from kern_tools import FaultPolicy, Sandbox, Stop, StopReason
from kern_tools.adapters.llama_index import (
    KernFault,
    KernFunctionAgent,
    KernFunctionTool,
    KernStop,
    StopsOnFault,
    as_tools,
    result_of,
    stop_of,
)
from tests.lending import Lender, held_up
from tests.standstill import Standstill

from .cells import LOOP

# The framework's workflows read pydantic's old attributes off every agent.
old_attributes = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecationWarning"
)

# What the framework keeps beside, it says, it cannot serialize.
other_keys = pytest.mark.filterwarnings("ignore:Skipping serialization of known")

POLICY = FaultPolicy(retry_pause_s=0, max_repeats=2)
FAILS: dict[str, Any] = {"code": "1/0"}
DONE = ChatMessage(role="assistant", content="done")


def asked(*calls: dict[str, Any]) -> ChatMessage:
    """Write a model's turn of calls to `run_code`."""
    blocks = [
        ToolCallBlock(tool_call_id=f"c{n}", tool_name="run_code", tool_kwargs=kwargs)
        for n, kwargs in enumerate(calls)
    ]
    return ChatMessage(role="assistant", blocks=blocks)


class Model:
    """Says `turns`, and keeps what it was asked."""

    def __init__(self, turns: Sequence[ChatMessage]) -> None:
        self.requests: list[list[ChatMessage]] = []
        self._script = iter(turns)
        self.llm = MockFunctionCallingLLM(response_generator=self._say)

    def _say(self, messages: Sequence[ChatMessage], **_: object) -> ChatMessage:
        self.requests.append(list(messages))
        return next(self._script)


def agent(sandbox: Any, model: Model, kind: Any = KernFunctionAgent) -> Any:
    """Build an agent whose tools have the policy."""
    tools: Any = as_tools(sandbox, policy=POLICY)
    return kind(tools=tools, llm=model.llm)


async def ran(handler: Any) -> tuple[Any, list[Any]]:
    """Await a run; give its output and what it streamed."""
    events = [event async for event in handler.stream_events()]
    return await handler, events


def of_kind(events: Sequence[Any], kind: Any) -> list[Any]:
    """Pick events."""
    return [event for event in events if isinstance(event, kind)]


def stop(output: Any) -> Stop:
    """Take the reason of an agent that was ended."""
    found = stop_of(output)
    assert found is not None
    assert output.response.content == found.message
    return found


# events


@old_attributes
async def test_each_fault_is_an_event_of_the_stream(sandbox: Sandbox) -> None:
    """Typed, with or without a policy; a failure of the code's own is none."""
    model = Model([asked(LOOP, FAILS, {"code": "print(1)"}), DONE])
    tools: Any = as_tools(sandbox)
    going: Any = FunctionAgent(tools=tools, llm=model.llm)
    _, events = await ran(going.run(user_msg="go"))
    (fault,) = of_kind(events, KernFault)
    assert (fault.type, fault.tool, fault.actor) == ("timeout", "run_code", "model")
    assert (fault.retryable, fault.attempts, fault.repeats) == (False, 1, 0)
    assert "before" in fault.text
    results = {e.tool_id: result_of(e) for e in of_kind(events, ToolCallResult)}
    assert fault.call_id == getattr(results["c0"], "call_id", None)
    read = JsonSerializer().deserialize(JsonSerializer().serialize(fault))
    assert read == fault


async def test_a_fault_can_be_read_off_an_output(sandbox: Sandbox) -> None:
    """For steps that call a tool themselves."""
    (tool,) = as_tools(sandbox, "run_code")
    fault = KernFault.of(await tool.acall(**LOOP))
    assert fault is not None
    assert (fault.type, type(fault.type)) == ("timeout", str)
    assert KernFault.of(await tool.acall(**FAILS)) is None
    assert KernFault.of(await tool.acall(cod=1)) is None


class Code(Event):
    """Code to be tried."""

    code: str


class Analysis(Workflow):
    """Runs code; after a timeout it runs less."""

    def __init__(self, sandbox: Sandbox, **options: Any) -> None:
        super().__init__(**options)
        (self.run_code,) = as_tools(sandbox, "run_code")

    @step
    async def start(self, ev: StartEvent) -> Code:
        """Take the first code."""
        return Code(code=ev.code)

    @step
    async def execute(self, ctx: Context, ev: Code) -> KernFault | StopEvent:
        """Step on the fault, if there is one."""
        output = await self.run_code.acall(code=ev.code, timeout_s=2, ctx=ctx)
        return KernFault.of(output) or StopEvent(result=output.content)

    @step
    async def mend(self, ev: KernFault) -> Code | StopEvent:
        """Do what helps, or say why nothing does."""
        if ev.type == "timeout":
            return Code(code="print(sum(range(10)))")
        return StopEvent(result=f"{ev.type}: {ev.message}")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print(7)", "7"),
        ("import time; time.sleep(60)", "45"),
        ("import ctypes\nctypes.CDLL(None).mount(0, 0, 0, 0, 0)", "escape_blocked: "),
    ],
    ids=["ok", "timeout", "blocked"],
)
async def test_a_workflow_steps_on_the_fault(
    sandbox: Sandbox, code: str, said: str
) -> None:
    """What the tool gave is an event that a step takes."""
    result: Any = await Analysis(sandbox, timeout=60).run(code=code)
    assert said in result


# the policy


@old_attributes
async def test_an_agent_that_repeats_itself_is_ended(sandbox: Sandbox) -> None:
    """The model is not asked again; the reason is typed, and an event."""
    model = Model([asked(FAILS)] * 3)
    going = agent(sandbox, model)
    output, events = await ran(going.run(user_msg="go"))
    assert (stop(output).reason, stop(output).count) == (StopReason.REPEATED, 3)
    (ended,) = of_kind(events, KernStop)
    assert (ended.reason, ended.message) == ("repeated", stop(output).message)
    repeats = [c.tool_output.raw_output["repeats"] for c in output.tool_calls]
    assert repeats == [0, 1, 2]
    assert output.tool_calls[1].tool_output.content.startswith("exit 1 again: ")
    read = JsonSerializer().deserialize(JsonSerializer().serialize(ended))
    assert read == ended


@old_attributes
async def test_a_broken_host_ends_the_agent(broken: Sandbox) -> None:
    """Before the model rewrites code that is not to blame."""
    model = Model([asked({"code": f"print({n})"}) for n in range(2)])
    output, events = await ran(agent(broken, model).run(user_msg="go"))
    assert stop(output).reason == StopReason.HOST
    assert "is gone from the host" in stop(output).message
    assert [f.actor for f in of_kind(events, KernFault)] == ["operator"] * 2


@old_attributes
@other_keys
async def test_the_memory_of_an_ended_run_is_valid(sandbox: Sandbox) -> None:
    """Every call is answered, the reason is the last word, and the next run works."""
    model = Model([*[asked(FAILS)] * 3, asked(FAILS, FAILS), DONE])
    going, memory = agent(sandbox, model), ChatMemoryBuffer.from_defaults()
    context = Context(going)
    output = await going.run(user_msg="go", memory=memory, ctx=context)
    assert stop(output).reason == "repeated"
    roles = [message.role.value for message in await memory.aget_all()]
    assert roles == ["user", *["assistant", "tool"] * 3, "assistant"]
    again = await going.run(user_msg="try again", memory=memory, ctx=context)
    assert (str(again), stop_of(again)) == ("done", None)
    repeats = [c.tool_output.raw_output["repeats"] for c in again.tool_calls]
    assert repeats == [0, 0]
    assert stop(output).message in str(model.requests[3])


@old_attributes
async def test_runs_of_one_agent_are_counted_apart(sandbox: Sandbox) -> None:
    """Two users of it at once do not end each other's runs."""
    model = Model([asked(FAILS), asked(FAILS), DONE, asked(FAILS), DONE])
    going = agent(sandbox, model)
    first = await going.run(user_msg="go")
    second = await going.run(user_msg="go")
    outputs = [c.tool_output for run in (first, second) for c in run.tool_calls]
    assert [o.raw_output["repeats"] for o in outputs] == [0, 1, 0]


@old_attributes
async def test_an_agent_of_a_workflow_of_agents_is_ended(sandbox: Sandbox) -> None:
    """`AgentWorkflow` asks its agents the same way."""
    model = Model([asked(FAILS)] * 3)
    tools: Any = as_tools(sandbox, policy=POLICY)
    member = KernFunctionAgent(name="a", description="a", tools=tools, llm=model.llm)
    team: Any = AgentWorkflow(agents=[member])
    output = await team.run(user_msg="go")
    assert stop(output).reason == "repeated"


class KernReActAgent(StopsOnFault, ReActAgent):
    """Another kind of agent."""


@old_attributes
@pytest.mark.filterwarnings("ignore:is_running called from within a step")
async def test_other_agents_can_be_ended_too(sandbox: Sandbox) -> None:
    """One that reasons in text leaves the reason in its memory as well."""
    thought = 'Thought: I run it.\nAction: run_code\nAction Input: {"code": "1/0"}'
    turn = ChatMessage(role="assistant", content=thought)
    answer = "Thought: I can answer.\nAnswer: done"
    last = ChatMessage(role="assistant", content=answer)
    model = Model([*[turn] * 3, last])
    going, memory = (
        agent(sandbox, model, KernReActAgent),
        ChatMemoryBuffer.from_defaults(),
    )
    output = await going.run(user_msg="go", memory=memory)
    assert stop(output).reason == "repeated"
    again = await going.run(user_msg="well?", memory=memory)
    assert again.response.content == "done"
    assert stop(output).message in str(model.requests[3])


class OwnAgent(BaseWorkflowAgent):
    """An agent of one's own, which keeps its turns nowhere but in the memory."""

    async def take_step(
        self, ctx: Any, llm_input: Any, tools: Any, memory: Any
    ) -> AgentOutput:
        """Ask the model."""
        llm: Any = self.llm
        response = await llm.achat_with_tools(tools, chat_history=list(llm_input))
        calls = llm.get_tool_calls_from_response(response, error_on_no_tool_call=False)
        return AgentOutput(
            response=response.message, tool_calls=calls, current_agent_name=self.name
        )

    async def handle_tool_call_results(
        self, ctx: Any, results: Any, memory: Any
    ) -> None:
        """Keep nothing."""

    async def finalize(self, ctx: Any, output: AgentOutput, memory: Any) -> AgentOutput:
        """Give the answer as it is."""
        return output


class KernOwnAgent(StopsOnFault, OwnAgent):
    """The same, with the policy."""


@old_attributes
async def test_an_agent_of_ones_own_is_ended_too(sandbox: Sandbox) -> None:
    """Also one that has no such place for the last word as the framework's have."""
    model = Model([asked(FAILS)] * 3)
    output = await agent(sandbox, model, KernOwnAgent).run(user_msg="go")
    assert stop(output).reason == "repeated"
    assert len(model.requests) == 3


@old_attributes
async def test_a_call_of_which_nothing_ran_is_made_once_more(
    standstill: Standstill,
) -> None:
    """In an agent, and by a call that belongs to no run."""
    with Sandbox(timeout_s=2, prewarm=0) as sandbox:
        lender: Any = Lender(sandbox, mended_at=2)
        lender.broken.enter_context(held_up(sandbox, standstill))
        (tool,) = as_tools(lender, "run_code", policy=POLICY)
        output = await tool.acall(code="print(7)")
    result = result_of(output)
    assert result is not None
    assert (result.stdout, result.attempts, output.is_error) == ("7\n", 2, False)


def test_a_sync_call_has_the_policy_too(sandbox: Sandbox) -> None:
    """Its context is that of a run as well; without one there is nothing to count."""
    (tool,) = as_tools(sandbox, "run_code", policy=POLICY)
    assert isinstance(tool, KernFunctionTool)
    context = Context(Analysis(sandbox))
    outputs = [tool.call(**FAILS, ctx=context) for _ in range(4)]
    repeats = [output.raw_output.get("repeats") for output in outputs]
    assert repeats == [0, 1, 2, None]
    assert outputs[3].raw_output["error"] == "stopped"
    assert outputs[3].is_error
    alone = [tool.call(**FAILS).raw_output["repeats"] for _ in range(4)]
    assert alone == [0, 0, 0, 0]


@pytest.mark.parametrize("other", [None, {}, "text", {"raw": None}], ids=repr)
def test_what_was_not_ended_has_no_reason(other: object) -> None:
    """`stop_of` may be asked of anything."""
    assert stop_of(other) is None
