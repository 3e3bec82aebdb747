"""The caller's own tools in a loop, and the shell tool of Responses."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from typing import Annotated, Any

import pytest
from openai import pydantic_function_tool
from openai.types.responses import ResponseFunctionShellToolCall
from pydantic import BaseModel, Field

from kern_tools import ConfigError, Sandbox
from kern_tools.adapters.openai import (
    LoopReason,
    OpenAITools,
    OtherTool,
    StopLoop,
    as_tools,
)
from kern_tools.reply import ImagePart, Reply, TextPart
from kern_tools.scripted import ScriptedCall
from tests.depth import crossed

from .cells import CHARTS
from .loops import APIS, WAYS, Way, answers_in, code, loop, serving
from .test_openai_loop_input import response_body

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

PNG = b"\x89PNG\r\n\x1a\n rest"


@pytest.fixture
def tools(sandbox: Sandbox) -> OpenAITools:
    """`run_code` alone."""
    return as_tools(sandbox, "code")


def get_weather(
    city: str, days: Annotated[int, Field(description="How many days.")] = 1
) -> dict[str, Any]:
    """Get the weather of a city."""
    return {"city": city, "days": days}


# the caller's own


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("api", APIS)
def test_a_function_is_a_tool(tools: OpenAITools, way: Way, api: str) -> None:
    """Its annotations are the schema, its docstring the description."""
    call = ScriptedCall("get_weather", {"city": "Rome"}, "a")
    with serving([call, code("print(42)", "b")], "ok") as server:
        result = loop(way, server, tools, api=api, others=[get_weather])
    answers = answers_in(result.history)
    assert json.loads(answers["a"]) == {"city": "Rome", "days": 1}
    assert "42" in answers["b"]
    tool = server.requests[0].body["tools"][1]
    tool = tool.get("function", tool)
    assert (tool["name"], tool["description"]) == (
        "get_weather",
        "Get the weather of a city.",
    )
    assert tool["parameters"]["required"] == ["city"]
    days = tool["parameters"]["properties"]["days"]
    assert days["description"] == "How many days."


def _where(city: str, country: str) -> str:
    return f"{city} in {country}"


class Place(BaseModel):
    """A place."""

    city: str
    country: str


@pytest.mark.parametrize("api", APIS)
def test_a_definition_of_either_way_will_do(tools: OpenAITools, api: str) -> None:
    """What `openai.pydantic_function_tool` makes goes with Responses too."""
    nested = pydantic_function_tool(Place, name="look_up")
    flat = {"type": "function", "name": "ping", "parameters": None, "strict": False}
    others = [
        OtherTool(dict(nested), _where),
        OtherTool(flat, lambda: "pong"),
    ]
    calls = [
        ScriptedCall("look_up", {"city": "Rome", "country": "Italy"}, "a"),
        ScriptedCall("ping", "", "b"),
    ]
    with serving(calls, "ok") as server:
        result = loop("sync", server, tools, api=api, others=others)
    assert answers_in(result.history) == {"a": "Rome in Italy", "b": "pong"}


@pytest.mark.parametrize("api", APIS)
def test_a_custom_tool_of_the_callers_gets_the_text(
    tools: OpenAITools, api: str
) -> None:
    """Its grammar is written as the way of the API has it."""
    form = {"type": "grammar", "syntax": "regex", "definition": "[a-z]+"}
    shout = {"type": "custom", "name": "shout", "description": "Shout.", "format": form}
    call = ScriptedCall("shout", "hello", "a", free_text=True)
    with serving(call, "ok") as server:
        others = [OtherTool(shout, str.upper)]
        result = loop("sync", server, tools, api=api, others=others)
    assert answers_in(result.history) == {"a": "HELLO"}


@pytest.mark.parametrize("way", WAYS)
def test_what_a_tool_raises_is_answered(tools: OpenAITools, way: Way) -> None:
    """The model reads the error, and the loop goes on."""

    def fails() -> None:
        raise LookupError("no such \x1b[31mthing")

    with serving(ScriptedCall("fails", {}, "a"), "ok") as server:
        result = loop(way, server, tools, others=[fails])
    assert answers_in(result.history)["a"] == "error: LookupError: no such thing"
    assert (result.reason, result.replies[0].error) == ("done", "tool_error")


@pytest.mark.parametrize("way", WAYS)
def test_a_tool_may_end_the_loop_with_its_error(tools: OpenAITools, way: Way) -> None:
    """Where the caller asks for it; all calls of the turn are answered."""

    def fails() -> None:
        raise LookupError("mine")

    described = {"type": "function", "name": "fails", "parameters": {"type": "object"}}
    other = OtherTool(described, fails, reraise=True)
    history: list[Any] = [{"role": "user", "content": "go"}]
    turn = [ScriptedCall("fails", {}, "a"), code("print(42)", "b")]
    with serving(turn, "ok") as server:
        with pytest.raises(LookupError, match="mine"):
            loop(way, server, tools, history, others=[other])
        assert answers_in(history)["a"].startswith("stopped: this turn ended with")
        assert list(answers_in(history)) == ["a", "b"]
        assert loop(way, server, tools, history, others=[other]).text == "ok"


@pytest.mark.parametrize("way", WAYS)
def test_a_tool_can_stop_the_loop(tools: OpenAITools, way: Way) -> None:
    """As one that hands the conversation to a person does."""

    def ask_a_person(question: str) -> str:
        raise StopLoop(question)

    with serving(ScriptedCall("ask_a_person", {"question": "why?"}, "a")) as server:
        result = loop(way, server, tools, others=[ask_a_person])
    assert (result.reason, result.message) == (LoopReason.STOPPED, "why?")
    assert list(answers_in(result.history)) == ["a"]


BAD = {
    "no JSON": ("{", "not JSON"),
    "no object": ("[1]", "one JSON object"),
    "wrong type": ('{"city": 5}', "`city`"),
    "missing": ("{}", "`city`"),
    "unknown": ('{"city": "Rome", "planet": "Mars"}', "`planet`"),
}


@pytest.mark.parametrize("way", WAYS)
def test_bad_arguments_of_a_function_are_answered(tools: OpenAITools, way: Way) -> None:
    """They are checked by its annotations before it is called."""
    calls = [
        ScriptedCall("get_weather", written, name) for name, (written, _) in BAD.items()
    ]
    with serving(calls, "ok") as server:
        result = loop(way, server, tools, others=[get_weather])
    assert {reply.error for reply in result.replies} == {"bad_arguments"}
    answers = answers_in(result.history)
    assert all(said in answers[name] for name, (_, said) in BAD.items())


def test_arguments_that_do_not_fit_a_function_are_answered(tools: OpenAITools) -> None:
    """A schema of the caller's own may promise what the function does not take."""
    described = {"type": "function", "name": "ping", "parameters": {"type": "object"}}
    other = OtherTool(described, lambda: "pong")
    with serving(ScriptedCall("ping", {"x": 1}, "a"), "ok") as server:
        result = loop("sync", server, tools, others=[other])
    assert result.replies[0].error == "bad_arguments"


ANSWERS: dict[str, tuple[Any, str]] = {
    "text": ("plain", "plain"),
    "nothing": (None, "ok"),
    "number": (42, "42"),
    "object": ({"a": [1, None]}, '{"a":[1,null]}'),
    "model": (Place(city="Rome", country="Italy"), '{"city":"Rome","country":"Italy"}'),
    "empty_list": ([], "[]"),
    "empty_text": ("", ""),
    "empty_reply": (Reply(name="x", parts=()), ""),
    "reply": (Reply(name="x", parts=(TextPart("said"),)), "said"),
    "no_JSON": (object, "<class 'object'>"),
    "half_a_pair": ("half \ud83d", "half ?"),
}


@pytest.mark.parametrize("api", APIS)
def test_a_tool_may_return_anything(tools: OpenAITools, api: str) -> None:
    """What is no text becomes JSON."""

    def given(name: str) -> Any:
        return ANSWERS[name][0]

    calls = [ScriptedCall("given", {"name": name}, name) for name in ANSWERS]
    with serving(calls, "ok") as server:
        result = loop("sync", server, tools, api=api, others=[given])
    texts = {name: text for name, (_, text) in ANSWERS.items()}
    assert answers_in(result.history) == texts


class Unreadable(Exception):
    """An error that cannot say what it is, and an answer that cannot be text."""

    def __str__(self) -> str:
        raise ValueError("no words")


def _deep(levels: int) -> Any:
    inner: Any = []
    for _ in range(levels):
        inner = [inner]
    return inner


RAISING: dict[str, Any] = {
    "stops": lambda: next(iter(())),
    "wordless": lambda: (_ for _ in ()).throw(Unreadable()),
    "no_text": Unreadable,
    "deep": lambda: _deep(100_000),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", RAISING)
def test_an_odd_error_is_answered_as_any(
    tools: OpenAITools, way: Way, name: str
) -> None:
    """Neither way waits for ever, or ends with what the tool did."""
    described = {"type": "function", "name": name, "parameters": {"type": "object"}}
    with serving(ScriptedCall(name, {}, "a"), "ok") as server:
        others = [OtherTool(described, RAISING[name])]
        result = loop(way, server, tools, others=others)
    assert (result.text, result.replies[0].error) == ("ok", "tool_error")
    assert answers_in(result.history)["a"].startswith("error: ")


@pytest.mark.parametrize("api", APIS)
def test_a_tool_may_return_images(tools: OpenAITools, api: str) -> None:
    """They reach the model as those of the sandbox do."""

    def chart() -> list[Any]:
        return ["a chart", ImagePart("image/png", PNG)]

    with serving(ScriptedCall("chart", {}, "a"), "ok") as server:
        result = loop("sync", server, tools, api=api, others=[chart])
    assert "data:image/png;base64" in json.dumps(result.history)
    assert "a chart" in json.dumps(answers_in(result.history)["a"])


def test_a_tool_runs_on_the_thread_of_the_loop(tools: OpenAITools) -> None:
    """What belongs to a thread, as a connection of sqlite does, can be used."""
    with sqlite3.connect(":memory:") as connection:

        def query(sql: str) -> list[Any]:
            return connection.execute(sql).fetchall()

        calls = [ScriptedCall("query", {"sql": "select 42"}, "a"), code("1", "b")]
        with serving(calls, "ok") as server:
            result = loop("sync", server, tools, others=[query])
    connection.close()
    assert answers_in(result.history)["a"] == "[[42]]"


def test_a_tool_runs_beside_the_calls_of_the_sandbox(tools: OpenAITools) -> None:
    """The loop calls it while a box runs: neither would end alone."""

    def release() -> str:
        tools.tools[0].source.lease(None, None).__enter__().write_file("b", "")
        return "released"

    waits = "import os, time\nwhile not os.path.exists('b'): time.sleep(.005)"
    calls = [code(waits, "a"), ScriptedCall("release", {}, "b")]
    for way in WAYS:
        with serving(calls, "ok") as server:
            result = loop(way, server, tools, others=[release])
        assert [reply.is_error for reply in result.replies] == [False, False]


def test_async_tools_run_side_by_side(tools: OpenAITools) -> None:
    """Each waits for the other, and a plain one beside them has a thread of its own."""
    first, second = asyncio.Event(), asyncio.Event()
    threads: list[str] = []

    async def one() -> str:
        first.set()
        await second.wait()
        return "1"

    async def two() -> str:
        await first.wait()
        second.set()
        return "2"

    def three() -> str:
        threads.append(threading.current_thread().name)
        return "3"

    calls = [ScriptedCall(name, {}, name) for name in ("one", "two", "three")]
    with serving(calls, "ok") as server:
        result = loop("async", server, tools, others=[one, two, three])
    assert answers_in(result.history) == {"one": "1", "two": "2", "three": "3"}
    assert threads != [threading.current_thread().name]
    with serving() as server, pytest.raises(ConfigError, match="arun_loop"):
        loop("sync", server, tools, others=[one])


def test_a_function_that_gives_an_awaitable_is_awaited_or_refused(
    tools: OpenAITools,
) -> None:
    """It does not look async, and its answer must not be its coroutine."""

    async def inner() -> str:
        return "inner"

    def outer() -> Any:
        return inner()

    with serving(ScriptedCall("outer", {}, "a"), "ok") as server:
        result = loop("async", server, tools, others=[outer])
    assert answers_in(result.history) == {"a": "inner"}
    call = ScriptedCall("outer", {}, "a")
    with serving(call) as server, pytest.raises(ConfigError, match="arun_loop"):
        loop("sync", server, tools, others=[outer])


HAND = {"type": "function", "name": "approve", "parameters": None, "strict": False}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("api", APIS)
def test_calls_that_nobody_here_answers_are_handed_back(
    tools: OpenAITools, way: Way, api: str
) -> None:
    """The loop ends with them; answered by the caller, it goes on."""
    turn = [ScriptedCall("approve", {}, "a"), code("print(42)", "b")]
    with serving(turn, "ok") as server:
        options: dict[str, Any] = {"api": api, "others": [HAND]}
        first = loop(way, server, tools, **options)
        assert (first.reason, len(first.unanswered)) == (LoopReason.UNANSWERED, 1)
        assert list(answers_in(first.history)) == ["b"]
        if api == "chat":
            answer = {"role": "tool", "tool_call_id": "a", "content": "yes"}
        else:
            answer = {"type": "function_call_output", "call_id": "a", "output": "yes"}
        history = [*first.history, answer]
        assert loop(way, server, tools, history, **options).text == "ok"


def test_images_do_not_come_between_the_answers_of_a_chat(tools: OpenAITools) -> None:
    """What the caller appends has to follow the tool messages."""
    turn = [ScriptedCall("approve", {}, "a"), code(CHARTS, "b")]
    with serving(turn, "ok") as server:
        options: dict[str, Any] = {"api": "chat", "others": [HAND]}
        first = loop("sync", server, tools, **options)
        answer = {"role": "tool", "tool_call_id": "a", "content": "yes"}
        history = [*first.history, answer]
        assert loop("sync", server, tools, history, **options).text == "ok"
    assert "image 1" in answers_in(first.history)["b"]


def test_an_item_that_only_the_caller_can_answer_is_handed_back(
    tools: OpenAITools,
) -> None:
    """As the approval of a call to an MCP server."""
    item = {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "name": "delete",
        "arguments": "{}",
        "server_label": "files",
    }
    mcp = {"type": "mcp", "server_label": "files", "server_url": "https://example.com"}
    with serving(response_body(item)) as server:
        result = loop("sync", server, tools, others=[mcp])
    assert result.reason == LoopReason.UNANSWERED
    assert result.unanswered[0].id == "mcpr_1"


@pytest.mark.parametrize("who", ["client", "server"])
def test_a_search_for_tools_is_the_callers_where_the_client_makes_it(
    tools: OpenAITools, who: str
) -> None:
    """What the server has searched for itself needs no answer."""
    item: dict[str, Any] = {
        "type": "tool_search_call",
        "id": "tsc_1",
        "call_id": "a" if who == "client" else None,
        "execution": who,
        "arguments": {"goal": "a tool for files"},
        "status": "completed",
    }
    part: dict[str, Any] = {"type": "output_text", "text": "ok", "annotations": []}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}
    with serving(response_body(item, {**said, "status": "completed"})) as server:
        result = loop("sync", server, tools)
    assert [each.id for each in result.unanswered] == ["tsc_1"][: who == "client"]
    expected = LoopReason.UNANSWERED if who == "client" else LoopReason.DONE
    assert result.reason == expected


def test_a_tool_of_the_server_is_offered_and_its_items_are_kept(
    tools: OpenAITools,
) -> None:
    """Nothing of it is answered here."""
    item = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "kern", "queries": ["kern"]},
    }
    call = {
        "type": "function_call",
        "call_id": "a",
        "name": "run_code",
        "arguments": "{}",
    }
    with serving(response_body(item, call), "ok") as server:
        result = loop("sync", server, tools, others=[{"type": "web_search"}])
    assert server.requests[0].body["tools"][-1] == {"type": "web_search"}
    assert result.history[1] == item


def test_a_name_that_is_taken_is_refused(tools: OpenAITools) -> None:
    """The model could not tell them apart."""

    def run_code(code: str) -> str:
        return code

    with serving() as server, pytest.raises(ConfigError, match="run_code"):
        loop("sync", server, tools, others=[run_code])


def test_a_name_of_the_callers_comes_before_other_names_of_ours(
    tools: OpenAITools,
) -> None:
    """`python` is the caller's tool where he has one of that name."""

    def python(code: str) -> str:
        return f"mine: {code}"

    with serving(ScriptedCall("python", {"code": "1"}, "a"), "ok") as server:
        result = loop("sync", server, tools, others=[python])
    assert answers_in(result.history) == {"a": "mine: 1"}


def _takes_all(*values: int) -> None: ...


def _takes_what_is_not_there(value: int) -> None: ...


_takes_what_is_not_there.__annotations__["value"] = "NoSuchName"


ODD: dict[str, Any] = {
    "number": 5,
    "takes all": _takes_all,
    "no name": lambda: None,
    "no annotations": len,
    "annotations of nothing": _takes_what_is_not_there,
    "no signature": dict,
}


@pytest.mark.parametrize("other", ODD.values(), ids=ODD)
def test_what_cannot_be_described_is_refused(tools: OpenAITools, other: Any) -> None:
    """The error says what to give in its place."""
    with serving() as server, pytest.raises(ConfigError, match="OtherTool") as caught:
        loop("sync", server, tools, others=[other])
    assert caught.value.option == "others"


# the shell tool


def shell_call(*commands: str, **more: Any) -> dict[str, Any]:
    """A turn that calls the shell tool."""
    return response_body(
        {
            "type": "shell_call",
            "id": "sh_1",
            "call_id": "a",
            "status": "completed",
            "action": {"commands": list(commands), **more},
        }
    )


def shown(*commands: str, sandbox: Sandbox, **more: Any) -> dict[str, Any]:
    """Run one shell call in a loop and give its output item."""
    with serving(shell_call(*commands, **more), "ok") as server:
        result = loop("sync", server, as_tools(sandbox, ()), shell=True)
    assert server.requests[0].body["tools"] == [
        {"type": "shell", "environment": {"type": "local"}}
    ]
    item: dict[str, Any] = result.history[2]
    assert item["type"] == "shell_call_output"
    return item


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_shell_calls_are_answered(sandbox: Sandbox, way: Way, stream: bool) -> None:
    """Each command has its own streams and its own outcome, in order."""
    commands = ("echo one; echo two >&2", "exit 3", "cat kept || echo first > kept")
    turn = shell_call(*commands)
    with serving(turn, turn, "ok") as server:
        options: dict[str, Any] = {"shell": True, "stream": stream}
        result = loop(way, server, as_tools(sandbox), **options)
    output = answers_in(result.history)["a"]
    assert output[:2] == [
        {
            "stdout": "one\n",
            "stderr": "two\n",
            "outcome": {"type": "exit", "exit_code": 0},
        },
        {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 3}},
    ]
    assert answers_in(result.history)["a_2"][2]["stdout"] == "first\n"
    (first, _) = result.replies
    assert first.result is not None
    assert (first.name, first.result.exit_code, first.call_id) == ("shell", 3, "a")
    call = ResponseFunctionShellToolCall.model_validate(
        {**result.history[1], "environment": None}
    )
    assert call.action.commands == list(commands)


def test_a_timeout_is_an_outcome_of_its_own(sandbox: Sandbox) -> None:
    """The limit is for all commands together; later ones are told that it is over."""
    commands = ("echo before; sleep 50", "echo after")
    item = shown(*commands, sandbox=sandbox, timeout_ms=1500)
    first, second = item["output"]
    assert first["outcome"] == second["outcome"] == {"type": "timeout"}
    assert first["stdout"] == "before\n"
    assert first["stderr"].startswith("fault: timeout")
    assert second["stderr"].startswith("not run: the time")


@pytest.mark.parametrize("most", [0, 1, 100, 1000])
def test_the_length_of_the_output_is_bounded(sandbox: Sandbox, most: int) -> None:
    """Of all commands together, and the length goes back as it came."""
    commands = ("seq 1000", "seq 1000 >&2", "echo short")
    item = shown(*commands, sandbox=sandbox, max_output_length=most)
    assert item["max_output_length"] == most
    streams = [o["stdout"] + o["stderr"] for o in item["output"]]
    assert sum(map(len, streams)) <= most
    assert len(item["output"]) == 3
    if most == 1000:
        assert streams[2] == "short\n"
        assert all("cut here" in stream for stream in streams[:2])


def test_without_a_length_the_budget_bounds_the_output(sandbox: Sandbox) -> None:
    """As it does for every reply."""
    item = shown("seq 100000", sandbox=sandbox)
    assert "max_output_length" not in item
    assert len(item["output"][0]["stdout"]) <= sandbox.config.budget.text_chars


def test_what_the_shell_prints_is_made_safe(sandbox: Sandbox) -> None:
    """Terminal commands do not reach the model."""
    item = shown(r"printf '\033[31mred\033[0m\n'", sandbox=sandbox)
    assert item["output"][0]["stdout"] == "red\n"


BAD_ACTIONS: dict[str, dict[str, Any]] = {
    "no commands": {"commands": []},
    "not a list": {"commands": "ls"},
    "not text": {"commands": [1]},
    "bad limit": {"commands": ["ls"], "timeout_ms": -1},
    "nothing": {},
}


@pytest.mark.parametrize("action", BAD_ACTIONS.values(), ids=BAD_ACTIONS)
def test_a_bad_action_is_answered(tools: OpenAITools, action: dict[str, Any]) -> None:
    """Nothing ran, which the outcome shows; `answer` does the same outside a loop."""
    call = {"type": "shell_call", "call_id": "a", "action": action}
    answers = tools.answer([call])
    assert [reply.error for reply in answers] == ["bad_arguments"]
    (content,) = answers.items[0]["output"]
    assert content["outcome"] == {"type": "exit", "exit_code": 126}
    assert content["stderr"].startswith("bad arguments")


def test_a_command_that_no_shell_takes_stands_in_nobodys_way(sandbox: Sandbox) -> None:
    """The others are run."""
    output = shown("echo \0", "echo two", sandbox=sandbox)["output"]
    assert [each["outcome"]["exit_code"] for each in output] == [126, 0]
    assert "NUL" in output[0]["stderr"]


def test_a_shell_call_that_the_server_ran_is_not_answered(tools: OpenAITools) -> None:
    """In a container of the server's own, its output comes with it."""
    call = {"type": "shell_call", "call_id": "a", "action": {"commands": ["ls"]}}
    hosted = {**call, "environment": {"type": "container_reference"}}
    ran: dict[str, Any] = {"type": "shell_call_output", "call_id": "a", "output": []}
    assert not tools.answer([hosted])
    assert not tools.answer([call, ran])
    assert len(tools.answer([call])) == 1


def test_a_program_of_the_models_is_answered_by_its_caller(tools: OpenAITools) -> None:
    """The API tells which program a call is from, and wants it back."""
    caller = {"type": "program", "caller_id": "prog_1"}
    call = {
        "type": "function_call",
        "call_id": "a",
        "name": "run_code",
        "arguments": '{"code": "1"}',
        "caller": caller,
    }
    direct = {**call, "call_id": "b", "caller": {"type": "direct"}}
    first, second = tools.answer([call, direct]).items
    assert (first["caller"], "caller" in second) == (caller, False)


def _do_less(_: Any) -> str:
    return "do less"


def test_what_is_added_to_a_shell_reply_reaches_the_model(sandbox: Sandbox) -> None:
    """That it is the same call again, and the note of `on_fault`."""
    turn = shell_call("echo before; sleep 50", timeout_ms=1500)
    with serving(turn, turn, "ok") as server:
        tools = as_tools(sandbox)
        result = loop("sync", server, tools, shell=True, on_fault=_do_less)
    first, second = answers_in(result.history).values()
    assert first[0]["stderr"].startswith("note: do less.\nfault: timeout")
    again, note, verdict = second[0]["stderr"].split("\n")[:3]
    assert again.startswith("fault: timeout again")
    assert (note, verdict[:15]) == ("note: do less.", "fault: timeout.")
    assert [reply.repeats for reply in result.replies] == [0, 1]
