"""Loops of the OpenAI adapter that go well: the real client, real boxes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kern_tools import OutputEvent, Sandbox, SandboxPool
from kern_tools.adapters.openai import LoopReason, OpenAITools, as_tools
from kern_tools.loop_events import (
    CallFinished,
    CallStarted,
    LoopEvent,
    LoopFinished,
    TextPiece,
    TurnStarted,
)
from kern_tools.scripted import ScriptedCall, ScriptedRequest, Step
from tests.depth import crossed

from .cells import CHARTS, LOOP
from .loops import APIS, WAYS, Way, answers_in, code, loop, names, serving

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

MODES = [(api, stream) for api in APIS for stream in (False, True)]
LONG = "The code printed forty-two, which is what six times seven comes to."


@pytest.fixture
def tools(sandbox: Sandbox) -> OpenAITools:
    """The default tools."""
    return as_tools(sandbox)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("api", "stream"), MODES)
def test_a_loop_ends_with_the_answer(
    tools: OpenAITools, way: Way, api: str, stream: bool
) -> None:
    """Whatever the way of the API, the same script comes to the same result."""
    script: list[Step] = [[code("print(6 * 7)"), ScriptedCall("list_files", {})], LONG]
    events: list[LoopEvent] = []
    with serving(*script) as server:
        options: dict[str, Any] = {"api": api, "stream": stream}
        result = loop(way, server, tools, on_event=events.append, **options)
    assert (result.reason, result.text, result.turns) == (LoopReason.DONE, LONG, 2)
    assert [reply.name for reply in result.replies] == ["run_code", "list_files"]
    assert "42" in answers_in(result.history)["call_1"]
    assert result.history[0] == {"role": "user", "content": "go"}
    assert json.loads(json.dumps(result.history)) == result.history
    pieces = [event.text for event in events if isinstance(event, TextPiece)]
    assert "".join(pieces) == LONG
    assert (len(pieces) > 1) is stream
    body = server.requests[1].body
    assert body["input" if api == "responses" else "messages"] == result.history[:-1]


@pytest.mark.parametrize("way", WAYS)
def test_events_tell_what_happens_in_order(tools: OpenAITools, way: Way) -> None:
    """Each call is begun and ended, what it writes comes between, the end is last."""
    script: list[Step] = [
        [code("print('one', flush=True)", "a"), ScriptedCall("no", {}, "b")],
        "ok",
    ]
    events: list[LoopEvent] = []
    with serving(*script) as server:
        result = loop(way, server, tools, on_event=events.append)
    assert names(events[:3]) == ["TurnStarted", "CallStarted", "CallStarted"]
    assert names(events[-3:]) == ["TurnStarted", "TextPiece", "LoopFinished"]
    assert events[0] == TurnStarted(turn=1)
    written = '{"code": "print(\'one\', flush=True)"}'
    begun = CallStarted(turn=1, call_id="a", tool="run_code", arguments=written)
    assert events[1] == begun
    ended = {e.call_id: e for e in events if isinstance(e, CallFinished)}
    assert [ended["a"].reply, ended["b"].reply] == list(result.replies)
    assert ended["a"].duration_ms > 0
    said = [e for e in events if isinstance(e, OutputEvent)]
    assert [(e.call_id, e.text) for e in said] == [("a", "one\n")]
    assert events.index(said[0]) < events.index(ended["a"])
    assert events[-1] == LoopFinished(
        turns=2,
        reason="done",
        text="ok",
        input_tokens=result.input_tokens,
        output_tokens=result.output_tokens,
    )


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_keeps_the_conversation_is_sent_what_is_new(
    tools: OpenAITools, way: Way, stream: bool
) -> None:
    """The first input, then answers alone; the history has all of it nevertheless."""
    script: list[Step] = [code("print(6 * 7)", "a"), code("print(7)", "b"), "done"]
    with serving(*script) as server:
        result = loop(way, server, tools, chain=True, stream=stream)
    sent = [request.body for request in server.requests]
    previous = [body.get("previous_response_id") for body in sent]
    kinds = [[item.get("type") for item in body["input"]] for body in sent]
    answer = "function_call_output"
    assert kinds == [[None], [answer], [answer]]
    assert previous == [None, server.answers[0]["id"], server.answers[1]["id"]]  # type: ignore[index]
    assert list(answers_in(result.history)) == ["a", "b"]
    assert (result.response_id, result.unsent) == (result.last.id, ())


def test_a_kept_conversation_goes_on_from_its_last_response(tools: OpenAITools) -> None:
    """After a limit, what the server does not know yet is sent behind the id."""
    with serving(code("print(6 * 7)", "a"), "done", "more") as server:
        first = loop("sync", server, tools, chain=True, max_turns=1)
        assert [item["call_id"] for item in first.unsent] == ["a"]
        second = loop(
            "sync",
            server,
            tools,
            list(first.unsent),
            previous_response_id=first.response_id,
        )
        third = loop(
            "sync", server, tools, "and?", previous_response_id=second.response_id
        )
    assert (first.reason, second.text, third.text) == ("max_turns", "done", "more")
    assert server.requests[1].body["input"] == list(first.unsent)


@pytest.mark.parametrize(("api", "stream"), MODES)
def test_code_comes_as_free_text(tools: OpenAITools, api: str, stream: bool) -> None:
    """A custom tool takes the code as it is; the other tools stay functions."""
    source = 'print("a\\n{}")\nprint(6 * 7)'
    script: list[Step] = [ScriptedCall("run_code", source, "a", free_text=True), "done"]
    with serving(*script) as server:
        options: dict[str, Any] = {"api": api, "stream": stream}
        result = loop("sync", server, tools, free_text=True, **options)
    (reply,) = result.replies
    assert reply.result is not None
    assert reply.result.stdout == "a\n{}\n42\n"
    kinds = [tool["type"] for tool in server.requests[0].body["tools"]]
    assert kinds == ["custom", "function", "function", "function"]


@pytest.mark.parametrize("way", WAYS)
def test_parallel_calls_run_side_by_side_and_keep_their_order(
    tools: OpenAITools, way: Way
) -> None:
    """Each waits for the other to have begun, so that only side by side they end."""
    first = "import time\nwhile not __import__('os').path.exists('b'): time.sleep(.005)"
    second = "open('b', 'w').close()"
    with serving([code(first, "a"), code(second, "b")], "done") as server:
        result = loop(way, server, tools)
    assert [reply.fault_type for reply in result.replies] == [None, None]
    assert list(answers_in(result.history)) == ["a", "b"]


@pytest.mark.parametrize("way", WAYS)
def test_in_kernel_mode_parallel_calls_take_turns(way: Way) -> None:
    """The second finds the name that the first one made."""
    calls = [code("x = 41", "a"), code("print(x + 1)", "b")]
    with Sandbox(mode="kernel") as sandbox, serving(calls, "done") as server:
        result = loop(way, server, as_tools(sandbox))
    assert "42" in answers_in(result.history)["b"]


@pytest.mark.parametrize("api", APIS)
def test_images_reach_the_model(tools: OpenAITools, api: str) -> None:
    """In Responses inside the output; in Chat behind all tool messages."""
    with serving([code(CHARTS, "a"), code(CHARTS, "b")], "done") as server:
        result = loop("sync", server, tools, api=api)
    kinds = [item.get("type", item.get("role")) for item in result.history]
    if api == "chat":
        assert kinds[1:5] == ["assistant", "tool", "tool", "user"]
    else:
        shown = answers_in(result.history)["b"]
        assert [part["type"] for part in shown][1:] == ["input_image", "input_image"]


@pytest.mark.parametrize("api", APIS)
def test_instructions_are_sent_and_not_kept(tools: OpenAITools, api: str) -> None:
    """They come with every request, and with none of the history."""
    with serving(code("1"), "done") as server:
        result = loop("sync", server, tools, api=api, instructions="Be brief.")
    for request in server.requests:
        system = request.body.get("instructions")
        system = system or request.body["messages"][0]["content"]
        assert system == "Be brief."
    assert "Be brief." not in json.dumps(result.history)


def test_a_list_is_extended_in_place_and_goes_on(tools: OpenAITools) -> None:
    """Another question is appended, and the same list is given again."""
    history: list[Any] = [{"role": "user", "content": "go"}]
    with serving(code("print(6 * 7)"), "42", "You asked for 42.") as server:
        first = loop("sync", server, tools, history)
        history.append({"role": "user", "content": "What did I ask for?"})
        second = loop("sync", server, tools, history)
    assert first.history is history is second.history
    assert (second.turns, second.text) == (1, "You asked for 42.")


@pytest.mark.parametrize("way", WAYS)
def test_a_fault_is_matched_and_the_model_gets_a_note(
    tools: OpenAITools, way: Way
) -> None:
    """`on_fault` sees the typed reply before the model reads it."""
    seen: list[Any] = []

    def on_fault(reply: Any) -> str | None:
        seen.append(reply.fault_type)
        match reply.fault_type:
            case "timeout":
                return "try a smaller range"
            case _:
                return None

    with serving([ScriptedCall("run_code", LOOP, "a"), code("1/0")], "ok") as server:
        result = loop(way, server, tools, on_fault=on_fault)
    assert seen == ["timeout"]
    assert "note: try a smaller range." in answers_in(result.history)["a"]
    assert result.replies[0].fault_type == "timeout"


async def test_on_fault_may_be_async(tools: OpenAITools) -> None:
    """With `arun_loop` it is awaited, in the loop's own event loop."""
    from kern_tools.adapters.openai import arun_loop

    from .loops import aclient

    async def on_fault(_: Any) -> str:
        return "awaited"

    with serving(ScriptedCall("run_code", LOOP, "a"), "ok") as server:
        async with aclient(server) as api:
            result = await arun_loop(
                api, tools, "go", model="scripted", on_fault=on_fault
            )
    assert "note: awaited." in answers_in(result.history)["a"]


def test_a_forced_call_is_forced_in_the_first_turn_only(tools: OpenAITools) -> None:
    """With `required` in every turn the model could never answer."""
    named = {"type": "function", "name": "run_code"}
    for choice in ("required", named):
        with serving(code("1"), "done") as server:
            loop("sync", server, tools, tool_choice=choice)
        sent = [request.body["tool_choice"] for request in server.requests]
        assert sent == [choice, "auto"]


NAMED = {"type": "function", "name": "run_code"}
LISTED: dict[str, dict[str, Any]] = {
    "responses": {"type": "allowed_tools", "mode": "required", "tools": [NAMED]},
    "chat": {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "required",
            "tools": [{"type": "function", "function": {"name": "run_code"}}],
        },
    },
}


@pytest.mark.parametrize("api", APIS)
def test_a_forced_choice_of_listed_tools_is_a_free_one_after_the_first_turn(
    tools: OpenAITools, api: str
) -> None:
    """The list stays, wherever the way of the API has it, and no call is forced."""
    choice = LISTED[api]
    with serving(code("1"), "done") as server:
        loop("sync", server, tools, api=api, tool_choice=choice)
    first, second = (request.body["tool_choice"] for request in server.requests)
    assert first == choice
    free = {**choice.get("allowed_tools", choice), "mode": "auto"}
    assert second == ({**choice, "allowed_tools": free} if api == "chat" else free)


def test_parameters_of_the_request_go_through(tools: OpenAITools) -> None:
    """What the loop does not know is the API's."""
    with serving(code("1"), "done") as server:
        loop("sync", server, tools, temperature=0.5, parallel_tool_calls=False)
    for request in server.requests:
        assert request.body["temperature"] == 0.5
        assert request.body["parallel_tool_calls"] is False


def test_a_pool_finds_the_conversations_sandbox(pool: SandboxPool) -> None:
    """`conversation=` is passed on with each call."""
    tools = as_tools(pool)
    write = ScriptedCall("write_file", {"path": "n", "content": "x"})
    with serving(write, "ok", ScriptedCall("list_files", {}), "ok") as server:
        loop("sync", server, tools, conversation="t1")
        other = loop("sync", server, tools, conversation="t2")
    assert "n" not in other.replies[0].text.split()
    assert pool.get("t1").read_file("n") == b"x"


def test_what_the_model_does_next_can_depend_on_the_output(tools: OpenAITools) -> None:
    """The output travels back: the server reads it in the request."""

    def next_step(request: ScriptedRequest) -> str:
        return "seen" if "NameError" in json.dumps(request.body) else "not seen"

    with serving(code("print(missing)"), next_step) as server:
        assert loop("sync", server, tools).text == "seen"
