"""What one run of the bench leaves behind, as kept in `results/`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

from pydantic import TypeAdapter

KEPT = Path(__file__).parent / "results" / "latest.json"
"""The record that README.md shows."""

Unit = Literal["x", "ms", ""]
Place = Literal["median", "p95", "p99"]


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of some values, and what 95 and 99 % of them are at most."""

    median: float
    p95: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float], *, at_least: bool = False) -> Self:
        """Take it of one value or more.

        Args:
            values: In any order.
            at_least: More is better: 95 and 99 % of them are at least the two.
        """
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        sign = -1 if at_least else 1
        signed = [sign * value for value in values]
        cuts = statistics.quantiles(signed, n=100, method="inclusive")
        found = (statistics.median(signed), cuts[94], cuts[98])
        return cls(*(round(sign * value, 4) for value in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRow:
    """One figure, taken round by round.

    Attributes:
        bar: What it may be at most, or None.
        goal: What it is to become, or None.
        at_least: Bar and goal are what it must be at least.
        held_at: Which value of the spread is held against them.
        rival: It is a ratio to somebody else's time, not to what is allowed.
    """

    name: str
    unit: Unit
    bar: float | None
    spread: Spread
    goal: float | None = None
    at_least: bool = False
    held_at: Place = "median"
    rival: bool = True

    @property
    def misses_bar(self) -> bool:
        """Whether there is a bar that it misses."""
        return self._misses(self.bar)

    @property
    def misses_goal(self) -> bool:
        """Whether there is a goal that it does not reach."""
        return self._misses(self.goal)

    def _misses(self, limit: float | None) -> bool:
        if limit is None:
            return False
        value: float = getattr(self.spread, self.held_at)
        return value < limit if self.at_least else value > limit


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestantRow:
    """One contestant's times, in milliseconds, and the samples behind them."""

    name: str
    wall_ms: Spread
    cpu_ms: Spread
    wall_samples_ms: list[float]
    cpu_samples_ms: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One workload: how it was measured, and what came out."""

    name: str
    about: str
    rounds: int
    figures: list[FigureRow]
    contestants: list[ContestantRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One run of the bench.

    Attributes:
        machine: What it ran on, by name of the fact.
        load: Processes ready to run, on average over a minute, before and after.
        again: Workloads that were measured again later, and stand in their place.
    """

    began: str
    took_s: float
    machine: dict[str, str]
    load: tuple[float, float]
    outcomes: list[Outcome]
    again: tuple[str, ...] = ()

    def with_again(self, later: Record) -> Record:
        """Take what was measured later in place of what was measured here."""
        new = {each.name: each for each in later.outcomes}
        outcomes = [new.get(each.name, each) for each in self.outcomes]
        return replace(self, outcomes=outcomes, again=(*self.again, *new))

    def write(self, path: Path) -> None:
        """Keep it as JSON."""
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(_RECORDS.dump_json(self) + b"\n")

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read one that was kept."""
        return _RECORDS.validate_json(path.read_bytes())


_RECORDS = TypeAdapter(Record)
