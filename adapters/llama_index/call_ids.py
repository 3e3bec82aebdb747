"""Which call of an agent runs now: LlamaIndex does not tell a tool."""

from __future__ import annotations

from collections.abc import Callable

from kern_tools.extras import missing
from kern_tools.faults import ConfigError
from kern_tools.reply import member

try:
    from llama_index.core.agent.workflow import ToolCall
except ImportError as error:
    missing("llama-index", error)

__all__ = ["CallIdOf", "step_call_id"]

CallIdOf = Callable[[str], str | None]
"""Given a tool's name, gives the id of the call of it that an agent makes now."""


def step_call_id() -> CallIdOf:
    """Read ids off the event that the running step of a workflow was given.

    Returns:
        A function; it gives None outside of the step in which an agent calls that tool.

    Raises:
        ConfigError: This release of the framework keeps the event to itself.
    """
    try:
        from workflows.runtime.types.results import (  # pyright: ignore[reportMissingTypeStubs]
            StepWorkerStateContextVar as running,
        )
    except ImportError as error:
        raise ConfigError(
            "idempotent=True needs the ids of calls, which this release of"
            " llama-index-workflows does not tell; run pip install -U"
            " llama-index-workflows",
            option="idempotent",
        ) from error

    def call_id(tool: str) -> str | None:
        event: object = member(running.get(None), "event")
        if not isinstance(event, ToolCall) or event.tool_name != tool:
            return None
        return event.tool_id

    return call_id
