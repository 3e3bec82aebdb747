"""A record's ratios as a picture, on one scale."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from .record import KEPT, FigureRow, Record

PLOT = KEPT.with_name("figures.svg")
_BEHIND, _AHEAD = "#cf222e", "#2da44e"


def ratios(record: Record) -> list[FigureRow]:
    """Give the figures that set our time against another's, by names of their own."""
    return [
        replace(row, name=row.name.replace("the same", each.name))
        for each in record.outcomes
        for row in each.figures
        if row.unit == "x" and row.rival
    ]


def is_behind(row: FigureRow) -> bool:
    """Whether the other side of a ratio is ahead of us."""
    return row.spread.median < 1 if row.at_least else row.spread.median > 1


def draw(record: Record, path: Path) -> None:
    """Write the picture as SVG: the same bytes for the same record."""
    import matplotlib as mpl  # as costly to import as it is large

    mpl.use("agg")
    mpl.rcParams.update({"svg.hashsalt": record.began, "font.size": 8})
    from matplotlib import pyplot as plt

    rows = ratios(record)[::-1]
    picture: Any
    axes: Any
    picture, axes = plt.subplots(figsize=(9, 0.24 * len(rows) + 0.8))
    names = [row.name.replace("`", "") for row in rows]
    colours = [_BEHIND if is_behind(row) else _AHEAD for row in rows]
    axes.barh(names, [row.spread.median for row in rows], color=colours)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("ratio, logarithmic; red: the other side is ahead")
    picture.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(picture)
