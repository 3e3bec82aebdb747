"""OpenAI loops: arguments that a loop cannot be run with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from kern_tools import ConfigError, FaultPolicy, Sandbox
from kern_tools.adapters.openai import (
    OpenAITools,
    OtherTool,
    arun_loop,
    as_tools,
    run_loop,
)
from kern_tools.scripted import ScriptedCall
from tests.depth import crossed

from .cells import LOOP
from .loops import WAYS, Way, aclient, answers_in, client, loop, serving

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()


@pytest.fixture(scope="module")
def tools() -> Iterator[OpenAITools]:
    """Tools of a sandbox that starts nothing in advance."""
    with Sandbox(timeout_s=1, prewarm=0) as sandbox:
        yield as_tools(sandbox)


def ping() -> str:
    """Answer."""
    return "pong"


async def listens(_: Any) -> None:
    """Hear an event, where somebody awaits it."""


WRONG: dict[str, tuple[Any, ...]] = {
    "instructions": (5, b"be brief", ["be brief"]),
    "stream": ("yes", 1, None),
    "free_text": ("no", None),
    "shell": (1, None),
    "chain": ("", None),
    "others": (ping, None, "ping", (f for f in (ping,)), [None], [5], {"type": "x"}),
    "previous_response_id": (5, b"resp_1"),
    "policy": (FaultPolicy, {"retries": 1}, FaultPolicy().start(), True),
    "on_event": (3, "print", listens),
    "on_fault": (3, "print"),
    "max_turns": (0, True, 1.5, None, "3"),
    "max_total_tokens": (0, -1, 1.5, "all"),
    "time_limit_s": (0, -1, float("nan"), float("inf"), "1"),
}
CASES = [(option, value) for option, values in WRONG.items() for value in values]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("option", "value"), CASES, ids=lambda case: repr(case)[:20])
def test_what_an_option_cannot_be_is_refused(
    tools: OpenAITools, way: Way, option: str, value: Any
) -> None:
    """With its name, before the model is asked."""
    with serving() as server, pytest.raises(ConfigError) as caught:
        loop(way, server, tools, **{option: value})
    assert caught.value.option == option
    assert server.requests == []


@pytest.mark.parametrize("model", [None, 5, "", b"m"])
async def test_a_model_is_named(tools: OpenAITools, model: Any) -> None:
    """A request without a name would be refused by servers in words of their own."""
    with serving() as server:
        with client(server) as api, pytest.raises(ConfigError) as caught:
            run_loop(api, tools, "go", model=model)
        assert caught.value.option == "model"
        async with aclient(server) as other:
            with pytest.raises(ConfigError) as caught:
                await arun_loop(other, tools, "go", model=model)
        assert caught.value.option == "model"


@pytest.mark.parametrize("item", ["hello", 1, None, ("role", "user")], ids=repr)
@pytest.mark.parametrize("way", WAYS)
def test_an_item_that_is_no_message_is_named(
    tools: OpenAITools, way: Way, item: Any
) -> None:
    """By its place in the history."""
    history = [{"role": "user", "content": "go"}, item]
    with serving() as server, pytest.raises(ConfigError, match=r"history\[1\]") as bad:
        loop(way, server, tools, history)
    assert bad.value.option == "history"


@pytest.mark.parametrize("api", ["responses", "chat"])
@pytest.mark.parametrize("wrong", [None, "client", object()], ids=["n", "t", "o"])
async def test_what_is_no_client_is_named(
    tools: OpenAITools, wrong: Any, api: Any
) -> None:
    """It has nothing that could be asked."""
    with pytest.raises(ConfigError) as caught:
        run_loop(wrong, tools, "go", model="m", api=api)
    assert caught.value.option == "client"
    with pytest.raises(ConfigError) as caught:
        await arun_loop(wrong, tools, "go", model="m", api=api)
    assert caught.value.option == "client"


def _call(function: Any, given: Any) -> Any:
    return function(given)


@pytest.mark.parametrize("way", WAYS)
def test_an_event_that_nobody_awaits_is_refused(tools: OpenAITools, way: Way) -> None:
    """Also of a callback that does not look async."""
    with serving() as server, pytest.raises(ConfigError) as caught:
        loop(way, server, tools, on_event=partial(_call, listens))
    assert caught.value.option == "on_event"


@pytest.mark.parametrize("way", WAYS)
def test_a_note_that_is_no_text_is_refused(tools: OpenAITools, way: Way) -> None:
    """The call of the turn is answered all the same."""
    history: list[Any] = [{"role": "user", "content": "go"}]
    with serving(ScriptedCall("run_code", LOOP, "a")) as server:
        with pytest.raises(ConfigError) as caught:
            loop(way, server, tools, history, on_fault=partial(_call, id))
        assert caught.value.option == "on_fault"
        assert answers_in(history)["a"].startswith("fault: timeout")


@pytest.mark.parametrize("given", [None, "ping", 5, ["type"]], ids=repr)
def test_what_is_no_definition_is_refused(given: Any) -> None:
    """A tool of the caller's own is one as the API takes it."""
    with pytest.raises(ConfigError) as caught:
        OtherTool(given, ping)
    assert caught.value.option == "others"


def test_what_cannot_be_called_is_refused() -> None:
    """Before a model calls it."""
    described = {"type": "function", "name": "ping", "parameters": None}
    wrong: Any = "ping"
    with pytest.raises(ConfigError) as caught:
        OtherTool(described, wrong)
    assert caught.value.option == "others"


@pytest.mark.parametrize(
    "given",
    [{"type": "web_search"}, {"type": "function"}, {"type": "function", "name": ""}],
    ids=repr,
)
def test_a_function_for_a_tool_without_a_name_is_refused(given: Any) -> None:
    """The model could never call it."""
    with pytest.raises(ConfigError, match="names no tool") as caught:
        OtherTool(given, ping)
    assert caught.value.option == "others"
    assert OtherTool(given).name is None


def test_no_tools_are_a_loop_too(tools: OpenAITools) -> None:
    """A request has no empty list of them, which the API refuses."""
    source = tools.tools[0].source
    with source.lease(None, None) as sandbox, serving("ok") as server:
        assert loop("sync", server, as_tools(sandbox, [])).text == "ok"
        assert "tools" not in server.requests[0].body
