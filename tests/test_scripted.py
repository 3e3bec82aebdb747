"""The scripted model server, as the real client sees it."""

# The SDK leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from openai import (
    APIConnectionError,
    APITimeoutError,
    AsyncOpenAI,
    BadRequestError,
    OpenAI,
    RateLimitError,
)
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from kern_tools.scripted import (
    ScriptedBreak,
    ScriptedCall,
    ScriptedError,
    ScriptedRequest,
    ScriptedServer,
    Step,
    Turn,
)
from kern_tools.scripted_wire import (
    Answer,
    Said,
    chat_body,
    chat_events,
    response_body,
    response_events,
)

MESSAGES: Any = [{"role": "user", "content": "go"}]
LONG = "print('a long line that comes in several pieces')"
TURNS: dict[str, Turn] = {
    "text": "a sentence that comes in several pieces",
    "nothing": "",
    "call": ScriptedCall("run_code", {"code": LONG}),
    "broken arguments": ScriptedCall("run_code", '{"code": "print(1'),
    "one id twice": [ScriptedCall("a", {}, "x"), ScriptedCall("b", {}, "x")],
    "free text": ScriptedCall("run_code", LONG, free_text=True),
    "text and calls": ["look:", ScriptedCall("a", {}), ScriptedCall("b", {"n": 1})],
}
each_turn = pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)


def client(server: ScriptedServer, **options: Any) -> OpenAI:
    """The real client, pointed at the server."""
    settings: Any = {"max_retries": 0, **options}
    return OpenAI(base_url=server.url, api_key="none", **settings)


def ask(api: OpenAI) -> Response:
    """Ask Responses once."""
    return api.responses.create(model="m", input="go")


def read_stream(api: OpenAI) -> Response:
    """Ask Responses once and read the stream to its end."""
    with api.responses.stream(model="m", input="go") as events:
        return events.get_final_response()


def called(turn: ChatCompletion | Response) -> list[tuple[str, str, str]]:
    """List the calls of a turn: ids, names, what they are called with."""
    if isinstance(turn, Response):
        items: Any = [item for item in turn.output if item.type != "message"]
        return [(i.call_id, i.name, getattr(i, _field(i))) for i in items]
    calls: Any = turn.choices[0].message.tool_calls or ()
    return [(c.id, _inner(c)["name"], _inner(c)[_field(c)]) for c in calls]


def _field(call: Any) -> str:
    return "input" if call.type.startswith("custom") else "arguments"


def _inner(call: Any) -> dict[str, Any]:
    return dict(call.model_dump()[call.type])


@each_turn
def test_a_streamed_response_says_the_same(turn: Turn) -> None:
    """The pieces of each item add up to it, and the last event has the whole body."""
    with ScriptedServer([turn]) as server, client(server) as api:
        whole = ask(api)
    with ScriptedServer([turn]) as again, client(again) as api:
        events: Any = api.responses.create(model="m", input="go", stream=True)
        *parts, last = events
    assert last.response == whole
    pieces = ["".join(_deltas(parts, index)) for index in range(len(whole.output))]
    assert [text for text in pieces if text] == _written(whole)
    assert again.answers == server.answers


def _deltas(parts: list[Any], index: int) -> list[str]:
    deltas = [part for part in parts if part.type.endswith(".delta")]
    return [part.delta for part in deltas if part.output_index == index]


def _written(whole: Response) -> list[str]:
    texts = [whole.output_text] if whole.output_text else []
    return texts + [text for _, _, text in called(whole)]


@pytest.mark.parametrize("stream", [False, True])
def test_half_a_surrogate_pair_is_said(stream: bool) -> None:
    """As a model may write it; it has no UTF-8, and travels as an escape."""
    said = "half \ud83d"
    with ScriptedServer([said]) as server, client(server) as api:
        answer: Any = api.responses.create(model="m", input="go", stream=stream)
        whole: Any = [*answer][-1].response if stream else answer
    assert whole.output_text == said


@each_turn
def test_a_streamed_completion_says_the_same(turn: Turn) -> None:
    """The chunks add up to the whole body."""
    with ScriptedServer([turn]) as server, client(server) as api:
        whole = api.chat.completions.create(model="m", messages=MESSAGES)
    with ScriptedServer([turn]) as again, client(again) as api:
        chunks = api.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        parts = [chunk.choices[0] for chunk in chunks]
    text = "".join(part.delta.content or "" for part in parts)
    assert text == (whole.choices[0].message.content or "")
    assert parts[-1].finish_reason == whole.choices[0].finish_reason
    assert _added_up(parts) == called(whole)
    assert again.answers == server.answers


def _added_up(parts: list[Any]) -> list[tuple[str, str, str]]:
    calls: dict[int, list[str]] = {}
    for piece in (piece for part in parts for piece in part.delta.tool_calls or ()):
        inner = _inner(piece)
        call = calls.setdefault(piece.index, ["", "", ""])
        written = (piece.id, inner.get("name"), inner.get(_field(piece)))
        calls[piece.index] = [a + (b or "") for a, b in zip(call, written, strict=True)]
    return [(i, name, text) for i, name, text in calls.values()]


SAID = [Said("look"), Said("{}", "a", "call_1"), Said("x", "b", "call_2", True)]


def test_the_words_are_of_the_clients_own_types() -> None:
    """The client reads leniently; its types tell what a body of the API has."""
    answer = Answer(1, "m", SAID)
    chat, response = chat_body(answer), response_body(answer)
    ChatCompletion.model_validate(chat)
    Response.model_validate(response)
    # The client has no type for a custom call in a chunk, though the API streams them.
    for chunk in chat_events(chat_body(Answer(1, "m", SAID[:2])), usage=True):
        ChatCompletionChunk.model_validate(chunk)
    events = TypeAdapter[Any](ResponseStreamEvent)
    read = [events.validate_python(event) for event in response_events(response)]
    assert [event.sequence_number for event in read] == list(range(len(read)))


def test_a_step_may_be_made_from_the_request() -> None:
    """What the tool returned decides what the model says next."""

    def read(request: ScriptedRequest) -> Turn:
        output = request.body["input"][-1]["output"]
        return "It is 42." if "42" in output else ScriptedCall("run_code", {})

    answered = {"type": "function_call_output", "call_id": "a"}
    with ScriptedServer([read, read]) as server, client(server) as api:
        for output, text in (("no", ""), ("42", "It is 42.")):
            history: Any = [{**answered, "output": output}]
            said = api.responses.create(model="m", input=history)
            assert said.output_text == text
    assert [request.is_chat for request in server.requests] == [False, False]


SHELL = {
    "id": "sh_1",
    "type": "shell_call",
    "call_id": "call_1",
    "status": "completed",
    "action": {"commands": ["ls"], "timeout_ms": None, "max_output_length": None},
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("status", ["completed", "incomplete", "failed"])
def test_a_body_may_be_given_as_it_is(stream: bool, status: str) -> None:
    """For what has no words of its own here: any item, status or usage."""
    body = {"id": "r", "object": "response", "status": status, "output": [SHELL]}
    with ScriptedServer([body]) as server, client(server) as api:
        said: Any = api.responses.create(model="m", input="hi", stream=stream)
        response = [event for event in said][-1].response if stream else said
    assert (response.status, response.output[0].type) == (status, "shell_call")
    assert server.answers == [body]


def test_a_completion_may_be_given_as_it_is() -> None:
    """As one that was cut off, with what it cost."""
    body = chat_body(Answer(1, "m", [Said("cut")]))
    body["choices"][0]["finish_reason"] = "length"
    body["usage"] = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
    with ScriptedServer([body]) as server, client(server) as api:
        options: Any = {"stream": True, "stream_options": {"include_usage": True}}
        chunks = list(
            api.chat.completions.create(model="m", messages=MESSAGES, **options)
        )
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 10


def test_calls_are_numbered_where_no_id_is_given() -> None:
    """Ids differ within a script, as a model's do."""
    script: list[Step] = [[ScriptedCall("a", {}), ScriptedCall("b", {}, "mine")]]
    with ScriptedServer([*script, *script]) as server, client(server) as api:
        turns = [ask(api) for _ in script * 2]
    ids = [call_id for turn in turns for call_id, _, _ in called(turn)]
    assert ids == ["call_1", "mine", "call_2", "mine"]
    assert len({turn.id for turn in turns}) == 2


# errors and broken streams


def test_an_error_is_the_apis() -> None:
    """Its status, code and text reach code through the client's own exceptions."""
    error = ScriptedError(400, "context_length_exceeded", "too long")
    with (
        ScriptedServer([error]) as server,
        client(server) as api,
        pytest.raises(BadRequestError, match="too long") as caught,
    ):
        ask(api)
    assert caught.value.code == "context_length_exceeded"
    assert server.answers == [None]


def test_a_client_that_retries_takes_the_next_step() -> None:
    """How long it waits is what the error says."""
    limit = ScriptedError(429, retry_after_s=0)
    script: list[Step] = [limit, "at last", limit]
    with ScriptedServer(script) as server, client(server, max_retries=1) as api:
        assert ask(api).output_text == "at last"
    with (
        ScriptedServer([limit]) as server,
        client(server) as api,
        pytest.raises(RateLimitError),
    ):
        ask(api)


def test_a_status_that_is_no_error_is_refused() -> None:
    """Where the script is written, not when it is served."""
    with pytest.raises(ValueError, match="200"):
        ScriptedError(200)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        # Version 2 of the client lets the errors of its transport through.
        ("disconnect", (APIConnectionError, httpx.RemoteProtocolError)),
        ("truncate", RuntimeError),
        ("malformed", json.JSONDecodeError),
        ("stall", (APITimeoutError, httpx.ReadTimeout)),
    ],
)
def test_a_stream_breaks(how: Any, error: Any) -> None:
    """The client meets it as it would meet it on the network."""
    script: list[Step] = [ScriptedBreak(TURNS["call"], how), "and on"]
    with ScriptedServer(script) as server, client(server) as api:
        hasty = api.with_options(timeout=0.5) if how == "stall" else api
        with pytest.raises(error):
            read_stream(hasty)
        assert read_stream(api).output_text == "and on"


def test_the_events_before_a_break_arrive() -> None:
    """As many as the script says, each whole."""
    broken = ScriptedBreak("some text", "truncate", after_events=3)
    with ScriptedServer([broken]) as server, client(server) as api:
        chunks = api.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        assert len(list(chunks)) == 3


async def test_errors_and_breaks_meet_the_request_that_they_are_for() -> None:
    """Requests that come at once do not take each other's."""

    async def one(number: int) -> str:
        try:
            await api.responses.create(model="m", input=str(number))
        except RateLimitError:
            return "error"
        return "text"

    def decide(request: ScriptedRequest) -> str | ScriptedError:
        return ScriptedError(429) if int(request.body["input"]) % 2 else "text"

    with ScriptedServer([decide] * 40) as server:
        async with AsyncOpenAI(base_url=server.url, api_key="x", max_retries=0) as api:
            came = await asyncio.gather(*(one(number) for number in range(40)))
    assert came == ["text", "error"] * 20
    pairs = zip(server.requests, server.answers, strict=True)
    assert all((a is None) == (int(r.body["input"]) % 2 == 1) for r, a in pairs)


# mistakes of a script


def test_a_break_needs_a_stream() -> None:
    """A test that breaks nothing must not pass."""
    with (
        pytest.raises(ValueError, match="stream"),
        ScriptedServer([ScriptedBreak("x")]) as server,
        client(server) as api,
        pytest.raises(BadRequestError),
    ):
        ask(api)


def test_a_request_beyond_the_script_is_refused_and_raised() -> None:
    """A test that asks more often than it says must not pass."""
    with (
        pytest.raises(LookupError, match="before request 1"),
        ScriptedServer([]) as server,
        client(server) as api,
        pytest.raises(BadRequestError, match="add a step"),
    ):
        ask(api)


def test_another_path_is_refused() -> None:
    """Only the two ways of the API are there."""
    with (
        pytest.raises(LookupError, match="embeddings"),
        ScriptedServer(["x"]) as server,
        client(server) as api,
        pytest.raises(BadRequestError, match="embeddings"),
    ):
        api.embeddings.create(model="m", input="hi")


def test_the_url_is_there_while_it_runs() -> None:
    """A script that nobody serves is a mistake of the test."""
    with pytest.raises(RuntimeError, match="with"):
        _ = ScriptedServer([]).url


# what it needs


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter of its own."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_without_llmock_the_extra_is_named() -> None:
    """The remedy is the command to type."""
    blocked = "import sys; sys.modules['llmock'] = None; import kern_tools.scripted"
    done = python(blocked)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("pip install 'kern-tools[testing]'")


def test_the_demo_needs_no_server() -> None:
    """A bare install shows the frameworks' calls without the extra for tests."""
    done = python("import sys, kern_tools.demo; print('llmock' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


def test_a_connection_is_not_kept() -> None:
    """Frameworks leave their clients open, which would warn when they are collected."""
    with ScriptedServer(["one"]) as server, client(server) as api:
        raw = api.responses.with_raw_response.create(model="m", input="go")
    headers: Mapping[str, str] = raw.headers
    assert headers["connection"] == "close"
