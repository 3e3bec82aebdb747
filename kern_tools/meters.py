"""The figures of all calls: how many, how they ended, how long they took."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from .observing import Asked, Outcome
from .result import ExecutionResult
from .span_attributes import (
    ERROR_TYPE,
    fault_attributes,
    phases_s,
    tool_attributes,
)

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

_MODE = "kern_tools.mode"
_BOUNDARIES_S = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56),
    *(5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68),
)
"""Those of `gen_ai.client.operation.duration`, and more at both ends: a warm box takes
a call within milliseconds."""


class Meters:
    """The instruments of one provider.

    Args:
        meter: Makes them.
        pools: Whose open sandboxes are counted; kept by nobody here.
    """

    def __init__(self, meter: Meter, pools: WeakSet[Any]) -> None:
        self.pools = pools
        self._tool_duration = meter.create_histogram(
            "gen_ai.execute_tool.duration",
            "s",
            "The duration of a tool call.",
            explicit_bucket_boundaries_advisory=_BOUNDARIES_S,
        )
        self._phase_duration = meter.create_histogram(
            "kern_tools.phase.duration",
            "s",
            "The time of a run in the queue, until its box is ready, and in the box.",
            explicit_bucket_boundaries_advisory=_BOUNDARIES_S,
        )
        self._calls = meter.create_counter(
            "kern_tools.calls", "{call}", "Calls of tools, and of sandboxes' methods."
        )
        self._faults = meter.create_counter(
            "kern_tools.faults", "{fault}", "Runs that the sandbox ended, or not began."
        )
        self._warm_hits = meter.create_counter(
            "kern_tools.warm_hits", "{call}", "Runs whose box was ready before them."
        )
        meter.create_observable_up_down_counter(
            "kern_tools.pool.sandboxes",
            [self._count_sandboxes],
            "{sandbox}",
            "Sandboxes that the pools hold.",
        )

    def record(
        self,
        asked: Asked,
        outcome: Outcome | None,
        error: str | None,
        took_s: float,
        context: Context,
    ) -> None:
        """Count one call that has ended.

        Args:
            asked: What it was.
            outcome: What it came to; None where something was raised.
            error: The type of its error, or None.
            took_s: How long it took.
            context: The one of its span.
        """
        tool = tool_attributes(asked)
        failed = {} if error is None else {ERROR_TYPE: error}
        if tool:
            self._tool_duration.record(took_s, tool | failed, context)
        named = {"gen_ai.tool.name": asked.name} if tool else {}
        mode = {_MODE: asked.mode}
        self._calls.add(1, named | mode | failed, context)
        result = _result_of(outcome)
        if result is not None:
            self._record_run(result, mode, context)

    def _record_run(
        self, result: ExecutionResult, mode: dict[str, str], context: Context
    ) -> None:
        if result.fault is not None:
            self._faults.add(1, mode | fault_attributes(result), context)
        if result.warm is None:
            return  # nothing came as far as a box
        if result.warm:
            self._warm_hits.add(1, mode, context)
        for phase, took_s in phases_s(result).items():
            attributes = {**mode, "kern_tools.phase": phase}
            self._phase_duration.record(took_s, attributes, context)

    def _count_sandboxes(self, options: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation

        pools = list(self.pools)
        return [Observation(sum(map(len, pools)))] if pools else []


def _result_of(outcome: Outcome | None) -> ExecutionResult | None:
    """Give the run behind a call, unless it was counted when it ran."""
    if outcome is None or isinstance(outcome, ExecutionResult):
        return outcome
    return None if outcome.replayed else outcome.result
