"""LangChain and LangGraph: what a policy does in agents and graphs."""

# The framework leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportMissingTypeStubs=false

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from langchain import agents
from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import SecretStr

from kern_tools import FaultPolicy, Sandbox, Stop, StopReason
from kern_tools.adapters.langchain import (
    FaultMiddleware,
    as_tools,
    result_of,
    route_on_fault,
    stop_of,
)
from kern_tools.scripted import ScriptedCall, ScriptedServer, Step
from tests.lending import Lender, held_up
from tests.standstill import Standstill

GO: Any = {"messages": [("user", "go")]}
FAILS = ScriptedCall("run_code", {"code": "1/0"})
POLICY = FaultPolicy(retry_pause_s=0, max_repeats=2)

both_ways = pytest.mark.parametrize("way", ["sync", "async"])


def model(server: ScriptedServer) -> ChatOpenAI:
    """Point LangChain's OpenAI model at the scripted server."""
    return ChatOpenAI(base_url=server.url, api_key=SecretStr("none"), model="scripted")


def agent(server: ScriptedServer, tools: Sequence[BaseTool], **options: Any) -> Any:
    """Build an agent that has the policy."""
    middleware: Any = FaultMiddleware(POLICY)
    return agents.create_agent(
        model(server), list(tools), middleware=[middleware], **options
    )


async def run(agent: Any, given: Any, config: Any = None, *, way: str) -> Any:
    """Run an agent one of the two ways."""
    if way == "async":
        return await agent.ainvoke(given, config)
    return agent.invoke(given, config)


def answers(state: Any) -> list[ToolMessage]:
    """Pick the tools' answers out of an agent's state."""
    return [m for m in state["messages"] if isinstance(m, ToolMessage)]


def is_answered(state: Any) -> bool:
    """Say whether every call has one answer, as the next request needs it."""
    said = [m for m in state["messages"] if isinstance(m, AIMessage)]
    asked = [call["id"] for message in said for call in message.tool_calls]
    return asked == [message.tool_call_id for message in answers(state)]


def stop(state: Any) -> Stop:
    """Take the reason of an agent that was ended."""
    found = stop_of(state)
    assert found is not None
    assert state["messages"][-1].text == found.message
    return found


@both_ways
async def test_an_agent_that_repeats_itself_is_ended(
    sandbox: Sandbox, way: str
) -> None:
    """Each repeat is told; then there is a typed reason, and words for people."""
    with ScriptedServer([FAILS] * 3) as server:
        state = await run(agent(server, as_tools(sandbox)), GO, way=way)
    assert (stop(state).reason, stop(state).count) == (StopReason.REPEATED, 3)
    assert [m.artifact["repeats"] for m in answers(state)] == [0, 1, 2]
    assert answers(state)[1].text.startswith("exit 1 again: this is the same call")
    assert len(server.requests) == 3
    assert is_answered(state)


@both_ways
async def test_a_broken_host_ends_the_agent(broken: Sandbox, way: str) -> None:
    """Before the model rewrites code that is not to blame."""
    codes = [ScriptedCall("run_code", {"code": f"print({n})"}) for n in range(2)]
    with ScriptedServer(codes) as server:
        state = await run(agent(server, as_tools(broken)), GO, way=way)
    assert (stop(state).reason, stop(state).count) == (StopReason.HOST, 2)
    assert "'/" in stop(state).message  # the path that is gone
    assert [m.status for m in answers(state)] == ["error", "error"]
    assert is_answered(state)


@both_ways
async def test_a_call_of_which_nothing_ran_is_made_once_more(
    standstill: Standstill, way: str
) -> None:
    """The model reads one answer, that of the second attempt."""
    script: list[Step] = [ScriptedCall("run_code", {"code": "print(7)"}), "done"]
    with Sandbox(timeout_s=2, prewarm=0) as sandbox, ScriptedServer(script) as server:
        lender = Lender(sandbox, mended_at=2)
        lender.broken.enter_context(held_up(sandbox, standstill))
        state = await run(agent(server, as_tools(lender)), GO, way=way)
    (message,) = answers(state)
    result = result_of(message)
    assert result is not None
    assert (result.stdout, result.attempts, lender.calls) == ("7\n", 2, 2)
    assert (message.status, stop_of(state)) == ("success", None)


@both_ways
async def test_a_thread_goes_on_counting_after_a_checkpoint(
    sandbox: Sandbox, way: str
) -> None:
    """An agent made anew has nothing but what the saver's bytes hold."""
    saver, config = InMemorySaver(), {"configurable": {"thread_id": "t1"}}
    state: Any = None
    with ScriptedServer([FAILS] * 3) as server:
        for given in (GO, None, None, None):
            again = agent(
                server,
                as_tools(sandbox),
                checkpointer=saver,
                interrupt_before=["tools"],
            )
            state = await run(again, given, config, way=way)
        assert stop(state).reason == StopReason.REPEATED
        assert stop_of(again.get_state(config).values) == stop(state)
    assert [m.artifact["repeats"] for m in answers(state)] == [0, 1, 2]


def test_what_the_user_says_begins_a_new_loop(sandbox: Sandbox) -> None:
    """An agent that was ended works again when it is asked again."""
    config = {"configurable": {"thread_id": "t1"}}
    with ScriptedServer([FAILS] * 4 + ["done"]) as server:
        going = agent(server, as_tools(sandbox), checkpointer=InMemorySaver())
        assert stop(going.invoke(GO, config)).reason == "repeated"
        state = going.invoke(GO, config)
    assert stop_of(state) is None
    assert state["messages"][-1].text == "done"
    assert answers(state)[-1].artifact["repeats"] == 0


def test_calls_of_one_turn_are_no_repeats_of_each_other(sandbox: Sandbox) -> None:
    """They are of those in the turn before."""
    one = ScriptedCall("run_code", {"code": "1/0"}, "a")
    two = ScriptedCall("run_code", {"code": "1/0"}, "b")
    with ScriptedServer([[one, two], FAILS, "done"]) as server:
        state = agent(server, as_tools(sandbox)).invoke(GO)
    assert [m.artifact["repeats"] for m in answers(state)] == [0, 0, 1]


def test_unusable_arguments_are_counted_too(sandbox: Sandbox) -> None:
    """Nothing ran, and the artifact says how often before."""
    bad = ScriptedCall("run_code", {"cod": "1"})
    with ScriptedServer([bad] * 3) as server:
        state = agent(server, as_tools(sandbox)).invoke(GO)
    assert stop(state).reason == "repeated"
    assert [m.artifact.get("repeats") for m in answers(state)] == [None, 1, 2]
    assert answers(state)[1].text.startswith("bad arguments again: ")


def test_more_time_is_given_within_the_sandboxs_bound() -> None:
    """As the core does, with the agent's own messages as its memory."""
    loop = ScriptedCall("run_code", {"code": "import time; time.sleep(60)"})
    options: Any = {"mode": "kernel", "timeout_s": 0.5, "timeout_max_s": 0.8}
    with Sandbox(**options) as sandbox, ScriptedServer([loop, loop, "done"]) as server:
        sandbox.wait_ready()
        state = agent(server, as_tools(sandbox)).invoke(GO)
    assert [m.artifact["raisedTimeoutS"] for m in answers(state)] == [None, 0.8]


def test_other_tools_are_left_alone(sandbox: Sandbox) -> None:
    """They may be called as often as the model likes."""

    @tool
    def weather() -> str:
        """Tell the weather."""
        return "rain"

    call = ScriptedCall("weather", {})
    with ScriptedServer([call] * 4 + ["done"]) as server:
        state = agent(server, [weather, *as_tools(sandbox)]).invoke(GO)
    assert [m.text for m in answers(state)] == ["rain"] * 4
    assert stop_of(state) is None


def test_what_others_put_between_is_passed_over(sandbox: Sandbox) -> None:
    """Neither other messages nor answers to no call of that turn end or count."""
    policy: Any = FaultPolicy(retry_pause_s=0, max_repeats=2)
    (run,) = as_tools(sandbox, "run_code")
    route = route_on_fault({None: "model", "repeated": "report"}, policy=policy)
    messages: list[Any] = []
    for number in range(3):
        call: Any = {"name": "run_code", "args": {"code": "1/0"}, "type": "tool_call"}
        call["id"] = f"c{number}"
        assert route({"messages": messages}) == "model"
        answer = run.invoke(call)
        stray = answer.model_copy(update={"tool_call_id": "other"})
        note = SystemMessage("be brief")
        messages += [AIMessage("", tool_calls=[call]), note, stray, answer]
    assert route({"messages": messages}) == "report"


@both_ways
async def test_a_graph_of_ones_own_has_the_policy_too(
    sandbox: Sandbox, way: str
) -> None:
    """`ToolNode` takes the middleware's methods, the edge takes the policy."""
    with ScriptedServer([FAILS] * 3) as server:
        state = await run(graph(server, as_tools(sandbox)), GO, way=way)
    assert [m.artifact["repeats"] for m in answers(state)] == [0, 1, 2]
    assert state["messages"][-1].text == "repeated"


def graph(server: ScriptedServer, tools: list[BaseTool]) -> Any:
    """Build a model and a tool node, with a node for the end."""
    policy = FaultMiddleware(POLICY)
    asked = model(server).bind_tools(tools)

    def ask(state: MessagesState) -> Any:
        return {"messages": [asked.invoke(state["messages"])]}

    def report(state: MessagesState) -> Any:
        return {"messages": [AIMessage("repeated")]}

    wrapped: Any = {
        "wrap_tool_call": policy.wrap_tool_call,
        "awrap_tool_call": policy.awrap_tool_call,
    }
    built: Any = StateGraph(MessagesState)
    built.add_node("model", ask)
    built.add_node("tools", ToolNode(tools, **wrapped))
    built.add_node("report", report)
    built.set_entry_point("model")
    built.add_edge("model", "tools")
    routes = {None: "model", "repeated": "report"}
    built.add_conditional_edges("tools", route_on_fault(routes, policy=POLICY))
    return built.compile()


@pytest.mark.parametrize(
    "other", [{}, None, "text", [], {"messages": []}, AIMessage("hi")], ids=repr
)
def test_what_was_not_ended_has_no_reason(other: object) -> None:
    """`stop_of` may be asked of anything."""
    assert stop_of(other) is None


@pytest.mark.verify
def test_without_the_agents_package_the_tools_still_load() -> None:
    """`langchain-core` is enough for them; the middleware says what it needs."""
    program = (
        "import sys\n"
        "sys.modules['langchain'] = None\n"
        "from kern_tools.adapters.langchain import as_tools, route_on_fault, stop_of\n"
        "try:\n"
        "  from kern_tools.adapters.langchain import FaultMiddleware\n"
        "except ImportError as error:\n"
        "  print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert done.stderr == ""
    assert done.stdout.strip().endswith("pip install langchain")
