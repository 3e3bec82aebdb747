"""Plain OpenAI calls, with the real client on a scripted server."""

# The framework leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI

from kern_tools import ConfigError, Sandbox, SandboxPool
from kern_tools.adapters.openai import Answers, OpenAITools, as_tools
from kern_tools.scripted import ScriptedCall, ScriptedServer, Step

from .cells import CHARTS, LOOP, WAITS, Gate

UNUSABLE = ("", "[]", "null", "NaN", '"x"', "{", "{}", '{"code": 5}', "print(1)")
PRINT = {"code": "print(6 * 7)"}


@pytest.fixture
def tools(sandbox: Sandbox) -> OpenAITools:
    """The default tools."""
    return as_tools(sandbox)


def client(server: ScriptedServer) -> OpenAI:
    """The real client, pointed at the scripted server."""
    return OpenAI(base_url=server.url, api_key="none", max_retries=0)


def asked(arguments: object, call_id: str = "c1", name: str = "run_code") -> Any:
    """Write a function call of Responses as a dict."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": text,
    }


def chat_turn(server: ScriptedServer, tools: OpenAITools, *, stream: bool) -> Any:
    """Ask Chat Completions once and give the whole completion."""
    request: Any = {
        "model": "scripted",
        "messages": [{"role": "user", "content": "go"}],
        "tools": tools.chat,
    }
    with client(server) as api:
        if not stream:
            return api.chat.completions.create(**request)
        with api.chat.completions.stream(**request) as events:
            return events.get_final_completion()


def response_turn(
    server: ScriptedServer, definitions: list[Any], history: list[Any], *, stream: bool
) -> Any:
    """Ask Responses once and give the whole response."""
    request: Any = {"model": "scripted", "input": history, "tools": definitions}
    with client(server) as api:
        if not stream:
            return api.responses.create(**request)
        with api.responses.stream(**request) as events:
            return events.get_final_response()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_chat_calls_are_answered(tools: OpenAITools, stream: bool) -> None:
    """A completion and its message, whole or streamed, give the same answers."""
    calls = [ScriptedCall("run_code", PRINT, "a"), ScriptedCall("list_files", {}, "b")]
    with ScriptedServer([calls]) as server:
        completion = chat_turn(server, tools, stream=stream)
    for turn in (completion, completion.choices[0].message, completion.model_dump()):
        answers = tools.answer(turn)
        assert [(i["role"], i["tool_call_id"]) for i in answers.items] == [
            ("tool", "a"),
            ("tool", "b"),
        ]
        assert "42" in answers.items[0]["content"]
        assert [reply.name for reply in answers] == ["run_code", "list_files"]
        assert answers.unanswered == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_responses_calls_are_answered(tools: OpenAITools, stream: bool) -> None:
    """The loop of the README: output and answers go back into the input."""
    script: list[Step] = [
        [ScriptedCall("run_code", PRINT, "a"), ScriptedCall("list_files", {}, "b")],
        "done",
    ]
    history: list[Any] = [{"role": "user", "content": "go"}]
    with ScriptedServer(script) as server:
        turn = response_turn(server, tools.responses, history, stream=stream)
        answers = tools.answer(turn)
        history += [*turn.output, *answers.items]
        last = response_turn(server, tools.responses, history, stream=stream)
    assert last.output_text == "done"
    assert [(i["type"], i["call_id"]) for i in answers.items] == [
        ("function_call_output", "a"),
        ("function_call_output", "b"),
    ]
    assert server.requests[1].body["input"][-2:] == answers.items
    assert not tools.answer(last)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_custom_tool_takes_code_as_free_text(
    tools: OpenAITools, stream: bool
) -> None:
    """No JSON around the code; the other tools stay functions."""
    code = 'print("a\\n{}")\nprint(6 * 7)'
    script = [ScriptedCall("run_code", code, "a", free_text=True)]
    with ScriptedServer(script) as server:
        turn = response_turn(server, tools.custom, [], stream=stream)
    answers = tools.answer(turn)
    (item,) = answers.items
    (reply,) = answers
    assert (item["type"], item["call_id"]) == ("custom_tool_call_output", "a")
    assert reply.result is not None
    assert reply.result.stdout == "a\n{}\n42\n"
    kinds = [tool["type"] for tool in server.requests[0].body["tools"]]
    assert kinds == ["custom", "function", "function", "function"]


@pytest.mark.parametrize("way", ["chat", "responses"])
def test_code_that_was_cut_off_does_not_run(
    tools: OpenAITools, sandbox: Sandbox, way: str
) -> None:
    """Free text has no closing brace that would show it: half a script might run."""
    code = "open('half', 'w').close()"
    custom = {"name": "run_code", "input": code}
    call = {"id": "a", "type": "custom", "custom": custom}
    message = {"role": "assistant", "tool_calls": [call]}
    item = {"type": "custom_tool_call", "call_id": "a", **custom}
    turns: dict[str, Any] = {
        "chat": {"choices": [{"finish_reason": "length", "message": message}]},
        "responses": {"status": "incomplete", "output": [item]},
    }
    (reply,) = tools.answer(turns[way])
    assert (reply.error, "cut" in reply.text) == ("bad_arguments", True)
    assert sandbox.list_files() == []


def test_a_custom_call_in_chat_is_answered(tools: OpenAITools) -> None:
    """Chat has custom calls too, with the text in another place."""
    call = {
        "id": "a",
        "type": "custom",
        "custom": {"name": "run_code", "input": "print(6 * 7)"},
    }
    (item,) = tools.answer([call]).items
    assert (item["role"], item["tool_call_id"]) == ("tool", "a")
    assert "42" in item["content"]


async def test_the_async_client_and_answers_go_together(tools: OpenAITools) -> None:
    """`aanswer` runs natively in the event loop."""
    with ScriptedServer([ScriptedCall("run_code", PRINT)]) as server:
        api = AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)
        async with api:
            turn = await api.responses.create(
                model="scripted", input="go", tools=tools.responses
            )
    answers = await tools.aanswer(turn)
    assert "42" in answers.items[0]["output"]


def test_chat_images_follow_in_one_user_message(tools: OpenAITools) -> None:
    """All tool messages first, text only; then every image, named by its call."""
    calls = [ScriptedCall("run_code", {"code": CHARTS}, i) for i in ("a", "b")]
    with ScriptedServer([calls]) as server:
        answers = tools.answer(chat_turn(server, tools, stream=False))
    first, second, shown = answers.items
    assert [first["role"], second["role"], shown["role"]] == ["tool", "tool", "user"]
    assert isinstance(first["content"], str)
    kinds = [part["type"] for part in shown["content"]]
    assert kinds == ["text", "image_url", "image_url"] * 2
    assert ["a" in shown["content"][0]["text"], "b" in shown["content"][3]["text"]]
    urls = [p["image_url"]["url"] for p in shown["content"] if p["type"] == "image_url"]
    images = [image.data_url for reply in answers for image in reply.images]
    assert urls == images


def test_responses_images_are_in_the_output(tools: OpenAITools) -> None:
    """Text stays a string until there is an image to send with it."""
    plain, charts = tools.answer([asked(PRINT), asked({"code": CHARTS}, "c2")]).items
    assert isinstance(plain["output"], str)
    kinds = [part["type"] for part in charts["output"]]
    assert kinds == ["input_text", "input_image", "input_image"]
    assert "base64" not in charts["output"][0]["text"]


def test_images_can_be_left_out(sandbox: Sandbox) -> None:
    """A model without eyes gets the text alone, which names the images."""
    blind = as_tools(sandbox, images="none")
    (item,) = blind.answer([asked({"code": CHARTS})]).items
    assert "image 2" in item["output"]


def test_a_fault_is_on_the_reply(tools: OpenAITools) -> None:
    """The API has no channel for it: the words say it, and the reply as data."""
    answers = tools.answer([asked(LOOP)])
    (reply,) = answers
    assert reply.fault_type == "timeout"
    assert "timeout" in answers.items[0]["output"].splitlines()[0]


@pytest.mark.parametrize("written", UNUSABLE)
def test_unusable_arguments_are_answered(tools: OpenAITools, written: str) -> None:
    """One item goes back, which says what was wrong, and nothing ran."""
    answers = tools.answer([asked(written)])
    (reply,) = answers
    assert (reply.error, reply.result, reply.call_id) == ("bad_arguments", None, "c1")
    assert len(answers.items) == 1
    json.dumps(answers.items, ensure_ascii=False).encode()


MALFORMED = {
    "no id": {"type": "function_call", "name": "run_code", "arguments": "{}"},
    "id is no text": {**asked(PRINT), "call_id": 7},
    "no name": {"type": "function_call", "call_id": "c", "arguments": "{}"},
    "name is no text": {**asked(PRINT), "name": ["run_code"]},
    "nothing inside": {"id": "c", "type": "function"},
    "inside is no object": {"id": "c", "type": "function", "function": "run_code"},
    "another tool": asked(PRINT, name="get_weather"),
}


@pytest.mark.parametrize("call", MALFORMED.values(), ids=MALFORMED)
def test_what_cannot_be_answered_is_handed_back(tools: OpenAITools, call: Any) -> None:
    """Calls of other tools, and calls without an id, are the caller's."""
    answers = tools.answer([call, asked(PRINT)])
    assert answers.unanswered == [call]
    assert [reply.call_id for reply in answers] == ["c1"]


def test_a_call_without_arguments_is_answered(tools: OpenAITools) -> None:
    """What is missing is the model's to send."""
    call = {"type": "function_call", "call_id": "c", "name": "run_code"}
    (reply,) = tools.answer([call])
    assert reply.error == "bad_arguments"


def test_other_names_of_run_code_are_ours(tools: OpenAITools) -> None:
    """Models call it `python` when they do not read its name."""
    (reply,) = tools.answer([asked(PRINT, name="python")])
    assert (reply.name, reply.error) == ("run_code", None)


def test_a_call_sent_twice_runs_once(tools: OpenAITools, sandbox: Sandbox) -> None:
    """The same call under the same id is one call; another one under it also runs."""
    code = {"code": "open('n', 'a').write('x')"}
    answers = tools.answer([asked(code), asked(code), asked(PRINT)])
    assert len(answers) == len(answers.items) == 2
    assert sandbox.read_file("n") == b"x"


def test_parallel_calls_keep_their_order(tools: OpenAITools) -> None:
    """Each waits for the next one to have begun, so that only side by side they end."""
    first = "import time\nwhile not __import__('os').path.exists('b'): time.sleep(.005)"
    second = "open('b', 'w').close()"
    calls = [asked({"code": first}, "a"), asked({"code": second}, "b")]
    answers = tools.answer(calls)
    assert [(r.call_id, r.fault_type) for r in answers] == [("a", None), ("b", None)]
    assert [item["call_id"] for item in answers.items] == ["a", "b"]


async def test_answer_works_inside_a_running_loop(tools: OpenAITools) -> None:
    """As in a notebook, where a loop runs already."""
    answers = tools.answer([asked(PRINT, "a"), asked(PRINT, "b")])
    assert [reply.call_id for reply in answers] == ["a", "b"]


async def test_cancelling_aanswer_ends_the_boxes(patient: Sandbox, gate: Gate) -> None:
    """The cancellation goes on once nothing of any call is left."""
    calls = [
        asked({"code": WAITS}, "a"),
        asked({"code": "import time\ntime.sleep(50)"}),
    ]
    task = asyncio.create_task(as_tools(patient).aanswer(calls))
    assert await asyncio.to_thread(gate.wait) == b"running"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.is_gone()
    assert "7" in patient.run_code("print(7)").stdout


INTERRUPTED = """
import json, os, signal, threading
from kern_tools import Sandbox
from kern_tools.adapters.openai import as_tools

code = {code!r}
call = lambda i: {{"type": "function_call", "call_id": i, "name": "run_code",
                   "arguments": json.dumps({{"code": code}})}}
with Sandbox(timeout_s=60) as sandbox:
    gate = sandbox.workspace.root / "gate"
    os.mkfifo(gate)
    def interrupt():
        open(gate).read(7)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        as_tools(sandbox).answer([call("a"), call("b")])
    except KeyboardInterrupt:
        print("interrupted", sandbox.run_code("print(7)").stdout)
"""


def test_an_interrupt_ends_the_boxes_of_a_turn() -> None:
    """Ctrl-C during `answer` does not wait for the calls to end by themselves."""
    command = [sys.executable, "-c", INTERRUPTED.format(code=WAITS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40)
    assert done.stdout == "interrupted 7\n\n", done.stderr


@pytest.mark.parametrize("turn", ["text", None, 5, {"type": "x"}], ids=repr)
def test_what_is_no_turn_is_refused(tools: OpenAITools, turn: object) -> None:
    """A stream that was not read, for one, must not pass as a turn without calls."""
    with pytest.raises(TypeError, match="stream"):
        tools.answer(turn)


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "assistant", "content": "hi"},
        {"choices": []},
        {"choices": [{"message": {"role": "assistant", "tool_calls": None}}]},
        {"object": "response", "output": [{"type": "message"}, {"type": "reasoning"}]},
        [],
    ],
    ids=repr,
)
def test_a_turn_without_calls_has_no_answers(tools: OpenAITools, turn: Any) -> None:
    """The end of the loop is an empty `Answers`."""
    assert tools.answer(turn) == Answers([], (), [])


def schemas(tools: OpenAITools) -> Iterator[dict[str, Any]]:
    """Every function definition, of both ways."""
    yield from tools.responses
    yield from (tool["function"] for tool in tools.chat)


def test_strict_definitions_say_so(tools: OpenAITools) -> None:
    """Every property is required, none has a default, and nothing else may come."""
    for function in schemas(tools):
        parameters = function["parameters"]
        assert function["strict"] is True
        assert parameters["additionalProperties"] is False
        assert parameters["required"] == list(parameters["properties"])
        assert "default" not in json.dumps(parameters)
        assert len(function["description"]) <= 1024


def test_plain_definitions_never_ask_for_strict_mode(sandbox: Sandbox) -> None:
    """Chat leaves the key out for servers that do not know it; Responses needs it."""
    plain = as_tools(sandbox, strict=False)
    assert all("strict" not in tool["function"] for tool in plain.chat)
    assert all(tool["strict"] is False for tool in plain.responses)
    assert plain.chat[0]["function"]["parameters"]["required"] == ["code"]


# a pool


async def test_conversations_do_not_share_files(pool: SandboxPool) -> None:
    """Each `conversation` has a sandbox, which the next answer finds again."""
    tools = as_tools(pool)
    write = asked({"path": "n.txt", "content": "42"}, name="write_file")
    listing = asked({}, name="list_files")
    tools.answer([write], conversation="t1")
    (other,) = await tools.aanswer([listing], conversation="t2")
    (own,) = await tools.aanswer([listing], conversation="t1")
    assert ("n.txt" in other.text, "n.txt" in own.text) == (False, True)


def test_parallel_first_calls_share_their_conversations_sandbox(
    pool: SandboxPool,
) -> None:
    """Calls of one turn that come first at once meet in one workspace."""
    first = "import os, time\nwhile not os.path.exists('b'): time.sleep(.005)"
    second = "open('b', 'w').close()"
    calls = [asked({"code": first}, "a"), asked({"code": second}, "b")]
    answers = as_tools(pool).answer(calls, conversation="t1")
    assert [reply.fault_type for reply in answers] == [None, None]
    assert len(pool) == 1


@pytest.mark.parametrize("name", ["run_code", "list_files"])
@pytest.mark.parametrize("conversation", [None, "", "None"])
def test_without_a_conversation_nothing_runs(
    pool: SandboxPool, name: str, conversation: object
) -> None:
    """The fault is the operator's, and says what to pass; every call is answered."""
    arguments = PRINT if name == "run_code" else {}
    answers = as_tools(pool).answer(
        [asked(arguments, name=name)], conversation=conversation
    )
    (reply,) = answers
    assert reply.result is not None
    assert reply.result.fault is not None
    assert (reply.fault_type, reply.result.fault.reason) == (
        "startup_failed",
        "conversation",
    )
    assert reply.result.fault.actor == "operator"
    assert "conversation=" in answers.items[0]["output"]
    assert len(pool) == 0


def test_the_conversation_tells_the_tenant(pool: SandboxPool) -> None:
    """What is given is the caller's own, such as `tenant/conversation`."""
    tools = as_tools(pool, tenant=lambda key: key.partition("/")[0])
    tools.answer([asked(PRINT)], conversation="ann/1")
    assert pool.peek("ann/1", tenant="ann") is not None
    assert pool.peek("ann/1") is None
    with pytest.raises(ConfigError, match="pool"):
        as_tools(pool.get("t1"), tenant=str)
