"""The OpenAI Agents SDK within a policy, and calls that are made again."""

# The SDK leaves parts of its types open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Sequence
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    RunConfig,
    Runner,
    RunState,
    ShellActionRequest,
    ShellCallData,
    ShellCommandRequest,
    ShellTool,
)
from agents.run_context import RunContextWrapper
from agents.usage import Usage

from kern_tools import FaultPolicy, Sandbox, StopReason
from kern_tools.adapters.openai_agents import (
    as_shell_tool,
    as_tools,
    end_on_stop,
    result_of,
    stop_of,
)
from kern_tools.adapters.openai_agents.watches import Watches
from tests.lending import Lender, held_up
from tests.standstill import Standstill

from .agents_model import ScriptedModel, asked, said

QUIET = RunConfig(tracing_disabled=True)
POLICY = FaultPolicy(max_repeats=2, max_host_failures=2, retry_pause_s=0)
FAILS = {"code": "open('runs', 'a').write('.')\n1/0"}
WRITES = {"code": "print(open('runs', 'a').write('.'))"}


def runs(sandbox: Sandbox) -> int:
    """Count how often the cells ran."""
    return len(sandbox.read_file("runs"))


async def ran(tools: Sequence[Any], *turns: Sequence[Any], **options: Any) -> Any:
    """Run an agent whose model says the turns."""
    model = ScriptedModel(*turns)
    agent = Agent(name="a", model=model, tools=list(tools), **options)
    return await Runner.run(agent, "go", run_config=QUIET)


def results(run: Any) -> list[Any]:
    """Give the results of a run's calls."""
    return [found for item in run.new_items if (found := result_of(item)) is not None]


# the end


async def test_an_agent_that_repeats_itself_is_ended(sandbox: Sandbox) -> None:
    """The model is not asked again; the reason is typed, and the run's output."""
    tools = as_tools(sandbox, policy=POLICY)
    turns = [[asked(FAILS, call_id=f"c{n}")] for n in range(3)]
    run = await ran(tools, *turns, tool_use_behavior=end_on_stop)
    stop = stop_of(run)
    assert stop is not None
    assert (stop.reason, stop.count) == (StopReason.REPEATED, 3)
    assert run.final_output == stop.message
    assert [result.repeats for result in results(run)] == [0, 1, 2]
    assert "exit 1 again" in run.new_items[-1].raw_item["output"]
    assert runs(sandbox) == 3


async def test_without_that_behavior_nothing_runs_any_more(sandbox: Sandbox) -> None:
    """The model is told so, and has the last word."""
    tools = as_tools(sandbox, policy=POLICY)
    turns = [[asked(FAILS, call_id=f"c{n}")] for n in range(4)]
    run = await ran(tools, *turns, [said()])
    last = run.new_items[-2]
    assert run.final_output == "done"
    assert runs(sandbox) == 3
    assert last.raw_item["output"].startswith("not run: this loop has ended.")
    assert (last.custom_data["error"], result_of(last)) == ("stopped", None)
    assert stop_of(last) == stop_of(run) != None  # noqa: E711


async def test_calls_of_one_turn_are_all_answered(sandbox: Sandbox) -> None:
    """Also those beside the one that ends the run; other tools are left alone."""
    tools = as_tools(sandbox, policy=POLICY)
    turns = [[asked(FAILS, call_id=f"c{n}")] for n in range(2)]
    last = [asked(FAILS, call_id="c2"), asked({"code": "print(7)"}, call_id="c3")]
    run = await ran(tools, *turns, last, tool_use_behavior=end_on_stop)
    assert [result.exit_code for result in results(run)][-2:] == [1, 0]
    assert stop_of(run) is not None


async def test_a_broken_host_opens_the_circuit(broken: Sandbox) -> None:
    """As many calls as the policy allows, and no retries of what cannot work."""
    tools = as_tools(broken, policy=POLICY)
    turns = [[asked({"code": f"{n}"}, call_id=f"c{n}")] for n in range(2)]
    run = await ran(tools, *turns, tool_use_behavior=end_on_stop)
    stop = stop_of(run)
    assert stop is not None
    assert (stop.reason, stop.count) == (StopReason.HOST, 2)
    assert [result.fault_type for result in results(run)] == ["startup_failed"] * 2


async def test_each_run_counts_for_itself(sandbox: Sandbox) -> None:
    """What a user asked before does not count against the next question."""
    tools = as_tools(sandbox, policy=POLICY)
    for _ in range(2):
        turns = [[asked(FAILS, call_id=f"c{n}")] for n in range(2)]
        run = await ran(tools, *turns, [said()])
        assert stop_of(run) is None
        assert [result.repeats for result in results(run)] == [0, 1]


def test_what_was_counted_goes_with_its_run() -> None:
    """A server keeps nothing of runs that are over."""
    watches = Watches(POLICY)
    context = RunContextWrapper[Any](None, usage=Usage())
    watch = weakref.ref(watches.of(context))
    assert watches.of(context) is watch()
    del context
    gc.collect()
    assert watch() is None


async def test_a_reason_survives_a_stored_run(sandbox: Sandbox) -> None:
    """It stands beside the result that brought it, as plain JSON."""
    (run_code,) = as_tools(sandbox, "run_code", policy=POLICY)
    (needs,) = as_tools(sandbox, "list_files")
    assert isinstance(needs, FunctionTool)
    needs.needs_approval = True
    turns = [[asked(FAILS, call_id=f"c{n}")] for n in range(3)]
    run = await ran([run_code, needs], *turns, [asked({}, "list_files", "c9")])
    agent = Agent(name="a", model=ScriptedModel([said()]), tools=[run_code, needs])
    stored = json.dumps(run.to_state().to_json())
    state: Any = await RunState.from_string(agent, stored)
    state.approve(run.interruptions[0])
    resumed = await Runner.run(agent, state, run_config=QUIET)
    assert stop_of(resumed) == stop_of(run)
    assert stop_of(resumed) is not None


def test_what_brought_no_end_has_no_reason() -> None:
    """Messages, other tools' items and no object at all are passed over."""
    others: list[object] = [None, "", {}, [], said(), [said()], {"stop": 5}]
    assert [stop_of(each) for each in others] == [None] * 7


# attempts


async def test_a_call_of_which_nothing_ran_is_made_once_more(
    standstill: Standstill,
) -> None:
    """The second attempt is the result, and the model is told."""
    with Sandbox(timeout_s=2, prewarm=0) as sandbox:
        source = Lender(sandbox, mended_at=2)
        source.broken.enter_context(held_up(sandbox, standstill))
        tools = as_tools(source, policy=POLICY)
        run = await ran(tools, [asked({"code": "print(7)"})], [said()])
    (result,) = results(run)
    assert (result.stdout, result.attempts, source.calls) == ("7\n", 2, 2)
    assert "attempt 2" in run.new_items[1].raw_item["output"]


# the shell


async def shell(tool: Any, call_id: str, command: str, context: Any) -> Any:
    """Make a call of the shell as the runner does."""
    assert isinstance(tool, ShellTool)
    data = ShellCallData(call_id=call_id, action=ShellActionRequest([command]))
    executor: Any = tool.executor
    return await executor(ShellCommandRequest(context, data))


async def test_the_shell_keeps_within_a_policy(sandbox: Sandbox) -> None:
    """Once a bound is reached nothing runs, which an exit code says too."""
    tool = as_shell_tool(sandbox, policy=POLICY)
    context = RunContextWrapper[Any](None)
    command = "echo >> runs; exit 3"
    answers = [await shell(tool, f"s{n}", command, context) for n in range(4)]
    codes = [answer.output[0].outcome.exit_code for answer in answers]
    stops = [stop_of(answer.provider_data["kern_tools"]) for answer in answers]
    assert codes == [3, 3, 3, 126]
    assert runs(sandbox) == 3
    assert [stop is not None for stop in stops] == [False, False, True, True]


# calls that are made again


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
async def test_a_call_under_its_id_runs_once(
    sandbox: Sandbox, idempotent: bool
) -> None:
    """As where a run goes on from a state stored before its call had ended."""
    tools = as_tools(sandbox, idempotent=idempotent)
    found = [
        (await ran(tools, [asked(WRITES, call_id="c7")], [said()])).new_items[1]
        for _ in range(2)
    ]
    assert runs(sandbox) == (1 if idempotent else 2)
    first, second = (item.raw_item["output"] for item in found)
    assert (first == second) is idempotent


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
async def test_a_shell_call_under_its_id_runs_once(
    sandbox: Sandbox, idempotent: bool
) -> None:
    """With the outcome of each of its commands."""
    tool = as_shell_tool(sandbox, idempotent=idempotent)
    context = RunContextWrapper[Any](None)
    first, second = [
        await shell(tool, "s1", "echo -n . >> runs; echo 7", context) for _ in range(2)
    ]
    assert runs(sandbox) == (1 if idempotent else 2)
    assert first.output == second.output
