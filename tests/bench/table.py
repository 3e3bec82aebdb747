"""A record as tables, printed and put into README.md.

    python -m tests.bench.table

writes the kept record between the markers of README.md, and draws its picture.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from .plot import PLOT, draw, is_behind, ratios
from .record import KEPT, ContestantRow, FigureRow, Record

BEGIN, END = "<!-- bench -->", "<!-- /bench -->"
_ROOT = Path(__file__).parents[2]
_WHERE = PLOT.relative_to(_ROOT).as_posix()
_SPREAD = ("median", "95 %", "99 %")


def tables(record: Record) -> str:
    """Show the figures against their bars, every contestant's times, and the how."""
    figures = [_figure(row) for each in record.outcomes for row in each.figures]
    times = [
        (each.name, *_times(row))
        for each in record.outcomes
        for row in each.contestants
    ]
    behind = filter(is_behind, ratios(record))
    machine = ", ".join(f"{name} {fact}" for name, fact in record.machine.items())
    before, after = record.load
    return "\n".join(
        [
            *_table(("figure", *_SPREAD, "bar", "goal", ""), figures),
            "",
            f"![The ratios]({_WHERE})",
            "",
            "Where the other side of a ratio is ahead:",
            "",
            *(f"- {row.name}: {_number(row.spread.median, row)}" for row in behind),
            "",
            *_table(("workload", "of", "wall ms", *_SPREAD[1:], "CPU ms"), times),
            "",
            *(
                f"- {each.name}, {each.rounds} rounds: {each.about}"
                for each in record.outcomes
            ),
            "",
            f"Measured by `make bench` on {record.began[:10]}: {machine}. The load was"
            f" {before:g} before and {after:g} after."
            + (f" Measured again: {', '.join(record.again)}." if record.again else ""),
        ]
    )


def placed(page: str, text: str) -> str:
    """Put text between the markers of a page, in place of what is there.

    Raises:
        ValueError: The page does not have each marker once, in order.
    """
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end or BEGIN in tail or END in head + tail:
        raise ValueError(f"the page needs one {BEGIN!r} and, after it, one {END!r}")
    return f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}"


def _figure(row: FigureRow) -> tuple[str, ...]:
    spread = (row.spread.median, row.spread.p95, row.spread.p99)
    numbers = (_number(value, row) for value in spread)
    return row.name, *numbers, _asked(row.bar, row), _asked(row.goal, row), _said(row)


def _asked(limit: float | None, row: FigureRow) -> str:
    if limit is None:
        return ""
    place = "" if row.held_at == "median" else f" at {row.held_at[1:]} %"
    return f"{'≥' if row.at_least else '≤'} {_number(limit, row)}{place}"


def _said(row: FigureRow) -> str:
    if row.misses_bar:
        return "**under**" if row.at_least else "**over**"
    return "short of the goal" if row.misses_goal else ""


def _number(value: float, row: FigureRow) -> str:
    if row.unit == "":
        return f"{value:g}"
    return f"{value:.2f}{row.unit if row.unit == 'x' else f' {row.unit}'}"


def _times(row: ContestantRow) -> tuple[str, ...]:
    wall = (row.wall_ms.median, row.wall_ms.p95, row.wall_ms.p99)
    times = (*wall, row.cpu_ms.median)
    return row.name, *(f"{ms:,.2f}" for ms in times)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    aligned = ["---", *("--:" if name.strip() else "---" for name in head[1:])]
    return [f"| {' | '.join(row)} |" for row in (head, aligned, *rows)]


def main() -> None:
    """Write the tables of a record into a page."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.table")
    parser.add_argument("--record", type=Path, default=KEPT)
    parser.add_argument("--page", type=Path, default=_ROOT / "README.md")
    given = parser.parse_args()
    page, record = given.page.read_text("utf-8"), Record.read(given.record)
    given.page.write_text(placed(page, tables(record)), "utf-8")
    draw(record, PLOT)


if __name__ == "__main__":
    main()
