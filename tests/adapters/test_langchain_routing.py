"""LangGraph: edges that depend on what the sandbox did."""

# The framework leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportMissingTypeStubs=false

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from kern_tools import ConfigError, ExecutionResult, FaultPolicy, Sandbox, SandboxFault
from kern_tools.adapters.langchain import as_tools, route_on_fault
from kern_tools.reply import Reply
from tests.depth import crossed

from .cells import LOOP

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

ROUTES = {"timeout": "shrink", "oom": "bigger", None: "model"}
BLOCKED = {
    "code": "import ctypes\nctypes.CDLL(None).mount(b'n', b'/tmp', b'tmpfs', 0, 0)"
}


def said(fault: str | None, call_id: str = "c1", *, exit_code: int = 0) -> ToolMessage:
    """Write the answer of a call as it stands in a state."""
    found = None if fault is None else SandboxFault(type=fault, message="it")
    result = ExecutionResult(exit_code=exit_code, fault=found)
    artifact = Reply(name="run_code", parts=(), result=result).artifact
    return ToolMessage("text", tool_call_id=call_id, artifact=artifact)


def asked(*call_ids: str) -> AIMessage:
    """Write the model's turn."""
    calls = [tool_call(name="run_code", args={"code": "1"}, id=i) for i in call_ids]
    return AIMessage("", tool_calls=calls)


def graph(sandbox: Sandbox, calls: list[dict[str, Any]], route: Any) -> Any:
    """Build a graph whose model makes `calls` at once, and that ends at any node."""

    def ask(state: MessagesState) -> Any:
        made = [
            tool_call(name="run_code", args=args, id=f"c{n}")
            for n, args in enumerate(calls)
        ]
        return {"messages": [AIMessage("", tool_calls=made)]}

    def say(name: str, state: MessagesState) -> Any:
        return {"messages": [AIMessage(name)]}

    built: Any = StateGraph(MessagesState)
    built.add_node("ask", ask)
    built.add_node("tools", ToolNode(as_tools(sandbox)))
    for name in ("shrink", "bigger", "model"):
        built.add_node(name, partial(say, name))
    built.set_entry_point("ask")
    built.add_edge("ask", "tools")
    built.add_conditional_edges("tools", route)
    return built.compile()


@pytest.mark.parametrize(
    ("calls", "node"),
    [
        ([LOOP], "shrink"),
        ([{"code": "print(1)"}], "model"),
        ([{"code": "1/0"}], "model"),
        ([{"cod": "1"}], "model"),
        ([BLOCKED], "model"),
        ([{"code": "print(1)"}, LOOP, BLOCKED], "shrink"),
    ],
    ids=["timeout", "ok", "exit 1", "bad arguments", "blocked", "parallel"],
)
@pytest.mark.parametrize("way", ["sync", "async"])
async def test_a_graph_goes_where_the_fault_says(
    sandbox: Sandbox, calls: list[dict[str, Any]], node: str, way: str
) -> None:
    """A real tool node before the edge, one call or several at once."""
    made = graph(sandbox, calls, route_on_fault(ROUTES))
    given: Any = {"messages": [("user", "go")]}
    state = await made.ainvoke(given) if way == "async" else made.invoke(given)
    assert state["messages"][-1].text == node


def test_a_drawing_shows_the_nodes_of_the_edge(sandbox: Sandbox) -> None:
    """And no edge to nodes that it never chooses."""
    route = route_on_fault({"timeout": "shrink", None: "model"})
    drawn = graph(sandbox, [], route).get_graph()
    assert {e.target for e in drawn.edges if e.source == "tools"} == {"shrink", "model"}


@pytest.mark.parametrize(
    ("faults", "node"),
    [
        ([], "model"),
        ([None], "model"),
        (["timeout"], "shrink"),
        (["oom", "timeout"], "shrink"),
        ([None, "oom", None], "bigger"),
        (["quake"], "ask a person"),
        (["quake", "oom"], "bigger"),
        (["killed"], "ask a person"),
    ],
    ids=str,
)
def test_the_first_of_the_routes_decides(faults: list[str | None], node: str) -> None:
    """A fault without a route of its own, of a newer kern too, has the default."""
    route = route_on_fault(ROUTES, default="ask a person")
    calls = [f"c{n}" for n in range(len(faults))]
    answers = [said(fault, i) for fault, i in zip(faults, calls, strict=True)]
    assert route({"messages": [asked(*calls), *answers]}) == node


def test_without_a_default_it_is_the_models(sandbox: Sandbox) -> None:
    """Which reads what happened."""
    state = {"messages": [asked("c1"), said("quake")]}
    assert route_on_fault(ROUTES)(state) == "model"


def test_only_the_last_turn_counts() -> None:
    """A fault that the model has read is no news."""
    before = [asked("c1"), said("oom"), asked("c2"), said("timeout", "c2")]
    route = route_on_fault(ROUTES)
    assert route({"messages": [*before, asked("c3"), said(None, "c3")]}) == "model"
    assert route({"messages": [*before, AIMessage("I give up")]}) == "model"
    assert route({"messages": before}) == "shrink"
    assert route({"messages": [*before, HumanMessage("a note")]}) == "shrink"


@pytest.mark.parametrize("kind", [dict, list, SimpleNamespace])
def test_a_state_may_be_of_any_kind(kind: Any) -> None:
    """As LangGraph's may: a mapping, a list of messages, an object with fields."""
    messages = [asked("c1"), said("oom")]
    state = messages if kind is list else kind(messages=messages)
    assert route_on_fault(ROUTES)(state) == "bigger"


def test_messages_of_other_tools_have_no_fault() -> None:
    """Their artifacts are their own."""
    other = ToolMessage("x", tool_call_id="c1", artifact={"fault": {"type": "oom"}})
    assert route_on_fault(ROUTES)([asked("c1"), other]) == "model"


@pytest.mark.parametrize(
    "routes",
    [
        {"timeout": "shrink"},
        {"timeuot": "shrink", None: "model"},
        {"repeated": "report", None: "model"},
        {5: "shrink", None: "model"},
    ],
    ids=str,
)
def test_routes_that_would_never_be_taken_are_refused(routes: Any) -> None:
    """When the graph is built, with what was meant."""
    with pytest.raises(ConfigError) as refused:
        route_on_fault(routes)
    assert refused.value.option == "routes"


@pytest.mark.parametrize(
    ("routes", "node"),
    [
        ({"timeout": "shrink", None: "model"}, "__end__"),
        ({"timeout": "shrink", "repeated": "report", None: "model"}, "report"),
    ],
    ids=["end", "node"],
)
def test_with_a_policy_repeats_have_an_edge(routes: Any, node: str) -> None:
    """Before that of the fault, once the bound is reached."""
    route = route_on_fault(routes, policy=FaultPolicy(max_repeats=1))
    once = [asked("c1"), said("timeout", exit_code=137)]
    assert route(once) == "shrink"
    assert route([*once, *once]) == node
    assert route([*once, HumanMessage("try again"), *once]) == "shrink"
