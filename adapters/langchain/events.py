"""What a LangChain agent streams, as the events that a transcript shows."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any, cast

from kern_tools.events import OutputEvent
from kern_tools.extras import missing
from kern_tools.loop_events import LoopEvent, TextPiece, TurnStarted
from kern_tools.reply import ImagePart, Part, TextPart
from kern_tools.retold import TURN, call_finished, call_started

try:
    from langchain_core.messages import AIMessage, ToolMessage
except ImportError as error:
    missing("langchain", error)

__all__ = ["events_of"]

_OUTPUT = "kern_tools"
"""The key of what `KernTool` writes to a graph's custom stream."""


def events_of(part: object) -> Iterator[LoopEvent]:
    """Read events off what an agent streams, or off the messages it left.

        for part in agent.stream(question, stream_mode=["updates", "custom"]):
            transcript.add(*events_of(part))

    Args:
        part: One part of a stream of the modes `updates` and `custom`, with or without
            the mode before it; or messages, or a state that holds them, all at once.

    Yields:
        The model's turns, its calls, what code writes, and what came of each call; what
        is none of these is passed over.
    """
    if isinstance(part, AIMessage):
        yield from _turn(part)
    elif isinstance(part, ToolMessage):
        yield _finished(part)
    else:
        yield from _inside(part)


def _inside(part: object) -> Iterator[LoopEvent]:
    held: Iterable[object] = ()
    if isinstance(part, tuple):  # what is streamed comes after its mode and its graph
        held = cast("tuple[object, ...]", part)[-1:]
    elif isinstance(part, list):
        held = cast("list[object]", part)
    elif isinstance(part, dict):
        update = cast("dict[str, Any]", part)
        output = update.get(_OUTPUT)
        if isinstance(output, dict):
            yield OutputEvent(**cast("dict[str, Any]", output))
        held = [update["messages"]] if "messages" in update else update.values()
    for each in held:
        yield from events_of(each)


def _turn(message: AIMessage) -> Iterator[LoopEvent]:
    yield TurnStarted(turn=TURN)
    if message.text:
        yield TextPiece(turn=TURN, text=str(message.text))
    for call in (*message.tool_calls, *message.invalid_tool_calls):
        yield call_started(call["name"], call["id"], call["args"])


def _finished(message: ToolMessage) -> LoopEvent:
    return call_finished(
        message.name,
        message.tool_call_id,
        _parts(message),
        message.artifact,
        is_error=message.status == "error",
    )


def _parts(message: ToolMessage) -> Iterator[Part]:
    yield TextPart(str(message.text))
    for block in cast("list[str | dict[str, Any]]", message.content):
        if isinstance(block, dict) and block.get("type") == "image":
            yield ImagePart(block["mime_type"], b64decode(block["base64"]))
