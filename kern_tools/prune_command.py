"""`kern-tools prune`: remove what killed processes left."""

from __future__ import annotations

from typing import Annotated

import typer

from . import flags
from .prune import PruneReport
from .prune import prune as prune_host
from .screen import print_json


def prune(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    as_json: flags.AsJson = False,
) -> None:
    """Remove what killed processes left; nothing of a living one."""
    report = prune_host(dry_run=dry_run)
    if as_json:
        print_json(_plain(report))
        return
    ended, removed = ("would end", "would remove") if dry_run else ("ended", "removed")
    for name in report.boxes:
        print(f"{ended} box {name}")
    for path in report.workspaces:
        print(f"{removed} workspace {path}")
    for path in (*report.folders, *report.files):
        print(f"{removed} {path}")
    if report.empty:
        print("nothing was left by killed processes")
    if report.kern:
        print(f"kern: {report.kern}")


def _plain(report: PruneReport) -> dict[str, object]:
    return {
        "processes": report.processes,
        "boxes": list(report.boxes),
        "workspaces": list(map(str, report.workspaces)),
        "folders": list(map(str, report.folders)),
        "files": list(map(str, report.files)),
        "kern": report.kern,
        "dry_run": report.dry_run,
    }
