"""What telemetry says of a call, as attributes; text that a call brought stands apart.

Source: https://github.com/open-telemetry/semantic-conventions-genai, `execute_tool`
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .faults import SandboxError
from .observing import Asked, Outcome
from .reply import Reply
from .result import ExecutionResult

ERROR_TYPE = "error.type"
CANCELLED = "cancelled"
_CANCELLING = ("CancelledError", "GeneratorExit", "KeyboardInterrupt")


def span_name(asked: Asked) -> str:
    """Name the span of a call; few names, whatever a model writes."""
    return asked.name if asked.describe is None else f"execute_tool {asked.name}"


def tool_attributes(asked: Asked) -> dict[str, Any]:
    """Say which tool was called; nothing of a method of the sandbox."""
    if asked.describe is None:
        return {}
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": asked.name,
        "gen_ai.tool.type": "function",
    }


def asked_attributes(asked: Asked) -> dict[str, Any]:
    """Say what is known of a call before it is made."""
    attributes = {**tool_attributes(asked), "kern_tools.mode": asked.mode}
    if asked.call_id is not None and asked.describe is not None:
        attributes["gen_ai.tool.call.id"] = _encodable(asked.call_id)
    return attributes


def asked_content(asked: Asked) -> dict[str, Any]:
    """Give a call's arguments, and what the model was told of the tool."""
    written = asked.arguments
    if not isinstance(written, str):
        written = json.dumps(written, default=repr, ensure_ascii=False)
    if asked.describe is None:
        return {"kern_tools.arguments": _encodable(written)}
    return {
        "gen_ai.tool.description": _encodable(asked.describe()),
        "gen_ai.tool.call.arguments": _encodable(written),
    }


def outcome_attributes(outcome: Outcome) -> dict[str, Any]:
    """Say what a call came to."""
    if isinstance(outcome, ExecutionResult):
        return _present({"kern_tools.call.id": outcome.call_id, **_ran(outcome)})
    attributes = {
        "kern_tools.error": outcome.error,
        "kern_tools.repeats": outcome.repeats or None,
        "kern_tools.replayed": outcome.replayed or None,
    }
    result = outcome.result
    if result is not None:
        attributes |= _verdict(result) if outcome.replayed else _ran(result)
    return _present(attributes)


def outcome_content(outcome: Outcome) -> dict[str, Any]:
    """Give what a model was told of a call, or what the code wrote."""
    if isinstance(outcome, Reply):
        return {"gen_ai.tool.call.result": _encodable(outcome.text)}
    return {
        "kern_tools.stdout": _encodable(outcome.stdout),
        "kern_tools.stderr": _encodable(outcome.code_stderr),
    }


def error_type(outcome: Outcome) -> str | None:
    """Name what made a call fail: a fault, or that nothing was run.

    Code that fails by itself, and a file that is not there, are what a call found out.
    """
    if outcome.fault_type is not None:
        return str(outcome.fault_type)
    if isinstance(outcome, Reply) and outcome.is_error:
        return outcome.error
    return None


def error_type_of(error: BaseException) -> str:
    """Name what was raised: `cancelled`, the code of an error of ours, or the class."""
    if type(error).__name__ in _CANCELLING:
        return CANCELLED
    return error.code if isinstance(error, SandboxError) else type(error).__qualname__


def phases_s(result: ExecutionResult) -> dict[str, float]:
    """Give the seconds of each phase of a call, as far as they are known."""
    phases_ms = _phases_ms(result)
    return {name: ms / 1000 for name, ms in phases_ms.items() if ms is not None}


def _phases_ms(result: ExecutionResult) -> Mapping[str, int | None]:
    start_ms = result.start_ms
    return {
        "queue": result.queued_ms,
        "start": start_ms,
        "run": result.duration_ms - (start_ms or 0),
    }


def _ran(result: ExecutionResult) -> dict[str, Any]:
    phases_ms = {f"kern_tools.{n}_ms": ms for n, ms in _phases_ms(result).items()}
    told = ("truncated", "state_lost", "state_new", "files_lost")
    return {
        **_verdict(result),
        **phases_ms,
        "kern_tools.warm": result.warm,
        "kern_tools.stdout_bytes": result.stdout_bytes,
        "kern_tools.stderr_bytes": result.stderr_bytes,
        "kern_tools.files": len(result.files) + result.files_omitted,
        "kern_tools.results": len(result.results) + result.results_omitted,
        "kern_tools.attempts": result.attempts if result.attempts > 1 else None,
        **{f"kern_tools.{n}": True if getattr(result, n) else None for n in told},
    }


def _verdict(result: ExecutionResult) -> dict[str, Any]:
    fault = result.fault
    verdict: dict[str, Any] = {
        "process.exit.code": result.exit_code,
        "kern_tools.signal": result.signal,
    }
    if fault is not None:
        verdict |= fault_attributes(result)
        verdict["kern_tools.fault.retryable"] = fault.retryable
        verdict["kern_tools.fault.actor"] = fault.actor
    return verdict


def fault_attributes(result: ExecutionResult) -> dict[str, Any]:
    """Name the fault of a result that has one."""
    assert result.fault is not None
    return _present(
        {
            "kern_tools.fault.type": str(result.fault.type),
            "kern_tools.fault.reason": result.fault.reason,
        }
    )


def _present(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _encodable(text: str) -> str:
    """Replace half a surrogate pair, for which an exporter would drop its batch."""
    return text.encode("utf-8", "replace").decode("utf-8")
