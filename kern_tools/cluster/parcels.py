"""Snapshots that go between a path of this host and a node, in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kern_tools.locations import Location, explained_location, named, read, written

from .held import PIECE_BYTES
from .link import Link

if TYPE_CHECKING:
    from kern_tools.snapshot import RestoreReport, SnapshotReport

_SPARE_BYTES = 64 << 20
"""Names, headers, and what gzip adds to random bytes."""


def received(link: Link, target: Location, max_bytes: int) -> SnapshotReport:
    """Have a snapshot made on the node, and write it to a path of this host.

    Raises:
        SnapshotError: It cannot be made there, or written here.
    """
    where = named(target)
    number, report = link.look("held", "pack", max_bytes)
    try:
        with explained_location("save", where), written(target) as file:
            while piece := link.look("held", "read", number, file.tell(), PIECE_BYTES):
                file.write(piece)
    finally:
        link.leave("held", "let_go", number)
    found: SnapshotReport = report
    return found


def sent(link: Link, source: Location, max_bytes: int) -> RestoreReport:
    """Send a snapshot at a path of this host to the node, and have it restored there.

    Raises:
        SnapshotError: It cannot be read here, or used there.
    """
    where = named(source)
    with (
        explained_location("restore", where),
        read(source, max_bytes + _SPARE_BYTES) as file,
    ):
        number = link.ask("held", "receive")
        try:
            while piece := file.read(PIECE_BYTES):
                link.ask("held", "take", number, piece)
            report: RestoreReport = link.ask(
                "held", "restore", number, where, max_bytes
            )
        finally:
            link.leave("held", "let_go", number)
    return report
