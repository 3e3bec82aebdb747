"""Streams of servers that do not count as OpenAI does, through the real client."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import openai
import pytest
from openai import DefaultHttpxClient, OpenAI

from kern_tools import Sandbox
from kern_tools.adapters.openai import (
    LoopReason,
    LoopResult,
    OpenAITools,
    as_tools,
    run_loop,
)
from kern_tools.loop_events import LoopEvent, TextPiece

from .loops import answers_in, calls_in
from .test_openai_loop_input import run

Events = Sequence[dict[str, Any]]


@pytest.fixture
def tools(sandbox: Sandbox) -> OpenAITools:
    """`run_code` alone."""
    return as_tools(sandbox, "code")


@contextmanager
def streaming(*turns: Events) -> Generator[OpenAI]:
    """Serve each request the next turn's events as they are; give a client."""
    waiting = iter(turns)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Stream one turn."""
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for event in next(waiting):
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    http = DefaultHttpxClient(verify=False)
    with OpenAI(base_url=url, api_key="x", http_client=http, max_retries=0) as client:
        yield client
    server.shutdown()
    server.server_close()


def streamed(
    tools: OpenAITools, *turns: Events, api: Any = "chat", **options: Any
) -> LoopResult:
    """Run a streamed loop over such turns."""
    with streaming(*turns) as client:
        return run_loop(client, tools, "go", model="m", api=api, stream=True, **options)


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """A chunk of a chat completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    return {**head, "choices": [choice]}


def piece(written: str = "", **more: Any) -> dict[str, Any]:
    """A chunk with a piece of a call."""
    named = more.pop("name", None)
    function = {"arguments": written, **({"name": named} if named else {})}
    return chunk(tool_calls=[{"function": function, **more}])


CODE, OTHER = run("print(42)"), run("print(43)")
ANSWER: Events = [chunk(content="o"), chunk(content="k"), chunk("stop")]
END = chunk("tool_calls")

CHAT: dict[str, Events] = {
    "counted": [
        piece(index=0, id="a", type="function", name="run_code"),
        *(piece(letter, index=0) for letter in CODE),
        piece(OTHER, index=1, id="b", type="function", name="run_code"),
        END,
    ],
    "not counted": [
        piece(CODE[:5], id="a", type="function", name="run_code"),
        piece(CODE[5:]),
        piece(OTHER[:5], id="b", type="function", name="run_code"),
        piece(OTHER[5:], id="b"),
        END,
    ],
    "all at zero": [
        piece(CODE, index=0, id="a", type="function", name="run_code"),
        piece(OTHER, index=0, id="b", type="function", name="run_code"),
        END,
    ],
    "from one, with a gap": [
        piece(CODE, index=1, id="a", type="function", name="run_code"),
        piece(OTHER, index=7, id="b", type="function", name="run_code"),
        END,
    ],
    "mixed up": [
        piece(CODE[:5], index=0, id="a", type="function", name="run_code"),
        piece(OTHER[:5], index=1, id="b", type="function", name="run_code"),
        piece(OTHER[5:], index=1),
        piece(CODE[5:], index=0),
        END,
    ],
    "name in each": [
        piece(CODE[:5], index=0, id="a", type="function", name="run_code"),
        piece(CODE[5:], index=0, id="a", type="function", name="run_code"),
        piece(OTHER, index=1, id="b", type="function", name="run_code"),
        END,
    ],
    "the id comes later": [
        piece(CODE[:5], index=0, type="function", name="run_code"),
        piece(CODE[5:], index=0, id="a"),
        piece(OTHER[:5], index=1, type="function", name="run_code"),
        piece(OTHER[5:], index=1, id="b"),
        END,
    ],
    "the end is a stop": [
        piece(CODE, index=0, id="a", type="function", name="run_code"),
        piece(OTHER, index=1, id="b", type="function", name="run_code"),
        chunk("stop", content=""),
        {**chunk(), "choices": []},
    ],
}


@pytest.mark.parametrize("events", CHAT.values(), ids=CHAT)
def test_calls_are_put_together_however_they_are_counted(
    tools: OpenAITools, events: Events
) -> None:
    """By index, by id, or by what came last."""
    result = streamed(tools, events, ANSWER)
    assert (result.reason, result.text) == (LoopReason.DONE, "ok")
    answers = answers_in(result.history)
    assert calls_in(result.history) == list(answers) == ["a", "b"]
    assert ("42" in answers["a"], "43" in answers["b"]) == (True, True)


def test_what_a_server_adds_goes_back_to_it(tools: OpenAITools) -> None:
    """Reasoning and signatures, without which some refuse the next request."""
    signed = {"google": {"thought_signature": "s"}}
    events = [
        chunk(reasoning_content="h"),
        chunk(reasoning_content="m", reasoning_details=[{"data": "x"}]),
        chunk(reasoning_details=[{"data": "y"}]),
        piece(CODE, index=0, id="a", name="run_code", extra_content=signed),
        END,
    ]
    result = streamed(tools, events, ANSWER)
    message = result.history[1]
    assert message["reasoning_content"] == "hm"
    assert message["reasoning_details"] == [{"data": "x"}, {"data": "y"}]
    assert message["tool_calls"][0]["extra_content"] == signed
    assert message["tool_calls"][0]["type"] == "function"


def test_of_what_cannot_be_joined_the_last_is_kept(tools: OpenAITools) -> None:
    """A number that is told again, or an object in place of a text."""
    events = [
        chunk(effort=1, reasoning="h"),
        chunk(effort=2, reasoning={"text": "hm"}),
        piece(CODE, index=0, id="a", name="run_code"),
        END,
    ]
    message = streamed(tools, events, ANSWER).history[1]
    assert (message["effort"], message["reasoning"]) == (2, {"text": "hm"})


def test_words_that_come_in_parts_are_told_as_words(tools: OpenAITools) -> None:
    """As some servers send them; what is told is what the answer says."""
    events: list[LoopEvent] = []
    parts = [[{"type": "text", "text": word}] for word in ("o", "k")]
    turn = [*(chunk(content=part) for part in parts), chunk("stop")]
    result = streamed(tools, turn, on_event=events.append)
    assert (result.reason, result.text) == (LoopReason.DONE, "ok")
    pieces = [event.text for event in events if isinstance(event, TextPiece)]
    assert pieces == ["o", "k"]


def test_without_an_end_a_chat_was_cut_off(tools: OpenAITools) -> None:
    """The connection closes as if all were said; the calls are not run."""
    cut = [piece(CODE, index=0, id="a", name="run_code")]
    result = streamed(tools, cut)
    assert (result.reason, len(result.history)) == (LoopReason.INCOMPLETE, 1)


def test_another_choice_is_left_out(tools: OpenAITools) -> None:
    """A loop follows the first."""
    second = {"index": 1, "delta": {"content": "no"}, "finish_reason": None}
    events = [{**chunk(), "choices": [second]}, *ANSWER]
    assert streamed(tools, events).text == "ok"


def test_an_error_inside_a_stream_is_the_clients(tools: OpenAITools) -> None:
    """The client raises it; the history has the turns before."""
    history: list[Any] = [{"role": "user", "content": "go"}]
    first = [piece(CODE, index=0, id="a", name="run_code"), END]
    broken = [chunk(content="o"), {"error": {"message": "overloaded"}}]
    with streaming(first, broken) as client, pytest.raises(openai.APIError):
        run_loop(client, tools, history, model="m", api="chat", stream=True)
    assert list(answers_in(history)) == ["a"]


def told(kind: str, **more: Any) -> dict[str, Any]:
    """An event of Responses."""
    return {"type": f"response.{kind}", **more}


def response(*output: dict[str, Any]) -> dict[str, Any]:
    """A response."""
    return {"id": "r", "object": "response", "status": "completed", "output": output}


CALL = {"type": "function_call", "call_id": "a", "name": "run_code", "arguments": CODE}
SAID: dict[str, Any] = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "ok", "annotations": []}],
}
DONE = told("completed", response=response(SAID))


def test_events_without_indices_are_enough(tools: OpenAITools) -> None:
    """As llama.cpp sends them; the words come as they are told."""
    first = [
        told("created", response=response()),
        told("function_call_arguments.delta", delta=CODE),
        told("completed", response=response(CALL)),
    ]
    second = [
        told("output_text.delta", delta="o"),
        told("output_text.delta", delta="k"),
        DONE,
    ]
    events: list[LoopEvent] = []
    result = streamed(tools, first, second, api="responses", on_event=events.append)
    assert (result.reason, result.text) == (LoopReason.DONE, "ok")
    assert "42" in answers_in(result.history)["a"]
    pieces = [event.text for event in events if isinstance(event, TextPiece)]
    assert pieces == ["o", "k"]


def test_items_told_on_the_way_are_enough(tools: OpenAITools) -> None:
    """Some servers leave them out of the last event."""
    first = [
        told("output_item.done", item=CALL),
        told("completed", response=response()),
    ]
    result = streamed(tools, first, [DONE], api="responses")
    assert "42" in answers_in(result.history)["a"]


def test_without_deltas_the_words_are_told_whole(tools: OpenAITools) -> None:
    """Nothing that the model says is left untold."""
    events: list[LoopEvent] = []
    streamed(tools, [DONE], api="responses", on_event=events.append)
    assert TextPiece(turn=1, text="ok") in events


def test_an_error_event_of_responses_has_a_reason(tools: OpenAITools) -> None:
    """The client does not raise for it."""
    error = {"type": "error", "code": "server_error", "message": "no", "param": None}
    result = streamed(tools, [error], api="responses")
    assert (result.reason, result.last.code) == (LoopReason.FAILED, "server_error")
    assert len(result.history) == 1


def test_without_an_end_a_response_was_cut_off(tools: OpenAITools) -> None:
    """Its calls are not run, also those that were whole."""
    cut = [told("output_item.done", item=CALL)]
    result = streamed(tools, cut, api="responses")
    assert (result.reason, len(result.history)) == (LoopReason.INCOMPLETE, 1)
