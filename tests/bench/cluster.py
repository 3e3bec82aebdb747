"""Sandboxes on the nodes of a Ray cluster, on this host."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from kern_tools import Sandbox, SandboxPool

from .harness import Contestant, Figure, Workload

if TYPE_CHECKING:
    from kern_tools.cluster import ClusterPool
    from tests.cluster.nodes import Nodes

CONVERSATIONS = 2
CALLS = 20
_CELL = "print(sum(n * n for n in range(200_000)))"


@contextmanager
def on_core(number: int) -> Generator[None]:
    """Start what is started in the block on one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(cores)[number % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextmanager
def clustered() -> Generator[Workload]:
    """Compare calls through a cluster with local ones, and two nodes with one."""
    from tests.cluster.nodes import Nodes

    with ExitStack() as held:
        nodes = Nodes()
        held.callback(nodes.close)
        nodes.add({_FREE: 8})
        for number, name in enumerate(_HELD):
            with on_core(number):
                nodes.add({name: 8})
        free, first, second = (
            held.enter_context(pool_of(nodes, name)) for name in (_FREE, *_HELD)
        )
        local = held.enter_context(SandboxPool(timeout_s=60))
        threads = held.enter_context(ThreadPoolExecutor(CONVERSATIONS))
        one = [first.get(f"t{n}") for n in range(CONVERSATIONS)]
        two = [first.get("t0"), second.get("t1")]
        yield workload(
            Contestant("local", one_call(local.get("t1"))),
            Contestant("cluster", one_call(free.get("t1"))),
            Contestant("one node", all_calls(threads, one)),
            Contestant("two nodes", all_calls(threads, two)),
        )


def workload(*contestants: Contestant) -> Workload:
    """Say what is asked of them."""
    return Workload(
        name="cluster",
        about="One call of `print(1)` through a pool of this process and through a"
        " cluster on the same host, whose node may use every core as this process does;"
        f" and {CALLS} calls of some milliseconds by each of {CONVERSATIONS}"
        " conversations, on one node and on two, which are held to one core each.",
        contestants=contestants,
        figures=[
            Figure(
                "a call through a cluster on this host, more than a local one",
                lambda r: (r["cluster"].wall_s - r["local"].wall_s) * 1000,
                bar=2,
                unit="ms",
            ),
            Figure(
                "calls per second: two nodes of one core each / one node",
                lambda r: r["one node"].wall_s / r["two nodes"].wall_s,
                bar=1.7,
                at_least=True,
            ),
        ],
        rounds=25,
        pace_s=0.05,
    )


_FREE = "any_core"
_HELD = ("core0", "core1")
"""Resources that one node has each: with every core, and held to one."""


def pool_of(nodes: Nodes, resource: str) -> ClusterPool:
    """Make a pool for the nodes that have a resource."""
    from kern_tools.cluster import ClusterPool

    return ClusterPool(address=nodes.address, resources={resource: 1}, timeout_s=60)


def one_call(sandbox: Sandbox) -> Callable[[], None]:
    """Give what makes one call."""

    def run() -> None:
        result = sandbox.run_code("print(1)")
        assert result.stdout == "1\n", result

    return run


def all_calls(
    threads: ThreadPoolExecutor, sandboxes: Sequence[Sandbox]
) -> Callable[[], None]:
    """Give what makes all calls of all conversations."""

    def converse(sandbox: Sandbox) -> None:
        for _ in range(CALLS):
            result = sandbox.run_code(_CELL)
            assert result.success, result

    def run() -> None:
        for each in [threads.submit(converse, sandbox) for sandbox in sandboxes]:
            each.result()

    return run
