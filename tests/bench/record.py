"""What one run of the bench leaves behind, as kept in `results/`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import TypeAdapter

KEPT = Path(__file__).parent / "results" / "latest.json"
"""The record that README.md shows."""

Unit = Literal["x", "ms", ""]


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of some values, and their 95th percentile."""

    median: float
    p95: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Take it of one value or more."""
        if len(values) == 1:
            return cls(values[0], values[0])
        twentieths = statistics.quantiles(values, n=20, method="inclusive")
        return cls(round(statistics.median(values), 4), round(twentieths[-1], 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRow:
    """One figure, taken round by round.

    Attributes:
        bar: What its median may be at most, or None.
    """

    name: str
    unit: Unit
    bar: float | None
    spread: Spread

    @property
    def is_over(self) -> bool:
        """Whether the bar is missed."""
        return self.bar is not None and self.spread.median > self.bar


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
    """

    began: str
    took_s: float
    machine: dict[str, str]
    load: tuple[float, float]
    outcomes: list[Outcome]

    def write(self, path: Path) -> None:
        """Keep it as JSON."""
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(_RECORDS.dump_json(self) + b"\n")

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read one that was kept."""
        return _RECORDS.validate_json(path.read_bytes())


_RECORDS = TypeAdapter(Record)
