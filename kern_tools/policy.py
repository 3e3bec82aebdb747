"""What to do about failed calls, in bounds that the developer sets, and when to stop.

    watch = FaultPolicy(max_repeats=2).start()
    reply = watch.call(tool, arguments)
    if watch.stopped is not None:
        print(watch.stopped.message)

A `FaultPolicy` holds for every conversation; the `FaultWatch` that it starts counts for
one loop, from what a user asked to the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from .options import Check, Options, number, optional, refusal, whole

if TYPE_CHECKING:
    from .watch import FaultWatch

_COUNTED = 1_000_000


@dataclass(frozen=True, kw_only=True)
class FaultPolicy(Options):
    """What to do about failed calls; constructing one checks it.

    Only a call of which nothing ran is made again unasked. One that met a limit or was
    blocked never is: the same code would end the same way.

    Raises:
        ConfigError: An option is unknown, or cannot be used; `option` names it.
    """

    retries: int = 1
    """Further attempts at a call whose fault is `retryable`: nothing of it ran."""
    retry_pause_s: float = 1.0
    """Seconds before each of them."""
    max_repeats: int | None = 3
    """How often a call that failed may be sent again unchanged, and fail, in a row;
    then the loop ends. None is no bound."""
    max_host_failures: int | None = 2
    """Calls in a row that end with a fault of the operator's; then the circuit opens
    and the loop ends. None is no bound."""
    timeout_factor: float = 2.0
    """How much more time a call gets that timed out and is sent again unchanged, up to
    the sandbox's own `timeout_max_s`; 1 is no more."""

    def __post_init__(self) -> None:
        for option in fields(self):
            check = _CHECKS[option.name]
            self._keep(option.name, check(option.name, getattr(self, option.name)))

    def start(self, state: Mapping[str, Any] | None = None) -> FaultWatch:
        """Begin to watch one loop.

        Args:
            state: What `FaultWatch.dump` gave, to go on from there.

        Returns:
            A new watch, safe to share between threads.

        Raises:
            ValueError: `state` is something else.
        """
        from .watch import FaultWatch

        return FaultWatch(self, state)


def check_policy(option: str, value: object) -> FaultPolicy:
    """Take a policy; a check as in `options`.

    Raises:
        ConfigError: It is something else.
    """
    if not isinstance(value, FaultPolicy):
        remedy = "give FaultPolicy(...), or None for no policy"
        raise refusal(option, value, "is no FaultPolicy", remedy)
    return value


_CHECKS: Mapping[str, Check] = {
    "retries": whole(0, 10, "attempts"),
    "retry_pause_s": number(0, 600, "seconds"),
    "max_repeats": optional(whole(1, _COUNTED, "repeats")),
    "max_host_failures": optional(whole(1, _COUNTED, "calls")),
    "timeout_factor": number(1, 100, "factor"),
}
