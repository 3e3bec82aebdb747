"""The bench measures what it says; how fast anything is, no test asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.depth import partly

from .__main__ import WORKLOADS
from .analysis import TRACE, trace, tracking
from .conversations import conversations
from .harness import Contestant, Figure, Round, Sample, Workload, measure
from .record import FigureRow, Record, Spread
from .table import BEGIN, END, placed, tables

SMALL = WORKLOADS | {
    "conversations": partial(conversations, 4),
    "conversations-long": partial(conversations, 3, 3),
    "conversations-256": partial(conversations, 5),
    "trace": partial(trace, TRACE[-4:]),
    "tracking": partial(tracking, 200),
}
del SMALL["cluster"]  # It starts a Ray cluster, which tests/cluster does.
del SMALL["peers"]  # It needs a program that nothing else here does.
QUICK = {"paced", "cold", "kernel", "cancel", "close", "adapters", "async", "re"}
"""The workloads that `make test` runs; `make verify` runs them all."""


def workload(seconds: dict[str, list[float]], order: list[str]) -> Workload:
    """Make one whose contestants take what is listed, and note who runs."""

    def taking(name: str) -> Callable[[], Sample]:
        left = iter(seconds[name])

        def run() -> Sample:
            order.append(name)
            return Sample(next(left), 0)

        return run

    def ratio(r: Round) -> float:
        return r["ours"].wall_s / r["base"].wall_s

    return Workload(
        name="made up",
        about="No time passes.",
        contestants=[Contestant(name, taking(name)) for name in seconds],
        figures=[Figure("ours / base", ratio, bar=1.5)],
        rounds=3,
        pace_s=0,
        warm_up=1,
    )


def record_of(*seconds: float, order: list[str] | None = None) -> Record:
    """Make a record of rounds in which the base takes a second, and one to warm up."""
    base = [1.0] * (len(seconds) + 1)
    made = workload(
        {"base": base, "ours": [9.0, *seconds]}, [] if order is None else order
    )
    outcome = measure(made, scale=len(seconds) / 3)
    return Record(
        began="2026-01-02T03:04:05+00:00",
        took_s=1,
        machine={"CPU": "2 x Fast"},
        load=(0.5, 1),
        outcomes=[outcome],
    )


def test_contestants_take_turns() -> None:
    """Each round has one run of each, the warm-up too, in an order that is drawn."""
    order, again = list[str](), list[str]()
    record_of(1, 2, order=order)
    record_of(1, 2, order=again)
    rounds = [order[n : n + 2] for n in range(0, len(order), 2)]
    assert [sorted(each) for each in rounds] == [["base", "ours"]] * 3
    assert rounds[0] != rounds[1] or rounds[1] != rounds[2]
    assert order == again


def test_a_ratio_is_taken_within_its_round() -> None:
    """A machine that slows down slows both; the ratio of medians would be 1 here."""
    made = workload({"base": [1, 2, 3], "ours": [2, 3, 1]}, [])
    (figure,) = measure(replace(made, warm_up=0)).figures
    assert figure.spread.median == 1.5
    assert not figure.misses_bar


def test_what_a_run_starts_from_is_brought_about_before_it() -> None:
    """Every time, the warm-up included, and its time is not in the sample."""
    order: list[str] = []
    made = workload({"ours": [1, 1, 1, 1]}, order)
    (ours,) = made.contestants
    ours = replace(ours, before=partial(order.append, "before"))
    measure(replace(made, contestants=[ours], figures=[]))
    assert order == ["before", "ours"] * 4


def test_a_spread_is_the_median_and_two_tails() -> None:
    """One value is all of them; where more is better, the tail is at the low end."""
    values = [float(n) for n in range(101)]
    assert Spread.of(values) == Spread(50, 95, 99)
    assert Spread.of(values, at_least=True) == Spread(50, 5, 1)
    assert Spread.of([7.0], at_least=True) == Spread(7, 7, 7)


def row(median: float, p99: float, *, at_least: bool = False) -> FigureRow:
    """Make a figure with a bar of 2 and a goal beyond it."""
    return FigureRow(
        name="made up",
        unit="x",
        bar=2,
        goal=3 if at_least else 1,
        spread=Spread(median, p99, p99),
        at_least=at_least,
    )


def test_a_bar_is_held_against_the_side_and_the_place_that_it_names() -> None:
    """At most or at least, the median or a tail; what is just met is met."""
    assert row(2.1, 9).misses_bar
    assert not row(2, 9).misses_bar
    assert row(1.9, 9, at_least=True).misses_bar
    assert not row(2, 0, at_least=True).misses_bar
    assert replace(row(2, 9), held_at="p99").misses_bar


def test_a_goal_is_missed_on_its_own() -> None:
    """A figure within its bar can be short of its goal."""
    assert row(1.5, 9).misses_goal
    assert not row(1, 9).misses_goal
    assert row(2.5, 0, at_least=True).misses_goal
    assert not row(3, 0, at_least=True).misses_goal


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    """What is kept is all of it, samples too."""
    record = record_of(1, 2, 3)
    record.write(tmp_path / "kept.json")
    assert Record.read(tmp_path / "kept.json") == record
    assert record.outcomes[0].contestants[1].wall_samples_ms == [1000, 2000, 3000]


def test_the_table_names_what_is_over_its_bar() -> None:
    """A missed bar is said, never hidden."""
    over, within = tables(record_of(2)), tables(record_of(1))
    assert "| ours / base | 2.00x | 2.00x | 2.00x | ≤ 1.50x |  | **over** |" in over
    assert "| ours / base | 1.00x | 1.00x | 1.00x | ≤ 1.50x |  |  |" in within
    assert "2026-01-02: CPU 2 x Fast" in over


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        (row(1.5, 9), "1.50x | 9.00x | 9.00x | ≤ 2.00x | ≤ 1.00x | short of the goal"),
        (row(1.5, 1, at_least=True), "1.00x | ≥ 2.00x | ≥ 3.00x | **under**"),
        (replace(row(1, 9), held_at="p99"), "≤ 2.00x at 99 % | ≤ 1.00x at 99 % | **o"),
    ],
)
def test_the_table_says_what_is_asked_of_a_figure(
    figure: FigureRow, shown: str
) -> None:
    """The side, the place, and whether the goal is still ahead."""
    record = record_of(1)
    (outcome,) = record.outcomes
    assert shown in tables(
        replace(record, outcomes=[replace(outcome, figures=[figure])])
    )


def test_the_table_takes_the_place_between_the_markers() -> None:
    """The rest of the page stays, and writing it again changes nothing."""
    page = placed(f"# A\n\n{BEGIN}old{END}\n\n## B\n", "new")
    assert page == f"# A\n\n{BEGIN}\n\nnew\n\n{END}\n\n## B\n"
    assert placed(page, "new") == page


@pytest.mark.parametrize(
    "page", ["", BEGIN, END, END + BEGIN, f"{BEGIN}{END}{BEGIN}{END}"]
)
def test_a_page_without_its_markers_is_left_alone(page: str) -> None:
    """Better an error than a table in the wrong place."""
    with pytest.raises(ValueError, match="needs one '<!-- bench -->'"):
        placed(page, "new")


# The binding, the baseline of some rows, compiles in a thread of its own at its first
# use of an image, and leaves an iterator over a folder open there.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <posix.ScandirIterator:"
    "pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("name", partly(SMALL, QUICK.__contains__))
def test_a_workload_runs_and_gives_its_figures(name: str) -> None:
    """One round of each, on real boxes; its contestants check what they get."""
    with SMALL[name]() as made:
        outcome = measure(replace(made, warm_up=0), scale=0)
    assert outcome.rounds == 1
    assert [row.name for row in outcome.figures] == [f.name for f in made.figures]
    assert all(row.wall_ms.median > 0 for row in outcome.contestants)


def test_what_is_measured_again_takes_the_place_of_the_earlier() -> None:
    """The others stay, and the table says so."""
    before, later = record_of(2), record_of(1)
    both = before.with_again(later)
    assert (both.began, both.outcomes) == (before.began, later.outcomes)
    assert "Measured again: made up." in tables(both)
