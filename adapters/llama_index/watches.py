"""A policy's watches, one for each run of a workflow."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from kern_tools.extras import missing
from kern_tools.policy import FaultPolicy, check_policy
from kern_tools.stop import Stop
from kern_tools.watch import FaultWatch

try:
    from llama_index.core.workflow import Context
except ImportError as error:
    missing("llama-index", error)

__all__ = ["Watches", "stop_in"]


class Watches:
    """Finds the watch of each run by its context.

    Each run of a `Context` has a store of its own. The watch lives as long: it is not
    serialized, and a run that goes on from a stored context begins to count anew.

    Args:
        policy: Whose bounds.
    """

    def __init__(self, policy: FaultPolicy) -> None:
        self._policy = check_policy("policy", policy)
        self._watches: WeakKeyDictionary[Any, FaultWatch] = WeakKeyDictionary()
        self._lock = Lock()

    def of(self, context: Context[Any] | None) -> FaultWatch:
        """Give the watch of a run; a new one for a call that is in none."""
        if context is None:
            return self._policy.start()
        with self._lock:
            found = self._watches.get(context.store)
            if found is None:
                found = self._watches[context.store] = self._policy.start()
            return found

    def stop(self, context: Context[Any]) -> Stop | None:
        """Say why a run has to end, or None."""
        with self._lock:
            found = self._watches.get(context.store)
        return None if found is None else found.stopped

    def forget(self, context: Context[Any]) -> None:
        """Begin anew in this context."""
        with self._lock:
            self._watches.pop(context.store, None)


def stop_in(context: Any, tools: Sequence[object]) -> Stop | None:
    """Say why a run has to end, by what its tools have counted.

    Args:
        context: The run's.
        tools: An agent's tools, ours among them; the run begins anew for those that
            give a reason.
    """
    for tool in tools:
        watches = _watches_of(tool)
        stop = None if watches is None else watches.stop(context)
        if watches is not None and stop is not None:
            watches.forget(context)
            return stop
    return None


def _watches_of(tool: object) -> Watches | None:
    """Take them from a tool of ours, or from the function that another one wraps."""
    holder = tool if hasattr(tool, "watches") else getattr(tool, "real_fn", None)
    found = getattr(holder, "watches", None)
    return found if isinstance(found, Watches) else None
