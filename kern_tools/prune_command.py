"""`kern-tools prune`: remove what killed processes left, and what has expired."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from . import flags
from .expiry import OLDER_THAN_DAYS
from .prune import PruneReport
from .prune import prune as prune_host
from .screen import print_json


def prune(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    older_than_days: Annotated[
        float,
        typer.Option(
            "--older-than",
            metavar="DAYS",
            min=0,
            help="Of setups and images built here: how long since their last use.",
        ),
    ] = OLDER_THAN_DAYS,
    as_json: flags.AsJson = False,
) -> None:
    """Remove what killed processes left, and setups and images not used for long.

    Nothing of a living process is touched.
    """
    report = prune_host(dry_run=dry_run, older_than_days=older_than_days)
    if as_json:
        print_json(_plain(report))
        return
    for line in _lines(report):
        print(line)


def _lines(report: PruneReport) -> Iterator[str]:
    end, remove = "ended", "removed"
    if report.dry_run:
        end, remove = "would end", "would remove"
    yield from (f"{end} box {name}" for name in report.boxes)
    yield from (f"{remove} workspace {path}" for path in report.workspaces)
    yield from (f"{remove} {path}" for path in (*report.folders, *report.files))
    yield from (f"{remove} setup {path}" for path in report.setups)
    yield from (f"{remove} image {reference}" for reference in report.images)
    if report.empty:
        yield "nothing was left by killed processes, and nothing has expired"
    if report.kern:
        yield f"kern: {report.kern}"


def _plain(report: PruneReport) -> dict[str, object]:
    return {
        "processes": report.processes,
        "boxes": list(report.boxes),
        "workspaces": list(map(str, report.workspaces)),
        "folders": list(map(str, report.folders)),
        "files": list(map(str, report.files)),
        "setups": list(map(str, report.setups)),
        "images": list(report.images),
        "kern": report.kern,
        "dry_run": report.dry_run,
    }
