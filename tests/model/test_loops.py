"""A real small model drives each loop through the real clients, offline.

It proves the plumbing, which a script cannot: unscripted words, a tool chosen by its
description, code nobody has read. It says nothing of what larger models make of it.
"""

# The frameworks leave type parameters of their own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_openai import ChatOpenAI
from openai import OpenAI
from pydantic import SecretStr

from kern_tools import Sandbox
from kern_tools.adapters import langchain as for_langchain
from kern_tools.adapters.openai import as_tools, run_loop
from kern_tools.loop_events import CallFinished, CallStarted, LoopEvent

from .judging import MAX_TOKENS, MAX_TURNS, QUESTION, TOOL, judged

# Many seconds for each turn on a busy machine, and 1 GB to fetch before the first.
pytestmark = [pytest.mark.model, pytest.mark.timeout(3600)]

MODES = [(api, stream) for api in ("chat", "responses") for stream in (False, True)]
each_mode = pytest.mark.parametrize(
    ("api", "stream"), MODES, ids=lambda value: str(value)
)


@pytest.fixture
def client(model_url: str) -> Iterator[OpenAI]:
    """The real client, pointed at the real model."""
    with OpenAI(base_url=model_url, api_key="none", timeout=1800) as client:
        yield client


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Where code runs that nobody has read."""
    with Sandbox() as sandbox:
        yield sandbox


@each_mode
def test_run_loop(
    client: OpenAI, sandbox: Sandbox, told: list[str], api: Any, stream: bool
) -> None:
    """The loop of the OpenAI adapter, whichever way of the API."""
    tools = as_tools(sandbox, TOOL, strict=False)
    written: dict[str, str] = {}
    limit = {"chat": "max_tokens", "responses": "max_output_tokens"}[api]
    request: dict[str, Any] = {"temperature": 0, limit: MAX_TOKENS}

    def note(event: LoopEvent) -> None:
        if isinstance(event, CallStarted):
            written[event.call_id] = event.arguments
        if isinstance(event, CallFinished):
            seen.calls.append((written[event.call_id], event.reply.result))

    with judged(f"run_loop, {api}, stream={stream}", sandbox, told) as seen:
        result = run_loop(
            client,
            tools,
            QUESTION,
            model="local",
            api=api,
            stream=stream,
            max_turns=MAX_TURNS,
            on_event=note,
            **request,
        )
        seen.turns, seen.text = result.turns, f"{result.reason}: {result.text}"


def test_a_loop_of_ones_own(client: OpenAI, sandbox: Sandbox, told: list[str]) -> None:
    """As the README writes it, around `answer`."""
    tools = as_tools(sandbox, TOOL, strict=False)
    history: list[Any] = [{"role": "user", "content": QUESTION}]
    request: dict[str, Any] = {"model": "local", "messages": history}
    request.update(tools=tools.chat, temperature=0, max_tokens=MAX_TOKENS)
    with judged("answer, chat", sandbox, told) as seen:
        for seen.turns in range(1, MAX_TURNS + 1):
            completion = client.chat.completions.create(**request)
            message = completion.choices[0].message
            answers = tools.answer(completion)
            history += [message.model_dump(exclude_none=True), *answers.items]
            for call, reply in zip(message.tool_calls or (), answers, strict=True):
                function = call.model_dump()["function"]
                seen.calls.append((function["arguments"], reply.result))
            seen.text = message.content or ""
            if not answers.items:
                break


@each_mode
def test_langchain(
    model_url: str, sandbox: Sandbox, told: list[str], api: str, stream: bool
) -> None:
    """An agent of LangChain."""
    model = ChatOpenAI(
        base_url=model_url,
        api_key=SecretStr("none"),
        model="local",
        temperature=0,
        max_tokens=MAX_TOKENS,  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        timeout=1800,
        streaming=stream,
        use_responses_api=api == "responses",
    )
    limit: Any = ModelCallLimitMiddleware(run_limit=MAX_TURNS)
    tools = list(for_langchain.as_tools(sandbox, TOOL))
    agent: Any = create_agent(model, tools, middleware=[limit])
    asked: Any = {"messages": [("user", QUESTION)]}
    with judged(f"LangChain, {api}, stream={stream}", sandbox, told) as seen:
        state = agent.invoke(asked)
        written: dict[Any, Any] = {}
        for message in state["messages"]:
            if isinstance(message, AIMessage):
                seen.turns = seen.turns + bool(message.response_metadata)
                seen.text = str(message.text)
                written |= {call["id"]: call["args"] for call in message.tool_calls}
            if isinstance(message, ToolMessage):
                result = for_langchain.result_of(message)
                seen.calls.append((written[message.tool_call_id], result))


QUESTIONS = (
    QUESTION,
    "What is the sum of the squares of the integers from 1 to 100?",
    "What is the 50th Fibonacci number?",
    "How many letters r are in 'strawberry raspberry'?",
)


@pytest.mark.xfail(reason="it imitates the replies that the prompt speaks of")
def test_the_system_prompt_makes_it_call(
    client: OpenAI, sandbox: Sandbox, told: list[str]
) -> None:
    """Told about the sandbox, it runs code, and does not write the reply itself."""
    tools = as_tools(sandbox, TOOL, strict=False)
    system = {"role": "system", "content": sandbox.system_prompt(TOOL)}
    request: dict[str, Any] = {"model": "local", "tools": tools.chat, "temperature": 0}
    called: list[bool] = []
    for question in QUESTIONS:
        history: Any = [system, {"role": "user", "content": question}]
        completion = client.chat.completions.create(
            messages=history, max_tokens=MAX_TOKENS, **request
        )
        called.append(bool(completion.choices[0].message.tool_calls))
    told.append(f"the system prompt: calls for {sum(called)} of {len(called)}")
    assert all(called)
