"""LangChain: images for models that take them from the user alone."""

# The framework leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain import agents
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from kern_tools import Sandbox
from kern_tools.adapters.langchain import (
    FaultMiddleware,
    ImagesToUser,
    as_tools,
    images_to_user,
    result_of,
)
from kern_tools.scripted import ScriptedCall, ScriptedServer, Step

from .cells import CHARTS

GO: Any = {"messages": [("user", "go")]}


def sent(server: ScriptedServer, number: int) -> list[dict[str, Any]]:
    """Give the messages of one request."""
    return list(server.requests[number].body["messages"])


@pytest.mark.parametrize("way", ["sync", "async", "streamed"])
async def test_a_chat_model_sees_charts_in_a_user_message(
    sandbox: Sandbox, way: str
) -> None:
    """After all tool messages of the turn, once, and the state stays as it was."""
    chart = ScriptedCall("run_code", {"code": CHARTS}, "chart")
    plain = ScriptedCall("run_code", {"code": "print(1)"}, "plain")
    script: list[Step] = [[chart, plain], plain, "done"]
    with ScriptedServer(script) as server:
        key = SecretStr("none")
        llm = ChatOpenAI(
            base_url=server.url,
            api_key=key,
            model="scripted",
            streaming=way == "streamed",
        )
        middleware: Any = [FaultMiddleware(), ImagesToUser()]
        agent: Any = agents.create_agent(llm, as_tools(sandbox), middleware=middleware)
        state = agent.invoke(GO) if way == "sync" else await agent.ainvoke(GO)
    for number in (1, 2):
        _, said, *answers, shown = sent(server, number)[:5]
        assert said["role"] == "assistant"
        assert [a["role"] for a in answers] == ["tool", "tool"]
        assert all(isinstance(a["content"], str) for a in answers)
        assert shown["role"] == "user"
        kinds = [part["type"] for part in shown["content"]]
        assert kinds == ["text", "image_url", "image_url"]
        assert "chart" in shown["content"][0]["text"]
        assert json.dumps(server.requests[number].body).count("data:image/png") == 2
    assert sum(m["role"] == "user" for m in sent(server, 2)) == 2
    kept = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert isinstance(kept[0].content, list)
    result = result_of(kept[0])
    assert result is not None
    assert len(result.results) == 2


def picture(name: str) -> dict[str, Any]:
    """Write an image block."""
    return {"type": "image", "base64": name, "mime_type": "image/png"}


def answer(call_id: str, *blocks: Any) -> ToolMessage:
    """Write a tool's answer."""
    return ToolMessage(list(blocks), tool_call_id=call_id, artifact={"a": 1})


def test_each_turn_has_its_own_images_in_order() -> None:
    """Labelled by the call, after the last tool message of their turn."""
    text = {"type": "text", "text": "two charts"}
    calls = [tool_call(name="t", args={}, id=i) for i in "ab"]
    turn = AIMessage("", tool_calls=calls)
    first, second = answer("a", text, picture("1"), picture("2")), answer("b", text)
    third = answer("c", picture("3"))
    given = [HumanMessage("go"), turn, first, second, AIMessage("hm"), turn, third]
    moved = images_to_user(given)
    kinds = [type(message).__name__ for message in moved]
    assert kinds == [
        *("HumanMessage", "AIMessage", "ToolMessage", "ToolMessage", "HumanMessage"),
        *("AIMessage", "AIMessage", "ToolMessage", "HumanMessage"),
    ]
    shown: Any = moved[4].content
    assert shown[1:] == [picture("1"), picture("2")]
    assert "call a:" in shown[0]["text"]
    assert moved[2].content == "two charts"
    assert moved[7].text
    assert images_to_user(moved) == moved
    assert first.content == [text, picture("1"), picture("2")]
    assert isinstance(moved[2], ToolMessage)
    assert moved[2].artifact == first.artifact


def test_what_has_no_image_is_left_as_it_is() -> None:
    """Other blocks too, of whichever tool."""
    other = answer("a", {"type": "json", "json": {}}, "text")
    given = [HumanMessage([picture("1")]), AIMessage("x"), other]
    assert images_to_user(given) == given
    mixed = answer("a", {"type": "json", "json": {}}, picture("1"))
    kept, shown = images_to_user([mixed])
    assert kept.content == [{"type": "json", "json": {}}]
    assert isinstance(shown, HumanMessage)
