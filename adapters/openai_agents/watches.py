"""A policy's watches, one for each run, and the end of a run that one brings."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from threading import Lock
from typing import Any, cast

from kern_tools.extras import missing
from kern_tools.policy import FaultPolicy, check_policy
from kern_tools.reply import member
from kern_tools.stop import Stop
from kern_tools.watch import FaultWatch

try:
    import agents
    from agents.agent import ToolsToFinalOutputResult
except ImportError as error:
    missing("openai-agents", error)

__all__ = ["PROVIDER_KEY", "Watches", "end_on_stop", "stop_of", "with_stop"]

PROVIDER_KEY = "kern_tools"
"""Where `provider_data` of a shell call's output has the artifact."""
_STOP = "stop"


class Watches:
    """Finds the watch of each run by what the run has used.

    Each call has a context of its own, a copy of the run's; they share its `usage`,
    and the watch lives as long.

    Args:
        policy: Whose bounds.
    """

    def __init__(self, policy: FaultPolicy) -> None:
        self._policy = check_policy("policy", policy)
        self._watches: dict[int, FaultWatch] = {}  # by identity: usage has no hash
        self._lock = Lock()

    def of(self, context: agents.RunContextWrapper[Any]) -> FaultWatch:
        """Give the watch of a run."""
        key = id(context.usage)
        with self._lock:
            found = self._watches.get(key)
            if found is None:
                found = self._watches[key] = self._policy.start()
                end = weakref.finalize(context.usage, self._watches.pop, key, None)
                end.atexit = False
            return found


def end_on_stop(
    context: agents.RunContextWrapper[Any], results: Sequence[agents.FunctionToolResult]
) -> ToolsToFinalOutputResult:
    """End a run where a policy says so: give it to an agent as `tool_use_behavior`.

        tools = as_tools(sandbox, policy=FaultPolicy(max_repeats=2))
        agent = Agent(name="analyst", tools=tools, tool_use_behavior=end_on_stop)

    All calls of the turn are answered before. The run's final output then says why, for
    people, and `stop_of(run)` for code; an agent with an `output_type` needs a behavior
    of its own, which may look at `stop_of(result.output)`.

    Args:
        context: The run's.
        results: What the tools of the turn gave, those of others too.
    """
    stop = stop_of([result.output for result in results])
    if stop is None:
        return ToolsToFinalOutputResult(is_final_output=False)
    return ToolsToFinalOutputResult(is_final_output=True, final_output=stop.message)


def stop_of(run: object) -> Stop | None:
    """Read why a policy ended a run.

    Args:
        run: A run's result, its items or one of them, an item's `custom_data`, what a
            tool of ours gave, or any other object.

    Returns:
        The reason with its words, also after a `RunState` was stored; None where there
        is none.
    """
    items = member(run, "new_items", run)
    own = _stop_of(run)
    if own is not None or not isinstance(items, list):
        return own
    found = map(_stop_of, cast("list[object]", items))
    return next((stop for stop in found if stop is not None), None)


def _stop_of(item: object) -> Stop | None:
    provided = member(member(item, "raw_item"), "provider_data")
    data = member(item, "custom_data") or member(provided, PROVIDER_KEY) or item
    stop = member(data, _STOP)
    if stop is None or isinstance(stop, Stop):
        return stop
    return Stop.model_validate(stop) if isinstance(stop, dict) else None


def with_stop(artifact: dict[str, Any], stop: Stop | None) -> dict[str, Any]:
    """Put the end of a run beside the result that brought it."""
    if stop is None:
        return artifact
    return {**artifact, _STOP: stop.model_dump(mode="json")}
