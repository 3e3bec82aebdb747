"""LlamaIndex: a `CodeActAgent` whose code runs in a sandbox."""

# The framework leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import CodeActAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.workflow import Context, JsonSerializer
from workflows.errors import WorkflowCancelledByUser

from kern_tools import FaultPolicy, Sandbox, SandboxPool
from kern_tools.adapters.llama_index import (
    KernFault,
    KernOutput,
    KernStop,
    StopsOnFault,
    code_execute_fn,
    result_of,
    stop_of,
)

from .cells import WAITS, Gate

# The framework's workflows read pydantic's old attributes off every agent.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecationWarning"
)


# What the framework keeps beside, it says, it cannot serialize.
other_keys = pytest.mark.filterwarnings("ignore:Skipping serialization of known")


class StoppingCodeActAgent(StopsOnFault, CodeActAgent):
    """One that ends where the policy says so."""


class Model:
    """Says `turns`, and keeps what it was asked."""

    def __init__(self, *turns: str) -> None:
        self.requests: list[list[ChatMessage]] = []
        self._script = iter(turns)
        self.llm = MockFunctionCallingLLM(response_generator=self._say)

    def _say(self, messages: Sequence[ChatMessage], **_: object) -> ChatMessage:
        self.requests.append(list(messages))
        return ChatMessage(role="assistant", content=next(self._script))


def written(code: str) -> str:
    """Write code the way that this agent's model does."""
    return f"I run this.\n<execute>\n{code}\n</execute>"


async def ran(handler: Any) -> tuple[Any, list[Any]]:
    """Await a run; give its output and what it streamed."""
    events = [event async for event in handler.stream_events()]
    return await handler, events


async def test_the_code_runs_in_the_sandbox_and_keeps_its_names() -> None:
    """The model reads our words; code reads the result; output is streamed."""
    model = Model(written("x = 6 * 7"), written("print(x, flush=True)"), "It is 42.")
    with Sandbox(mode="kernel") as sandbox:
        going: Any = CodeActAgent(
            code_execute_fn=code_execute_fn(sandbox),
            llm=model.llm,
            system_prompt=sandbox.system_prompt("code"),
        )
        output, events = await ran(going.run(user_msg="go"))
    assert str(output) == "It is 42."
    results = [result_of(e) for e in events if isinstance(e, ToolCallResult)]
    assert [result and result.stdout for result in results] == ["", "42\n"]
    assert "".join(e.text for e in events if isinstance(e, KernOutput)) == "42\n"
    told = str(model.requests[2][-1].content)
    assert "Result of executing the code" in told
    assert "ok" in told
    assert "42" in told
    assert "sandbox" in str(model.requests[0][0].content)


async def test_a_fault_is_an_event_and_goes_to_the_model() -> None:
    """A box that ends a cell raises nothing."""
    blocked = "import ctypes\nctypes.CDLL(None).mount(0, 0, 0, 0, 0)"
    model = Model(written(blocked), "I cannot.")
    with Sandbox() as sandbox:
        run = code_execute_fn(sandbox)
        going: Any = CodeActAgent(code_execute_fn=run, llm=model.llm)
        _, events = await ran(going.run(user_msg="go"))
    (fault,) = [event for event in events if isinstance(event, KernFault)]
    assert fault.type == "escape_blocked"
    (call,) = [event for event in events if isinstance(event, ToolCallResult)]
    read = JsonSerializer().deserialize(JsonSerializer().serialize(call))
    for each in (call, read):
        result = result_of(each)
        assert result is not None
        assert result.fault_type == "escape_blocked"
    assert "fault: escape_blocked" in str(model.requests[1][-1].content)


@other_keys
async def test_a_policy_ends_this_agent_too(sandbox: Sandbox) -> None:
    """Its execute function carries the policy as tools do."""
    model = Model(*[written("1/0")] * 3, "Hello again.")
    policy = FaultPolicy(max_repeats=2)
    run = code_execute_fn(sandbox, policy=policy)
    going: Any = StoppingCodeActAgent(code_execute_fn=run, llm=model.llm)
    context = Context(going)
    output, events = await ran(going.run(user_msg="go", ctx=context))
    stop = stop_of(output)
    assert stop is not None
    assert (stop.reason, stop.message) == ("repeated", str(output))
    assert [e.reason for e in events if isinstance(e, KernStop)] == ["repeated"]
    again = await going.run(user_msg="hello?", ctx=context)
    assert str(again) == "Hello again."


@other_keys
async def test_each_context_has_a_sandbox_of_a_pool(pool: SandboxPool) -> None:
    """As with tools, the context is the key."""
    model = Model(
        *(written("open('n.txt', 'w').close()"), "done"),
        *(written("import os; print(os.path.exists('n.txt'))"), "done"),
        *(written("import os; print(os.path.exists('n.txt'))"), "done"),
    )
    going: Any = CodeActAgent(code_execute_fn=code_execute_fn(pool), llm=model.llm)
    first, second = Context(going), Context(going)
    outputs = [
        await going.run(user_msg="go", ctx=context)
        for context in (first, second, first)
    ]
    results = [result_of(output.tool_calls[-1]) for output in outputs[1:]]
    assert [result and result.stdout for result in results] == ["False\n", "True\n"]
    assert len(pool) == 2


async def test_cancelling_the_run_ends_the_box(patient: Sandbox, gate: Gate) -> None:
    """What holds for tools holds for this function."""
    model = Model(written(WAITS))
    run = code_execute_fn(patient)
    going: Any = CodeActAgent(code_execute_fn=run, llm=model.llm)
    handler = going.run(user_msg="go")
    assert await asyncio.to_thread(gate.wait) == b"running"
    await handler.cancel_run()
    with pytest.raises(WorkflowCancelledByUser):
        await handler
    assert await asyncio.to_thread(gate.wait_end) == b""
