"""Whatever a model writes and however a turn ends, the history can be sent again."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from kern_tools import Sandbox
from kern_tools.adapters.openai.chat import Chat
from kern_tools.adapters.openai.offered import Offered
from kern_tools.adapters.openai.responses import Responses
from kern_tools.adapters.openai.step import Ask, Limits, Teller
from kern_tools.adapters.openai.steps import Steps
from kern_tools.adapters.openai.surface import Surface
from kern_tools.loop_calls import TimeIsUp, TurnRun
from kern_tools.loop_result import StopLoop
from kern_tools.scripted import ScriptedRequest
from kern_tools.shell_tool import SHELL
from kern_tools.tools import Tool
from tests.depth import examples

from .loops import APIS
from .request_checks import problems_of

NAME = re.compile("[a-zA-Z0-9_-]{1,64}")
ANY = st.text(max_size=12) | st.none()
IDS = st.sampled_from(["a", "b", "a_2", "", None])
ARGUMENTS = st.sampled_from(["{}", "", "[1]", '{"code": "1"}', '{"a": 1', "\ud800"])
CALLS = st.lists(st.tuples(IDS, ANY, ARGUMENTS | ANY, st.booleans()), max_size=4)
THOUGHT = st.booleans()
HOW = st.sampled_from(["ends", "time", "cancel", "error", "stop"])
TURNS = st.lists(st.tuples(st.text(max_size=4), CALLS, THOUGHT, HOW), max_size=4)
ERRORS: dict[str, BaseException] = {
    "time": TimeIsUp(),
    "cancel": asyncio.CancelledError(),
    "error": ValueError(),
    "stop": StopLoop(),
}


def completion(said: str, calls: Sequence[Any]) -> ChatCompletion:
    """A completion of the SDK, with calls as they were drawn."""
    made: list[dict[str, Any]] = []
    for call_id, name, written, custom in calls:
        kind, field = ("custom", "input") if custom else ("function", "arguments")
        body = {"name": name, field: written}
        made.append({"id": call_id, "type": kind, kind: body})
    message = {"role": "assistant", "content": said, "tool_calls": made or None}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return ChatCompletion.construct(id="c", choices=[choice], object="chat.completion")


def response(number: int, said: str, calls: Sequence[Any], thought: bool) -> Response:
    """A response of the SDK, with the same."""
    items: list[dict[str, Any]] = []
    if said:
        part: dict[str, Any] = {"type": "output_text", "text": said, "annotations": []}
        head = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
        items.append({**head, "status": "completed", "content": [part]})
    if thought:
        items.append({"type": "reasoning", "id": f"rs_{number}", "summary": []})
    for count, (call_id, name, written, custom) in enumerate(calls):
        kind, field = "function_call", "arguments"
        if custom:
            kind, field = "custom_tool_call", "input"
        item = {"type": kind, "id": f"fc_{number}_{count}", "call_id": call_id}
        items.append({**item, "name": name, field: written})
    return Response.construct(id=f"resp_{number}", status="completed", output=items)


def play(steps: Steps, api: str, turns: Sequence[Any]) -> None:
    """Make the steps of a loop over such turns, each ending as it was drawn."""
    making = steps.run()
    step = next(making)
    for number, (said, calls, thought, how) in enumerate(turns):
        assert isinstance(step, Ask)
        answer: Any = completion(said, calls)
        if api == "responses":
            answer = response(number, said, calls, thought)
        step = making.send(answer)
        if isinstance(step, TurnRun):
            if how != "ends":
                making.throw(ERRORS[how])
            step.run(steps.tell, None)
            step = making.send(None)


def is_valid(api: str, history: list[Any]) -> list[str]:
    """Say what is wrong with a request that has this history."""
    name, path = "messages", "/v1/chat/completions"
    if api == "responses":
        name, path = "input", "/v1/responses"
    found = problems_of(ScriptedRequest(path, {"model": "m", name: history}))
    for call in calls_of(history):
        if not NAME.fullmatch(call["name"]):
            found.append(f"the name {call['name']!r}")
        if "arguments" in call and not isinstance(json.loads(call["arguments"]), dict):
            found.append(f"the arguments {call['arguments']!r}")
    return found


def calls_of(history: list[Any]) -> Iterator[dict[str, Any]]:
    """Give what each call of a history says."""
    for item in history:
        yield from (call[call["type"]] for call in item.get("tool_calls", ()))
        if str(item.get("type")).endswith("_call"):
            yield item


@pytest.fixture(scope="module")
def shell() -> Tool:
    """A tool that no call here reaches."""
    return Tool(SHELL, Sandbox())


@examples(40, 1000)
@given(turns=TURNS)
@pytest.mark.parametrize("api", APIS)
def test_a_history_can_be_sent_again(shell: Tool, api: str, turns: Any) -> None:
    """Made-up ids, names and arguments; a limit, a cancellation or an error."""
    surface: Surface = Chat({"model": "m"}, None, False)
    if api == "responses":
        surface = Responses({"model": "m"}, None, False, False)
    history: list[Any] = [{"role": "user", "content": "go"}]
    limits = Limits(max_turns=9, max_total_tokens=None, time_limit_s=None)
    steps = Steps(
        surface=surface,
        offered=Offered((), shell),
        history=history,
        limits=limits,
        tell=Teller(None),
        images=True,
        streams=False,
        hears_faults=False,
    )
    with suppress(StopIteration, asyncio.CancelledError, ValueError):
        play(steps, api, turns)
    assert is_valid(api, history) == []
