"""Calls that LangChain sets aside: which of them reach a tool of ours."""

# The framework leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    InvalidToolCall,
    ToolCall,
    ToolMessage,
)
from langchain_core.tools import BaseTool, tool

from kern_tools import Sandbox
from kern_tools.adapters.langchain import CallRepair, as_tools, result_of


@tool
def python(code: str) -> str:
    """Be a tool of the caller's own."""
    return code


def aside(name: str, args: str | None, call_id: str | None = "a") -> InvalidToolCall:
    """Write a call that LangChain could not read."""
    kind: Any = "invalid_tool_call"
    return InvalidToolCall(type=kind, name=name, args=args, id=call_id, error="no JSON")


def repaired(message: Any, tools: list[Any]) -> Any:
    """Pass what a model said through the middleware."""
    request: Any = ModelRequest(model=None, messages=[], tools=tools)  # type: ignore[arg-type]
    response: Any = ModelResponse(result=[message])
    return CallRepair().wrap_model_call(request, lambda _: response).result[0]


@pytest.fixture
def ours(sandbox: Sandbox) -> list[BaseTool]:
    """The default tools."""
    return as_tools(sandbox)


def test_what_can_be_read_becomes_a_call(ours: list[BaseTool]) -> None:
    """The model sees its own arguments again, as JSON."""
    call = aside("run_code", '{"code": "print(1)",}')
    said = repaired(AIMessage("so:", invalid_tool_calls=[call]), ours)
    args = {"code": "print(1)"}
    assert said.tool_calls == [
        {"type": "tool_call", "name": "run_code", "args": args, "id": "a"}
    ]
    assert (said.content, said.invalid_tool_calls) == ("so:", [])


@pytest.mark.parametrize("written", ["print(1)", '{"code": "print(', "[1]", "", None])
def test_what_cannot_be_read_is_answered_by_its_tool(
    ours: list[BaseTool], written: str | None
) -> None:
    """In the tool's words, which say what to send; nothing runs."""
    said = repaired(
        AIMessage("", invalid_tool_calls=[aside("run_code", written)]), ours
    )
    (call,) = said.tool_calls
    message = ours[0].invoke(call)
    assert isinstance(message, ToolMessage)
    assert message.artifact["error"] == "bad_arguments"
    assert "Send one JSON object" in message.text
    assert result_of(message) is None


@pytest.mark.parametrize("is_read", [True, False])
def test_a_usual_name_of_a_tool_is_understood(
    ours: list[BaseTool], is_read: bool
) -> None:
    """Unless the caller has a tool of that name."""
    said = AIMessage(
        "",
        tool_calls=[ToolCall(name="python", args={}, id="a")] if is_read else [],
        invalid_tool_calls=[] if is_read else [aside("python", "x")],
    )
    (call,) = repaired(said, ours).tool_calls
    assert call["name"] == "run_code"
    assert repaired(said, [*ours, python]) == said


@pytest.mark.parametrize(
    "call",
    [aside("other", "x"), aside("run_code", "x", None), aside("search", "x")],
    ids=["unknown", "without an id", "not offered"],
)
def test_other_calls_are_left_as_they_are(
    ours: list[BaseTool], call: InvalidToolCall
) -> None:
    """What is not ours, or cannot be answered, is LangChain's."""
    tools = [*ours, {"type": "web_search", "name": "search"}]
    said = AIMessage("", invalid_tool_calls=[call])
    assert repaired(said, tools) == said


async def test_an_async_agent_is_asked_the_same_way(ours: list[BaseTool]) -> None:
    """The model is awaited, and its calls are put right as well."""
    said = AIMessage("", invalid_tool_calls=[aside("run_code", '{"code": "1",}')])

    async def model(_: object) -> Any:
        return ModelResponse(result=[said])

    request: Any = ModelRequest(model=None, messages=[], tools=list(ours))  # type: ignore[arg-type]
    response = await CallRepair().awrap_model_call(request, model)
    assert response.result == [repaired(said, list(ours))]
    (message,) = response.result
    assert isinstance(message, AIMessage)
    assert [call["args"] for call in message.tool_calls] == [{"code": "1"}]


def test_what_is_no_word_of_a_model_is_left_alone(ours: list[BaseTool]) -> None:
    """Middleware may add messages of other kinds."""
    said = HumanMessage("run_code")
    assert repaired(said, ours) is said
