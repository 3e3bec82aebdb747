"""Images of tools, where a model takes them from the user alone.

Source: the `tool` message of Chat Completions,
https://platform.openai.com/docs/api-reference/chat/create, holds text only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from kern_tools.extras import missing

try:
    from langchain_core.messages import (
        AnyMessage,
        BaseMessage,
        HumanMessage,
        ToolMessage,
    )
except ImportError as error:
    missing("langchain", error)

__all__ = ["images_to_user"]

_IMAGES = ("image", "image_url")
_Block = dict[str, Any]


def images_to_user(messages: Sequence[BaseMessage]) -> list[AnyMessage]:
    """Move the images of tool messages to a user message, after all of their turn.

    Give it to the model, not to the state: what is kept stays as the tools said it, and
    the next turn moves the same images again.

    Args:
        messages: A conversation; none of them is changed.

    Returns:
        The same conversation, its tool messages without images.
    """
    moved: list[BaseMessage] = []
    waiting: list[_Block] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            message, images = _parted(message)
            waiting += images
        elif waiting:
            moved.append(HumanMessage(cast("list[str | _Block]", waiting)))
            waiting = []
        moved.append(message)
    if waiting:
        moved.append(HumanMessage(cast("list[str | _Block]", waiting)))
    return cast("list[AnyMessage]", moved)


def _parted(message: ToolMessage) -> tuple[ToolMessage, list[_Block]]:
    content = cast("str | list[str | _Block]", message.content)
    if isinstance(content, str):
        return message, []
    images = [b for b in content if isinstance(b, dict) and b.get("type") in _IMAGES]
    if not images:
        return message, []
    rest = [block for block in content if block not in images]
    label = f"Images of tool call {message.tool_call_id}:"
    text = message.text or "The images are in the user message after this turn."
    plain = all(isinstance(b, str) or b.get("type") == "text" for b in rest)
    kept = message.model_copy(update={"content": text if plain else rest})
    return kept, [{"type": "text", "text": label}, *images]
