"""What a model may write in a loop: each call is answered, each request is good."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from kern_tools import Sandbox
from kern_tools.adapters.openai import LoopReason, OpenAITools, as_tools
from kern_tools.scripted import ScriptedBreak, ScriptedCall, Step
from tests.depth import crossed

from .loops import APIS, WAYS, Way, answers_in, calls_in, code, loop, serving

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

WRITE = "open('n', 'a').write('x')"
OTHER = "open('m', 'a').write('x')"


@pytest.fixture
def tools(sandbox: Sandbox) -> OpenAITools:
    """The default tools."""
    return as_tools(sandbox)


def chat_body(message: Mapping[str, Any], finish: str = "stop") -> dict[str, Any]:
    """A whole chat completion."""
    return {
        "id": "chatcmpl-x",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, "message": dict(message), "finish_reason": finish}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


def response_body(
    *output: Mapping[str, Any], status: str = "completed", **more: Any
) -> dict[str, Any]:
    """A whole response."""
    return {
        "id": "resp_x",
        "object": "response",
        "created_at": 0,
        "model": "scripted",
        "status": status,
        "output": [dict(item) for item in output],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        **more,
    }


def asked(api: str, *calls: tuple[str | None, str | None, str | None]) -> Any:
    """A turn with calls, each an id, a name and arguments, any of them missing."""
    if api == "chat":
        made = [
            {"id": i, "type": "function", "function": {"name": n, "arguments": a}}
            for i, n, a in calls
        ]
        message = {"role": "assistant", "content": None, "tool_calls": made}
        return chat_body(message, "tool_calls")
    items = [
        {"type": "function_call", "call_id": i, "name": n, "arguments": a}
        for i, n, a in calls
    ]
    return response_body(*items)


def run(source: str) -> str:
    """The arguments of `run_code`."""
    return json.dumps({"code": source})


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", APIS)
def test_an_unknown_tool_is_answered_with_what_there_is(
    tools: OpenAITools, api: str, stream: bool
) -> None:
    """The model reads which tools it has, and goes on."""
    script: list[Step] = [ScriptedCall("get_wether", {}, "a"), "ok"]
    with serving(*script) as server:
        result = loop("sync", server, tools, api=api, stream=stream)
    answer = answers_in(result.history)["a"]
    assert ("get_wether" in answer, "`run_code`" in answer) == (True, True)
    assert (result.reason, result.replies[0].error) == ("done", "bad_arguments")


@pytest.mark.parametrize("api", APIS)
def test_a_made_up_name_is_put_right_in_the_history(
    tools: OpenAITools, api: str
) -> None:
    """The API refuses a request whose history has a name that no tool can have."""
    turn = asked(api, ("a", "functions.run code!", "{}"), ("b", "x" * 99, "{}"))
    nameless = asked(api, ("c", None, None), ("d", "", ""))
    with serving(turn, nameless, "ok") as server:
        result = loop("sync", server, tools, api=api)
    assert result.reason == LoopReason.DONE
    assert list(answers_in(result.history)) == ["a", "b", "c", "d"]
    assert "functions.run code!" in result.replies[0].text


BROKEN = ("", "[]", "null", "NaN", "{", '{"code": 5}', "x", '{"code": "1')


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", APIS)
def test_broken_arguments_are_answered_and_sent_again_as_json(
    tools: OpenAITools, api: str, stream: bool
) -> None:
    """Servers that parse the history would refuse what is no JSON in it."""
    calls = [ScriptedCall("run_code", written) for written in BROKEN]
    with serving(calls, "ok") as server:
        result = loop("sync", server, tools, api=api, stream=stream)
    assert {reply.error for reply in result.replies} == {"bad_arguments"}
    calls_sent = [
        call.get("function", call)
        for item in result.history
        for call in item.get("tool_calls", [item])
    ]
    written = [call["arguments"] for call in calls_sent if "arguments" in call]
    assert len(written) == len(result.replies) == len(BROKEN)
    assert all(isinstance(json.loads(each), dict) for each in written)
    assert result.reason == LoopReason.DONE


def test_readable_arguments_stay_as_they_were_written(tools: OpenAITools) -> None:
    """The model sees its own words again; only what no server parses is changed."""
    odd = '{ "code":  "print(1)" }'
    with serving(ScriptedCall("run_code", odd, "a"), "ok") as server:
        result = loop("sync", server, tools)
    assert result.history[1]["arguments"] == odd


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("api", APIS)
def test_a_call_sent_twice_runs_once(
    tools: OpenAITools, sandbox: Sandbox, api: str, way: Way
) -> None:
    """The same call under the same id is one call, in the history too."""
    call = ("a", "run_code", run(WRITE))
    with serving(asked(api, call, call), "ok") as server:
        result = loop(way, server, tools, api=api)
    assert sandbox.read_file("n") == b"x"
    assert (calls_in(result.history), list(answers_in(result.history))) == (["a"],) * 2
    assert len(result.replies) == 1


@pytest.mark.parametrize("api", APIS)
def test_another_call_under_the_same_id_runs_under_a_new_one(
    tools: OpenAITools, sandbox: Sandbox, api: str
) -> None:
    """In one turn and in later ones: some servers count from the start each time."""
    first, second = ("a", "run_code", run(WRITE)), ("a", "run_code", run(OTHER))
    with serving(asked(api, first, second), asked(api, first), "ok") as server:
        result = loop("sync", server, tools, api=api)
    ids = ["a", "a_2", "a_3"]
    assert (calls_in(result.history), list(answers_in(result.history))) == (ids, ids)
    assert (sandbox.read_file("n"), sandbox.read_file("m")) == (b"xx", b"x")


def test_an_id_of_the_given_history_is_not_used_again(tools: OpenAITools) -> None:
    """Also where an earlier run of the loop made it."""
    with serving(code("1", "a"), "ok", code("2", "a"), "ok") as server:
        first = loop("sync", server, tools)
        second = loop("sync", server, tools, first.history)
    assert calls_in(second.history) == ["a", "a_2"]


def test_in_a_kept_conversation_an_id_is_answered_once(
    tools: OpenAITools, sandbox: Sandbox
) -> None:
    """The server knows the id and no other: the second call is not run, and told."""
    first, second = ("a", "run_code", run(WRITE)), ("a", "run_code", run(OTHER))
    turn = asked("responses", first, second)
    with serving(turn, "ok") as server:
        result = loop("sync", server, tools, chain=True)
    assert list(answers_in(result.history)) == ["a"]
    assert "note: a second call" in answers_in(result.history)["a"]
    assert [file.path for file in sandbox.list_files()] == ["n"]


@pytest.mark.parametrize("call_id", [None, ""])
def test_a_call_without_id_is_given_one(
    tools: OpenAITools, call_id: str | None
) -> None:
    """Some servers leave it out; without one nothing could be answered."""
    call = (call_id, "run_code", run("print(42)"))
    with serving(asked("chat", call), "ok") as server:
        result = loop("sync", server, tools, api="chat")
    assert calls_in(result.history) == ["call_1_1"]
    assert "42" in answers_in(result.history)["call_1_1"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("way", WAYS)
def test_empty_output_has_a_reason_and_leaves_no_trace(
    tools: OpenAITools, way: Way, api: str, stream: bool
) -> None:
    """Nothing was said, so nothing is kept: the history can be sent again."""
    with serving("", "ok") as server:
        options: dict[str, Any] = {"api": api, "stream": stream}
        first = loop(way, server, tools, **options)
        assert (first.reason, first.text) == (LoopReason.EMPTY, "")
        assert loop(way, server, tools, first.history, **options).text == "ok"


def test_reasoning_alone_is_not_kept(tools: OpenAITools) -> None:
    """The API refuses reasoning without what it led to."""
    thought: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": []}
    body = response_body(
        thought, status="incomplete", incomplete_details={"reason": "max_output_tokens"}
    )
    with serving(body, "ok") as server:
        first = loop("sync", server, tools)
        assert loop("sync", server, tools, first.history).text == "ok"
    assert first.reason == LoopReason.INCOMPLETE


def test_reasoning_goes_back_with_its_call(tools: OpenAITools) -> None:
    """It comes before the call, as it was sent, encrypted or not."""
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "x",
    }
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "a",
        "name": "run_code",
        "arguments": run("1"),
        "status": "completed",
    }
    with serving(response_body(thought, call), "ok") as server:
        result = loop("sync", server, tools)
    assert result.history[1:3] == [thought, call]


@pytest.mark.parametrize("api", APIS)
def test_half_a_surrogate_pair_can_be_sent_again(tools: OpenAITools, api: str) -> None:
    """A model's text may hold what has no UTF-8; the client could not send it."""
    said = 'half \ud83d "a"'
    if api == "chat":
        body = chat_body({"role": "assistant", "content": said})
    else:
        part: dict[str, Any] = {"type": "output_text", "text": said, "annotations": []}
        message = {"type": "message", "role": "assistant", "status": "completed"}
        body = response_body({**message, "id": "msg_1", "content": [part]})
    call = asked(api, ("a", "run_\ud83d", '{"code": "\ud83d"}'))
    with serving(call, body, "ok") as server:
        options: dict[str, Any] = {"api": api, "stream": True}
        first = loop("sync", server, tools, **options)
        second = loop("sync", server, tools, first.history, **options)
    assert (first.reason, second.text) == (LoopReason.DONE, "ok")


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_never_stops_is_stopped(
    tools: OpenAITools, way: Way, api: str
) -> None:
    """The last calls are answered too, and the same history goes on from there."""
    script: list[Step] = [code("1", f"c{number}") for number in range(3)]
    with serving(*script, "done") as server:
        first = loop(way, server, tools, api=api, max_turns=3)
        assert (first.reason, first.turns) == (LoopReason.MAX_TURNS, 3)
        assert list(answers_in(first.history)) == ["c0", "c1", "c2"]
        assert "3 times" in first.message
        second = loop(way, server, tools, first.history, api=api)
    assert second.reason == LoopReason.DONE


@pytest.mark.parametrize("how", ["truncate", "malformed"])
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("way", WAYS)
def test_a_stream_that_breaks_off_ends_the_loop(
    tools: OpenAITools, sandbox: Sandbox, way: Way, api: str, how: Any
) -> None:
    """What came of the turn is not kept, so that the model can be asked once more."""
    script: list[Step] = [
        code("1", "a"),
        ScriptedBreak(code(WRITE, "b"), how, 4),
        "done",
    ]
    with serving(*script) as server:
        options: dict[str, Any] = {"api": api, "stream": True}
        first = loop(way, server, tools, **options)
        assert (first.reason, first.turns) == (LoopReason.INCOMPLETE, 2)
        assert calls_in(first.history) == ["a"]
        second = loop(way, server, tools, first.history, **options)
    assert second.text == "done"
    assert sandbox.list_files() == []


def test_the_words_of_a_broken_stream_are_the_text(tools: OpenAITools) -> None:
    """They were told already; the result has them too."""
    said = "one two three four five six seven eight nine ten"
    with serving(ScriptedBreak(said, "truncate", 5)) as server:
        result = loop("sync", server, tools, stream=True)
    assert result.text
    assert said.startswith(result.text)
    assert result.last is None


@pytest.mark.parametrize("api", APIS)
def test_arguments_cut_by_the_limit_on_tokens_are_sent_again(
    tools: OpenAITools, api: str
) -> None:
    """The model is told, and the loop goes on."""
    turn = asked(api, ("a", "run_code", '{"code": "print('))
    if api == "chat":
        turn["choices"][0]["finish_reason"] = "length"
    else:
        turn["status"] = "incomplete"
        turn["incomplete_details"] = {"reason": "max_output_tokens"}
    with serving(turn, code("print(42)", "b"), "done") as server:
        result = loop("sync", server, tools, api=api, stream=True)
    assert [reply.error for reply in result.replies] == ["bad_arguments", None]
    assert result.reason == LoopReason.DONE


@pytest.mark.parametrize("api", APIS)
def test_free_text_cut_by_the_limit_on_tokens_does_not_run(
    tools: OpenAITools, sandbox: Sandbox, api: str
) -> None:
    """It has no closing brace that would show it: half a script might run."""
    if api == "chat":
        custom = {"name": "run_code", "input": WRITE}
        call = {"id": "a", "type": "custom", "custom": custom}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        turn = chat_body(message, "length")
    else:
        item = {"type": "custom_tool_call", "id": "ct_1", "call_id": "a"}
        turn = response_body(
            {**item, "name": "run_code", "input": WRITE},
            status="incomplete",
            incomplete_details={"reason": "max_output_tokens"},
        )
    with serving(turn, "done") as server:
        result = loop("sync", server, tools, api=api, free_text=True)
    assert "cut" in result.replies[0].text
    assert sandbox.list_files() == []


REFUSAL = "I cannot help with that."


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", APIS)
def test_a_refusal_has_a_reason(tools: OpenAITools, api: str, stream: bool) -> None:
    """Its words are the text, and the history goes on."""
    if api == "chat":
        body = chat_body({"role": "assistant", "content": None, "refusal": REFUSAL})
    else:
        part = {"type": "refusal", "refusal": REFUSAL}
        message = {"type": "message", "role": "assistant", "status": "completed"}
        body = response_body({**message, "id": "msg_1", "content": [part]})
    with serving(body, "ok") as server:
        options: dict[str, Any] = {"api": api, "stream": stream}
        first = loop("sync", server, tools, **options)
        assert (first.reason, first.text) == (LoopReason.REFUSED, REFUSAL)
        history = [*first.history, {"role": "user", "content": "something else"}]
        assert loop("sync", server, tools, history, **options).text == "ok"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", APIS)
def test_a_filtered_turn_runs_nothing(
    tools: OpenAITools, sandbox: Sandbox, api: str, stream: bool
) -> None:
    """Its calls are answered all the same, so that the history stays valid."""
    turn = asked(api, ("a", "run_code", run(WRITE)))
    if api == "chat":
        turn["choices"][0]["finish_reason"] = "content_filter"
    else:
        turn["status"] = "incomplete"
        turn["incomplete_details"] = {"reason": "content_filter"}
    with serving(turn, "ok") as server:
        options: dict[str, Any] = {"api": api, "stream": stream}
        first = loop("sync", server, tools, **options)
        assert first.reason == LoopReason.FILTERED
        assert loop("sync", server, tools, first.history, **options).text == "ok"
    assert "not run" in answers_in(first.history)["a"]
    assert sandbox.list_files() == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_failed_response_has_a_reason(tools: OpenAITools, stream: bool) -> None:
    """The SDK does not raise for it; nothing of it is kept."""
    error = {"code": "server_error", "message": "no"}
    body = response_body(status="failed", error=error)
    with serving(code("1", "a"), body, "ok") as server:
        first = loop("sync", server, tools, stream=stream)
        assert first.reason == LoopReason.FAILED
        assert first.last.error.code == "server_error"
        assert loop("sync", server, tools, first.history, stream=stream).text == "ok"


def test_an_answer_without_choices_has_a_reason(tools: OpenAITools) -> None:
    """Some gateways put an error there, with status 200."""
    with serving({**chat_body({}), "choices": []}) as server:
        result = loop("sync", server, tools, api="chat")
    assert (result.reason, len(result.history)) == (LoopReason.FAILED, 1)


def test_words_in_parts_are_joined(tools: OpenAITools) -> None:
    """Some servers send a list in place of a text; parts without words have none."""
    said = [{"type": "text", "text": "o"}, {"type": "mark"}, {"text": "k"}]
    with serving(chat_body({"role": "assistant", "content": said})) as server:
        result = loop("sync", server, tools, api="chat")
    assert (result.reason, result.text) == (LoopReason.DONE, "ok")


def test_other_names_of_a_tool_are_understood(tools: OpenAITools) -> None:
    """Models call `run_code` `python` when they do not read its name."""
    with serving(ScriptedCall("python", {"code": "print(42)"}), "ok") as server:
        result = loop("sync", server, tools)
    assert (result.replies[0].name, result.replies[0].error) == ("run_code", None)


GARBAGE: dict[str, str | None] = {
    "": None,
    "[]": None,
    "null": None,
    "NaN": None,
    '"x"': None,
    "{": None,
    "{}": None,
    '{"code": 5}': None,
    '{"code": "print(1)", "image": "alpine"}': None,
    '{"code":"a=1\nprint(a)"}': "1\n",
    '{"code":"```python\\nprint(9)\\n```"}': "9\n",
    '{"code":"' + "x" * 3_000_000 + '"}': None,
    '{"code":"print(\'```\')"}': "```\n",
}
ODD = ('{"code":"print(\'\\ud800\')"}', '{"code":"print(1)\\u0000"}')


@pytest.mark.parametrize("api", APIS)
def test_garbage_is_run_where_it_is_meant_and_answered_always(
    tools: OpenAITools, api: str
) -> None:
    """All of it in one turn, and the next request is a good one."""
    written = [*GARBAGE, *ODD]
    calls = [ScriptedCall("run_code", each) for each in written]
    with serving(calls, "ok") as server:
        result = loop("sync", server, tools, api=api)
    assert result.reason == LoopReason.DONE
    assert len(answers_in(result.history)) == len(written)
    for reply, wanted in zip(result.replies, GARBAGE.values(), strict=False):
        if wanted is None:
            assert (reply.error, reply.result) == ("bad_arguments", None)
        else:
            assert reply.result is not None
            assert reply.result.stdout == wanted
