"""The end of a loop, as a message."""

from __future__ import annotations

from kern_tools.adapters.langchain.history import messages_of
from kern_tools.extras import missing
from kern_tools.reply import member
from kern_tools.stop import Stop

try:
    from langchain_core.messages import AIMessage
except ImportError as error:
    missing("langchain", error)

__all__ = ["stop_message", "stop_of"]

_KEY = "kern_stop"


def stop_message(stop: Stop) -> AIMessage:
    """Say why a loop ended: in words for people, and beside them for code."""
    return AIMessage(
        stop.message, response_metadata={_KEY: stop.model_dump(mode="json")}
    )


def stop_of(state: object) -> Stop | None:
    """Read why an agent was ended.

    Args:
        state: What the agent returned, its list of messages, or a message.

    Returns:
        The reason with its words, also after a checkpoint; None where the last message
        is something else.
    """
    messages = messages_of(state)
    last = messages[-1] if messages else state
    found = member(member(last, "response_metadata", {}), _KEY)
    return None if found is None else Stop.model_validate(found)
