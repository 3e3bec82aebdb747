"""Measure all workloads, or those named; keep the record of a whole run.

    make bench
    make bench ARGS="cold import --scale 0.2"

Missing a bar is no error: the table says so, and the exit code stays 0.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial

from .analysis import CELLS, imports_ahead, trace, tracking
from .async_frameworks import async_adapters
from .burst import burst
from .cluster import clustered
from .cold import cold_call
from .conversations import ASKED, MANY_CALLS, conversations
from .ending import cancel, close
from .frameworks import adapters
from .fresh import first_call, image_present, imports
from .harness import Workload, measure
from .machine import load, machine
from .output import flood, many_results
from .paced import paced_call
from .peers import peers_kernel, peers_paced
from .record import KEPT, Outcome, Record
from .session import kernel_call, resident_call
from .table import tables

WORKLOADS: dict[str, Callable[[], AbstractContextManager[Workload]]] = {
    "paced": paced_call,
    "cold": cold_call,
    "kernel": kernel_call,
    "resident": resident_call,
    "burst": burst,
    "conversations": conversations,
    "conversations-long": partial(conversations, ASKED, MANY_CALLS),
    **{f"conversations-{n}": partial(conversations, n) for n in (1, 8, 256)},
    "cluster": clustered,
    "cancel": cancel,
    "close": close,
    "adapters": adapters,
    "async": async_adapters,
    "output": flood,
    "results": many_results,
    "import": imports,
    "first": first_call,
    "image": image_present,
    **{name.split()[-1]: partial(imports_ahead, name) for name in CELLS},
    "trace": trace,
    "tracking": tracking,
    "peers": peers_paced,
    "jupyter": peers_kernel,
}


def main() -> None:
    """Run, print, keep."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument(
        "names", nargs="*", metavar="WORKLOAD", help=", ".join(WORKLOADS)
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="keep these in place of those in the record",
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of the rounds")
    given = parser.parse_args()
    names = given.names or list(WORKLOADS)
    if unknown := set(names) - set(WORKLOADS):
        parser.error(f"no workload {min(unknown)!r}; there are {', '.join(WORKLOADS)}")
    record = run(names, given.scale)
    print(tables(record))
    if given.again:
        record = Record.read(KEPT).with_again(record)
    if given.again or set(names) == set(WORKLOADS):
        record.write(KEPT)
        print(f"kept as {KEPT.name} in {KEPT.parent.name}/", file=sys.stderr)


def run(names: list[str], scale: float) -> Record:
    """Measure some workloads, one after the other."""
    began, began_s, load_before = datetime.now(UTC), time.monotonic(), load()
    outcomes: list[Outcome] = []
    for name in names:
        print(f"{name} ...", file=sys.stderr)
        with WORKLOADS[name]() as workload:
            outcomes.append(measure(workload, scale=scale))
    return Record(
        began=began.isoformat(timespec="seconds"),
        took_s=round(time.monotonic() - began_s, 1),
        machine=machine(),
        load=(load_before, load()),
        outcomes=outcomes,
    )


if __name__ == "__main__":
    main()
