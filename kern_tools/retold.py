"""Events of a framework's own loop, read back from what it keeps of each call.

No framework numbers the turns of its model, so they are all the turn 0: the one that
goes on. A transcript counts them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from .jsontext import is_object
from .loop_events import CallFinished, CallStarted
from .reply import Part, Reply, result_of_artifact

TURN = 0
OTHER_ERROR = "error"
"""The error of a reply whose tool is not ours, and which its framework calls one."""


def call_started(
    tool: str | None, call_id: str | None, arguments: object
) -> CallStarted:
    """Tell of a call that a model made.

    Args:
        tool: The name that it wrote.
        call_id: The framework's id of the call.
        arguments: As the framework has them: read already, or text that is no JSON.
    """
    return CallStarted(
        turn=TURN,
        call_id=call_id or "",
        tool=tool or "",
        arguments=_written(arguments),
    )


def call_finished(
    tool: str | None,
    call_id: str | None,
    parts: Iterable[Part],
    artifact: object,
    *,
    is_error: bool,
) -> CallFinished:
    """Tell of what came of a call.

    Args:
        tool: The name that the model wrote.
        call_id: The framework's id of the call.
        parts: What the model reads.
        artifact: What code finds beside it: that of a tool of ours, or anything.
        is_error: What the framework's status says.
    """
    result = result_of_artifact(artifact)
    kept: Mapping[str, Any] = artifact if is_object(artifact) else {}
    error = kept.get("error")
    if result is None and error is None and is_error:
        error = OTHER_ERROR
    reply = Reply(
        name=tool or "",
        parts=tuple(parts),
        result=result,
        error=error,
        call_id=call_id,
        repeats=kept.get("repeats", 0),
    )
    return CallFinished(
        turn=TURN,
        call_id=call_id or "",
        tool=reply.name,
        reply=reply,
        duration_ms=0 if result is None else result.duration_ms,
    )


def _written(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    return json.dumps(arguments, default=repr)
