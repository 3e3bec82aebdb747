"""What is said of requests that the API refuses, and of those that it takes."""

# The SDK leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import base64
from typing import Any

import pytest
from openai import OpenAI

from kern_tools import Sandbox
from kern_tools.adapters.openai import as_tools
from kern_tools.scripted import ScriptedCall, ScriptedRequest, ScriptedServer, Step

from .cells import CHARTS
from .request_checks import assert_requests, problems_of

PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
USER = {"role": "user", "content": "go"}
PLAIN: dict[str, Any] = {"type": "object", "properties": {}}
STRICT: dict[str, Any] = {
    "type": "object",
    "properties": {"code": {"type": ["string", "null"]}},
    "required": ["code"],
    "additionalProperties": False,
}


def chat(*messages: Any, **more: Any) -> ScriptedRequest:
    """Write a request to Chat Completions."""
    body = {"model": "m", "messages": [USER, *messages], **more}
    return ScriptedRequest("/v1/chat/completions", body)


def responses(*items: Any, **more: Any) -> ScriptedRequest:
    """Write a request to Responses."""
    body = {"model": "m", "input": [USER, *items], **more}
    return ScriptedRequest("/v1/responses", body)


def offered(name: str = "f", **more: Any) -> ScriptedRequest:
    """Write a request to Responses that offers one function."""
    tool = {"type": "function", "name": name, "parameters": PLAIN, "strict": None}
    return responses(tools=[{**tool, **more}])


def strict(**more: Any) -> ScriptedRequest:
    """Write one that offers a function in strict mode."""
    return offered(strict=True, parameters={**STRICT, **more})


def field(**schema: Any) -> ScriptedRequest:
    """Write one whose strict function has a field of such a schema."""
    return strict(properties={"code": schema})


def nested(levels: int) -> dict[str, Any]:
    """Write a strict schema of objects in objects."""
    inner = nested(levels - 1) if levels else {"type": "string"}
    return {**STRICT, "properties": {"code": inner}}


def asks(*ids: str, **more: Any) -> dict[str, Any]:
    """Write a message of Chat that makes calls."""
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": i, "type": "function", "function": function} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def tells(call_id: str, content: Any = "42") -> dict[str, Any]:
    """Write a message of Chat that answers a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def call(call_id: str, **more: Any) -> dict[str, Any]:
    """Write a function call of Responses."""
    head = {"type": "function_call", "call_id": call_id, "name": "f"}
    return {**head, "arguments": "{}", **more}


def output(call_id: str, output: Any = "42", kind: str = "function") -> dict[str, Any]:
    """Write the answer to a call of Responses."""
    return {"type": f"{kind}_call_output", "call_id": call_id, "output": output}


def picture(url: str) -> list[dict[str, Any]]:
    """Write an image as part of a message of Chat."""
    return [{"type": "image_url", "image_url": {"url": url}}]


def seen(url: str) -> list[dict[str, Any]]:
    """Write an image as part of an item of Responses."""
    return [{"type": "input_image", "detail": "auto", "image_url": url}]


THOUGHT: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": []}
FREE = {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"}
SHELL = {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}
# Each with words of what has to be said of it, as the API says it.
REFUSED = {
    "an unknown key": (chat(colour="red"), "colour"),
    "a message's unknown key": (chat({**USER, "colour": 1}), "messages[1].colour"),
    "no model": (
        ScriptedRequest("/v1/chat/completions", {"messages": [USER]}),
        "'model' is required",
    ),
    "a wrong type": (chat(temperature="hot"), "temperature"),
    "not JSON": (chat(temperature=float("nan")), "not JSON"),
    "half a character": (chat({"role": "user", "content": "\ud800"}), "not JSON"),
    "an unknown role": (chat({"role": "robot", "content": "x"}), "messages[1]"),
    "no answer": (chat(asks("a")), "'a' was not answered"),
    "one answer of two": (chat(asks("a", "b"), tells("a")), "'b' was not answered"),
    "an answer too late": (chat(asks("a"), USER, tells("a")), "'a' was not answered"),
    "an answer to nothing": (chat(tells("a")), "out of place"),
    "two answers": (chat(asks("a"), tells("a"), tells("a")), "out of place"),
    "an answer without id": (chat(asks("a"), {**USER, "role": "tool"}), "tool_call_id"),
    "two calls of one id": (chat(asks("a", "a"), tells("a")), "a second call"),
    "an id of an earlier turn": (
        chat(asks("a"), tells("a"), asks("a"), tells("a")),
        "a second call",
    ),
    "no calls, no text": (chat({"role": "assistant"}), "neither content nor calls"),
    "an empty list of calls": (chat(asks(content="x")), "an empty `tool_calls`"),
    "an image of a tool": (
        chat(asks("a"), tells("a", picture(PNG))),
        "messages[2].content[0]",
    ),
    "an image that is none": (
        chat({"role": "user", "content": picture("data:image/png;base64,AAAA")}),
        "said to be image/png",
    ),
    "an image of no known kind": (
        chat({"role": "user", "content": picture("data:image/svg+xml;base64,AAAA")}),
        "not one of",
    ),
    "an image of broken base64": (
        chat({"role": "user", "content": picture("data:image/png;base64,A")}),
        "no base64",
    ),
    "an output to nothing": (responses(output("a")), "no function_call 'a'"),
    "a call left open": (responses(call("a")), "'a' was not answered"),
    "an output before its call": (
        responses(output("a"), call("a")),
        "no function_call",
    ),
    "two outputs": (responses(call("a"), output("a"), output("a")), "no function_call"),
    "two calls with one id": (
        responses(call("a"), call("a"), output("a")),
        "a second call",
    ),
    "an item sent twice": (
        responses(call("a", id="fc_1"), output("a"), call("b", id="fc_1"), output("b")),
        "a second item",
    ),
    "another kind of output": (responses(FREE, output("c")), "no function_call"),
    "a parsed call": (
        responses(call("a", parsed_arguments={}), output("a")),
        "input[1].parsed_arguments",
    ),
    "an output of an unknown shape": (
        responses(call("a"), output("a", [{"type": "text", "text": "x"}])),
        "input[2].output",
    ),
    "an image that is none in an output": (
        responses(call("a"), output("a", seen("data:image/jpeg;base64,AAAA"))),
        "said to be image/jpeg",
    ),
    "a shell output without outcome": (
        responses(SHELL, output("c", [{"stdout": "", "stderr": ""}], "shell")),
        "'outcome' is required",
    ),
    "reasoning that led nowhere": (responses(THOUGHT), "reasoning without"),
    "reasoning whose call is gone": (responses(THOUGHT, USER), "reasoning without"),
    "an unknown earlier response": (
        responses(previous_response_id="resp_9"),
        "no response 'resp_9'",
    ),
    "an earlier response's call left open": (
        responses(previous_response_id="resp_1"),
        "'old' was not answered",
    ),
    "an earlier response's item again": (
        responses(call("old", id="fc_0"), output("old"), previous_response_id="resp_1"),
        "a second item",
    ),
    "no tools in a list": (chat(tools=[]), "an empty list"),
    "a choice without tools": (chat(tool_choice="auto"), "tool_choice"),
    "a choice of no tool": (
        responses(
            tools=offered().body["tools"], tool_choice={"type": "function", "name": "g"}
        ),
        "no tool 'g'",
    ),
    "a name with a space": (offered("run code"), "does not match"),
    "a name too long": (offered("f" * 65), "does not match"),
    "a name twice": (responses(tools=offered().body["tools"] * 2), "there twice"),
    "a description too long": (offered(description="x" * 1025), "more than 1024"),
    "a schema that is none": (offered(parameters={"type": "nonsense"}), "nonsense"),
    "no object at the top": (offered(parameters={"type": "string"}), "at the top"),
    "a choice at the top": (offered(parameters={**PLAIN, "oneOf": [{}]}), "at the top"),
    "an array of anything": (
        offered(parameters={**PLAIN, "properties": {"a": {"type": "array"}}}),
        "without `items`",
    ),
    "strict and optional": (strict(required=[]), "every property is required"),
    "strict and open": (strict(additionalProperties=True), "additionalProperties"),
    "strict with a default": (field(type="string", default="x"), "default"),
    "strict with a length": (field(type="string", maxLength=5), "maxLength"),
    "strict with all of": (field(allOf=[{"type": "string"}]), "allOf"),
    "strict without a type": (field(description="anything"), "needs a `type`"),
    "strict with words at a reference": (
        strict(
            properties={"code": {"$ref": "#/$defs/c", "description": "x"}},
            **{"$defs": {"c": {"type": "string"}}},
        ),
        "stands alone",
    ),
    "strict with an unknown format": (field(type="string", format="uri"), "'uri'"),
    "strict and deep": (strict(**nested(12)), "nested deeper"),
    "strict without parameters": (
        chat(tools=[{"type": "function", "function": {"name": "f", "strict": True}}]),
        "needs parameters",
    ),
}
SAID = {"resp_1": [call("old", id="fc_0")]}


@pytest.mark.parametrize(("request_", "words"), REFUSED.values(), ids=REFUSED)
def test_a_request_that_the_api_refuses_is_found(
    request_: ScriptedRequest, words: str
) -> None:
    """What is said of it names the place or the rule."""
    problems = problems_of(request_, SAID)
    assert any(words in text for text in problems), problems


TAKEN = {
    "a chat": chat(
        asks("b", "a"), tells("a"), tells("b"), {**USER, "content": picture(PNG)}
    ),
    "text beside calls": chat(asks("a", content="look"), tells("a")),
    "streamed": chat(stream=True, stream_options={"include_usage": True}),
    "parts of text": chat(asks("a"), tells("a", [{"type": "text", "text": "x"}])),
    "an image in an output": responses(call("a"), output("a", seen(PNG))),
    "an image elsewhere": responses(
        {**USER, "content": seen("https://example.com/a.png")}
    ),
    "an answer to an earlier response": responses(
        output("old"), previous_response_id="resp_1"
    ),
    "free text": responses(FREE, output("c", kind="custom_tool")),
    "reasoning with its call": responses(THOUGHT, call("a"), output("a")),
    "input as text": ScriptedRequest("/v1/responses", {"model": "m", "input": "x"}),
    "strict": strict(),
    "strict and nested": strict(**nested(9)),
    "strict with a reference": strict(
        properties={"code": {"$ref": "#/$defs/c"}}, **{"$defs": {"c": STRICT}}
    ),
    "a shell call": responses(
        SHELL,
        output(
            "c",
            [{"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
            "shell",
        ),
    ),
}


@pytest.mark.parametrize("request_", TAKEN.values(), ids=TAKEN)
def test_a_request_that_the_api_takes_passes(request_: ScriptedRequest) -> None:
    """Nothing is said of it."""
    assert problems_of(request_, SAID) == []


@pytest.mark.parametrize("way", ["history", "previous_response_id"])
def test_what_a_server_recorded_is_checked(sandbox: Sandbox, way: str) -> None:
    """A plain loop over the real client sends what the API takes, images too."""
    tools = as_tools(sandbox, "coding")
    script: list[Step] = [
        [ScriptedCall("run_code", {"code": CHARTS}), ScriptedCall("list_files", "{")],
        "done",
    ]
    history: list[Any] = [USER]
    more: dict[str, Any] = {"model": "m", "tools": tools.responses}
    with (
        ScriptedServer(script) as server,
        OpenAI(base_url=server.url, api_key="none") as api,
    ):
        turn: Any = api.responses.create(input=history, **more)
        if way == "history":
            history += turn.output
        else:
            history, more["previous_response_id"] = [], turn.id
        api.responses.create(input=[*history, *tools.answer(turn).items], **more)
    assert_requests(server)


def test_a_recorded_request_is_named_by_its_number() -> None:
    """The first of many that is wrong can be found."""
    with (
        ScriptedServer(["one", "two"]) as server,
        OpenAI(base_url=server.url, api_key="none") as api,
    ):
        api.responses.create(model="m", input="go")
        api.responses.create(model="m", input=[output("nobody")])  # type: ignore[list-item]
    with pytest.raises(AssertionError, match=r"request 2: .*'nobody'"):
        assert_requests(server)
