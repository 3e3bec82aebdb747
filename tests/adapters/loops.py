"""What the tests of the OpenAI loops share: one way to run them, and their servers."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, Literal

from openai import AsyncOpenAI, DefaultAsyncHttpxClient, DefaultHttpxClient, OpenAI

from kern_tools.adapters.openai import LoopResult, OpenAITools, arun_loop, run_loop
from kern_tools.loop_events import LoopEvent
from kern_tools.scripted import ScriptedCall, ScriptedServer, Step

from .request_checks import assert_requests

Way = Literal["sync", "async"]

WAYS: tuple[Way, ...] = ("sync", "async")
APIS = ("responses", "chat")


@contextmanager
def serving(*script: Step) -> Generator[ScriptedServer]:
    """Serve a script; in the end, every request has to be one that the API takes."""
    with ScriptedServer(script) as server:
        yield server
    assert_requests(server)


def client(server: ScriptedServer, retries: int = 0) -> OpenAI:
    """The real client, pointed at the scripted server."""
    # Reading the certificates of the host would take longer than most loops here.
    http = DefaultHttpxClient(verify=False)
    return OpenAI(
        base_url=server.url, api_key="none", max_retries=retries, http_client=http
    )


def aclient(server: ScriptedServer, retries: int = 0) -> AsyncOpenAI:
    """The real async client, pointed at the scripted server."""
    http = DefaultAsyncHttpxClient(verify=False)
    return AsyncOpenAI(
        base_url=server.url, api_key="none", max_retries=retries, http_client=http
    )


def loop(
    way: Way,
    server: ScriptedServer,
    tools: OpenAITools,
    history: str | list[Any] = "go",
    retries: int = 0,
    **options: Any,
) -> LoopResult:
    """Run a loop to its end, blocking or in an event loop of its own."""
    if way == "sync":
        with client(server, retries) as api:
            return run_loop(api, tools, history, model="scripted", **options)

    async def run() -> LoopResult:
        async with aclient(server, retries) as api:
            return await arun_loop(api, tools, history, model="scripted", **options)

    return asyncio.run(run())


def code(source: str, call_id: str | None = None, **options: Any) -> ScriptedCall:
    """A call of `run_code`."""
    return ScriptedCall("run_code", {"code": source, **options}, call_id)


def answers_in(history: Iterable[Any]) -> dict[str, Any]:
    """Find what each call of a history was answered with, each once."""
    found: dict[str, Any] = {}
    for item in history:
        call_id = item.get("tool_call_id")
        if str(item.get("type")).endswith("_call_output"):
            call_id = item["call_id"]
        if call_id is not None:
            assert call_id not in found
            found[call_id] = item.get("output", item.get("content"))
    return found


def calls_in(history: Iterable[Any]) -> list[str]:
    """Find the ids of the calls of a history, in order."""
    found: list[str] = []
    for item in history:
        found += [call["id"] for call in item.get("tool_calls", ())]
        if str(item.get("type")).endswith("_call"):
            found.append(item["call_id"])
    return found


def names(events: Iterable[LoopEvent]) -> list[str]:
    """Give the kinds of events, in order."""
    return [type(event).__name__ for event in events]
