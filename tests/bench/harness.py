"""Contestants measured in turns, and compared round by round.

`pytest-benchmark` and `pyperf` run all rounds of one contestant before the next, so a
machine that slows down meanwhile shows as a difference between contestants. Here each
round has one sample of each, a ratio is taken within a round, and the median of the
ratios is what counts. A contestant finds in the caches what the one before it left
there, so the order is drawn for each round, the same ones in each run.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .record import ContestantRow, FigureRow, Outcome, Place, Spread, Unit
from .usage import children, rest, used_cpu_s


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one contestant.

    Attributes:
        wall_s: From start to return.
        cpu_s: User and system time of this process and of the children reaped.
        counted: What the contestant counts itself, such as bytes or modules.
    """

    wall_s: float
    cpu_s: float
    counted: float = 0


class Clock:
    """Takes a sample from its making on."""

    def __init__(self) -> None:
        self._cpu_s, self._wall_s = used_cpu_s(), time.perf_counter()

    def sample(self) -> Sample:
        """Give the times up to now."""
        wall_s = time.perf_counter() - self._wall_s
        return Sample(wall_s, used_cpu_s() - self._cpu_s)


Round = Mapping[str, Sample]
"""One sample of each contestant, by its name."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """What is run.

    Attributes:
        run: Does it once, and raises where it went wrong; gives the sample where it
            was taken elsewhere, as in an interpreter of its own.
        before: Brings about what a run starts from; it is not counted.
    """

    name: str
    run: Callable[[], Sample | None]
    before: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of interest.

    Attributes:
        of: Takes it from one round.
        bar: What it may be at most; None where nothing is asked.
        goal: What it is to become, where that is less than the bar allows.
        at_least: More is better: bar and goal are what it must be at least.
        held_at: What of the rounds is held against bar and goal.
        rival: It is a ratio to somebody else's time, not to what is allowed.
    """

    name: str
    of: Callable[[Round], float]
    bar: float | None = None
    unit: Unit = "x"
    goal: float | None = None
    at_least: bool = False
    held_at: Place = "median"
    rival: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Contestants that do comparable work.

    Attributes:
        about: How it is measured, in a sentence or two.
        rounds: How often each contestant runs.
        pace_s: Pause after each run, so that every contestant starts from the same
            rest; it goes on while a process that the run left behind is being ended.
        warm_up: Rounds that are run first and not counted.
    """

    name: str
    about: str
    contestants: Sequence[Contestant]
    figures: Sequence[Figure]
    rounds: int
    pace_s: float = 0.01
    warm_up: int = 2


def measure(workload: Workload, *, scale: float = 1) -> Outcome:
    """Run a workload.

    Args:
        workload: What to run.
        scale: Of its number of rounds; at least one is run.

    Returns:
        The figures and the times.
    """
    count, orders = max(round(workload.rounds * scale), 1), random.Random(workload.name)
    idle = children()
    for _ in range(workload.warm_up):
        _round(workload, idle, orders)
    idle = children()  # also those that a first call started, and that stay
    rounds = [_round(workload, idle, orders) for _ in range(count)]
    return Outcome(
        name=workload.name,
        about=workload.about,
        rounds=count,
        figures=[_figure_row(figure, rounds) for figure in workload.figures],
        contestants=[_contestant_row(c.name, rounds) for c in workload.contestants],
    )


def _round(workload: Workload, idle: int, orders: random.Random) -> Round:
    order = orders.sample(workload.contestants, len(workload.contestants))
    return {each.name: _sample(each, workload.pace_s, idle) for each in order}


def _sample(contestant: Contestant, pace_s: float, idle: int) -> Sample:
    if contestant.before is not None:
        contestant.before()
    cpu_s, began_s = used_cpu_s(), time.perf_counter()
    taken = contestant.run()
    wall_s = time.perf_counter() - began_s
    watching_s = rest(pace_s, idle)
    return taken or Sample(wall_s, used_cpu_s() - cpu_s - watching_s)


def _figure_row(figure: Figure, rounds: Sequence[Round]) -> FigureRow:
    values = [figure.of(each) for each in rounds]
    return FigureRow(
        name=figure.name,
        unit=figure.unit,
        bar=figure.bar,
        spread=Spread.of(values, at_least=figure.at_least),
        goal=figure.goal,
        at_least=figure.at_least,
        held_at=figure.held_at,
        rival=figure.rival,
    )


def _contestant_row(name: str, rounds: Sequence[Round]) -> ContestantRow:
    wall_ms = [round(each[name].wall_s * 1000, 3) for each in rounds]
    cpu_ms = [round(each[name].cpu_s * 1000, 3) for each in rounds]
    return ContestantRow(
        name=name,
        wall_ms=Spread.of(wall_ms),
        cpu_ms=Spread.of(cpu_ms),
        wall_samples_ms=wall_ms,
        cpu_samples_ms=cpu_ms,
    )
