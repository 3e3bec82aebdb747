"""What a LlamaIndex agent streams, as the events that a transcript shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from kern_tools.adapters.llama_index.signals import KernOutput
from kern_tools.events import OutputEvent
from kern_tools.extras import missing
from kern_tools.loop_events import LoopEvent, TextPiece, TurnStarted
from kern_tools.reply import ImagePart, Part, TextPart
from kern_tools.retold import TURN, call_finished, call_started

try:
    from llama_index.core.agent.workflow import AgentOutput, ToolCall, ToolCallResult
    from llama_index.core.base.llms.types import ImageBlock, TextBlock
except ImportError as error:
    missing("llama-index", error)

__all__ = ["events_of"]


def events_of(part: object) -> Iterator[LoopEvent]:
    """Read events off what an agent streams.

        async for event in handler.stream_events():
            transcript.add(*events_of(event))

    Args:
        part: One event of the stream, or a list of them.

    Yields:
        The model's turns, its calls, what code writes, and what came of each call; what
        is none of these is passed over.
    """
    if isinstance(part, AgentOutput):
        yield TurnStarted(turn=TURN)
        if part.response.content:
            yield TextPiece(turn=TURN, text=part.response.content)
    elif isinstance(part, ToolCallResult):
        yield _finished(part)
    elif isinstance(part, ToolCall):
        written = cast("dict[str, Any]", part.tool_kwargs)  # pyright: ignore[reportUnknownMemberType]
        yield call_started(part.tool_name, part.tool_id, written)
    elif isinstance(part, KernOutput):
        yield OutputEvent(**part.model_dump())
    elif isinstance(part, list):
        for each in cast("Iterable[object]", part):
            yield from events_of(each)


def _finished(event: ToolCallResult) -> LoopEvent:
    output = event.tool_output
    return call_finished(
        event.tool_name,
        event.tool_id,
        _parts(output.blocks),
        output.raw_output,
        is_error=output.is_error,
    )


def _parts(blocks: Iterable[object]) -> Iterator[Part]:
    for block in blocks:
        if isinstance(block, TextBlock):
            yield TextPart(block.text)
        elif isinstance(block, ImageBlock):
            data = block.resolve_image().read()
            yield ImagePart(block.image_mimetype or "image/png", data)
