"""The calls of our tools in a LangGraph state, as a policy reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from kern_tools.extras import missing
from kern_tools.ledger import Outcome, call_key
from kern_tools.policy import FaultPolicy
from kern_tools.reply import member, result_of_artifact
from kern_tools.watch import FaultWatch

try:
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        ToolCall,
        ToolMessage,
    )
except ImportError as error:
    missing("langchain", error)

__all__ = ["answers_of", "messages_of", "watch_of"]


def messages_of(state: object) -> Sequence[BaseMessage]:
    """Take the messages out of a state: a list, a mapping or an object with them."""
    found = member(state, "messages", state)
    return cast("Sequence[BaseMessage]", found) if isinstance(found, Sequence) else ()


def answers_of(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Give the answers to the last turn of the model, in their order."""
    answers: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            break
        if isinstance(message, ToolMessage):
            answers.append(message)
    return answers[::-1]


def watch_of(policy: FaultPolicy, messages: Sequence[BaseMessage]) -> FaultWatch:
    """Make the watch of a loop from what it did so far.

    Nothing is kept beside the messages, so that a checkpoint has all of it.

    Args:
        policy: Whose bounds.
        messages: A conversation; the loop begins after the last message of the user.
    """
    watch = policy.start()
    watch.replay(_turns(_since_asked(messages)))
    return watch


def _since_asked(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    asked = (
        index
        for index in range(len(messages) - 1, -1, -1)
        if isinstance(messages[index], HumanMessage)
    )
    return messages[next(asked, -1) + 1 :]


def _turns(messages: Sequence[BaseMessage]) -> Iterator[list[Outcome]]:
    calls: dict[str, ToolCall] = {}
    turn: list[Outcome] = []
    for message in messages:
        if isinstance(message, AIMessage):
            yield turn
            calls = {call["id"] or "": call for call in message.tool_calls}
            turn = []
        elif isinstance(message, ToolMessage) and message.tool_call_id in calls:
            turn += _outcomes(calls[message.tool_call_id], message.artifact)
    yield turn


def _outcomes(call: ToolCall, artifact: object) -> list[Outcome]:
    """Give the outcome of a call, where the tool was ours."""
    result = result_of_artifact(artifact)
    if result is None and not _is_plain(artifact):
        return []
    error = None if result is not None else member(artifact, "error")
    key = call_key(call["name"], call["args"])
    return [Outcome(call["name"], key, result, error)]


def _is_plain(artifact: object) -> bool:
    """Recognise what `Reply.artifact` is where nothing ran."""
    if not isinstance(artifact, Mapping):
        return False
    return {"fault", "error", "tool"} <= cast("Mapping[str, Any]", artifact).keys()
