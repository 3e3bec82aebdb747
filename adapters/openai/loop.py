"""Agents' loops over the client of the OpenAI SDK, ready to use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kern_tools.adapters.openai.drive import AsyncOnFault, OnFault, adrive, drive
from kern_tools.adapters.openai.settings import (
    Api,
    Other,
    Settings,
    refuse_async,
    refuse_client,
)
from kern_tools.adapters.openai.tools import OpenAITools
from kern_tools.loop_events import OnEvent
from kern_tools.loop_result import LoopResult
from kern_tools.policy import FaultPolicy

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

_POLICY = FaultPolicy()


def run_loop(
    client: OpenAI,
    tools: OpenAITools,
    history: str | list[Any],
    *,
    model: str,
    api: Api = "responses",
    instructions: str | None = None,
    stream: bool = False,
    free_text: bool = False,
    shell: bool = False,
    others: Sequence[Other] = (),
    chain: bool = False,
    previous_response_id: str | None = None,
    max_turns: int = 20,
    max_total_tokens: int | None = None,
    time_limit_s: float | None = None,
    policy: FaultPolicy | None = _POLICY,
    on_event: OnEvent | None = None,
    on_fault: OnFault | None = None,
    conversation: object = None,
    **request: Any,
) -> LoopResult:
    """Let a model work with tools until it has an answer, or a limit is met.

    Each turn asks the model, answers all that it calls, and adds both to `history`. A
    list that is given is extended in place and is valid whenever it can be seen: after
    an error of the client, Ctrl-C or a cancellation, every call in it has exactly one
    answer, and the same call of this function goes on from there.

    Args:
        client: The SDK's client, of version 2 or 3; with `base_url`, of any server.
        tools: From `as_tools`.
        history: What the user says, or the conversation so far, as the API has it.
        model: The model's name.
        api: `responses`, or `chat` for Chat Completions.
        instructions: The system prompt, which `history` does not have.
        stream: Have the answers streamed: `on_event` is told the words as they come.
        free_text: Let the model write code as text, with no JSON around it.
        shell: Offer the shell tool of Responses; its commands run in the sandbox.
        others: Tools of your own: functions with annotations, `OtherTool`s, or
            definitions alone, whose calls the server answers or hands back to you.
        chain: With `responses`, let the server keep the conversation, and send it only
            what is new.
        previous_response_id: The same, after a response that the server has; `history`
            is then what comes after it.
        max_turns: How often the model is asked.
        max_total_tokens: Tokens, read and written in all turns, after which it is not
            asked again.
        time_limit_s: Seconds after which it is not asked again; boxes that still run
            are ended. Retries of the client may take longer, and so may a tool of your
            own, which runs on this thread.
        policy: What is done about failed calls, and when they end the loop; None for
            nothing and never.
        on_event: Told what happens, see `kern_tools.loop_events`.
        on_fault: Called with each reply that has a fault; returns a note for the model.
        conversation: Its id, by which a pool finds its sandbox.
        **request: More parameters of the requests, such as `temperature`.

    Returns:
        The answer, why it ended, and the history to go on with.

    Raises:
        ConfigError: An argument cannot be used; `option` names it.
        SandboxError: The sandbox is not open.
        openai.OpenAIError: What the client raises goes on as it is.
    """
    settings = Settings(
        model=model,
        api=api,
        instructions=instructions,
        stream=stream,
        free_text=free_text,
        shell=shell,
        others=others,
        chain=chain,
        previous_response_id=previous_response_id,
        max_turns=max_turns,
        max_total_tokens=max_total_tokens,
        time_limit_s=time_limit_s,
        policy=policy,
        on_event=on_event,
        on_fault=on_fault,
        conversation=conversation,
        request=request,
    )
    refuse_client(client, api, "AsyncOpenAI", "arun_loop")
    refuse_async(others)
    steps = settings.steps(tools, history)
    return drive(steps, client, on_fault)


async def arun_loop(
    client: AsyncOpenAI,
    tools: OpenAITools,
    history: str | list[Any],
    *,
    model: str,
    api: Api = "responses",
    instructions: str | None = None,
    stream: bool = False,
    free_text: bool = False,
    shell: bool = False,
    others: Sequence[Other] = (),
    chain: bool = False,
    previous_response_id: str | None = None,
    max_turns: int = 20,
    max_total_tokens: int | None = None,
    time_limit_s: float | None = None,
    policy: FaultPolicy | None = _POLICY,
    on_event: OnEvent | None = None,
    on_fault: AsyncOnFault | None = None,
    conversation: object = None,
    **request: Any,
) -> LoopResult:
    """Do as `run_loop`, natively async.

    Tools of your own that are not async run in threads, beside the sandbox's calls.
    `on_event` is called in this event loop; `on_fault` may be async. The time limit
    holds to the moment. Cancelling ends the boxes of all calls, and answers what was
    called, before `CancelledError` goes on.
    """
    settings = Settings(
        model=model,
        api=api,
        instructions=instructions,
        stream=stream,
        free_text=free_text,
        shell=shell,
        others=others,
        chain=chain,
        previous_response_id=previous_response_id,
        max_turns=max_turns,
        max_total_tokens=max_total_tokens,
        time_limit_s=time_limit_s,
        policy=policy,
        on_event=on_event,
        on_fault=on_fault,
        conversation=conversation,
        request=request,
    )
    refuse_client(client, api, "OpenAI", "run_loop")
    steps = settings.steps(tools, history)
    return await adrive(steps, client, on_fault)
