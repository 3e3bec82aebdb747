"""Why a cluster has no slot for a sandbox, in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ray.exceptions import RayError

from kern_tools.faults import PoolFull, startup_fault

from .cluster import Node
from .trouble import ClusterError

Amounts = Mapping[str, float]
"""How much of what, by Ray's names."""


class NodeGone(ClusterError):
    """A node that was asked is not there any more; nothing ran on it."""

    def __init__(self) -> None:
        message = "the nodes that were asked died meanwhile; try again"
        super().__init__(message, code="node_lost")


def no_node(nodes: Sequence[Node], wanted: Amounts) -> ClusterError:
    """Make the error for what no node could ever hold."""
    had = "; ".join(f"{n.host} {_spelled(_of(n.total, wanted))}" for n in nodes)
    return ClusterError(
        f"no node has {_spelled(wanted)}, which a sandbox takes (there are: {had}):"
        " start nodes that do, or change resources=...",
        code="no_node",
    )


def slow_start(wanted: Amounts, waited_s: float) -> ClusterError:
    """Make the error for a node that has room and does not use it."""
    return ClusterError(
        f"a node has room for {_spelled(wanted)}, and started no process for it within"
        f" {waited_s:g} s: raise slot_timeout_s, or see its logs",
        code="slow_start",
    )


def full(
    able: Sequence[Node],
    wanted: Amounts,
    *,
    free: Amounts,
    waiting: int,
    waited_s: float,
) -> PoolFull:
    """Make the error for a cluster without a free slot.

    Args:
        able: The nodes that can hold a sandbox.
        wanted: What a sandbox takes.
        free: What all nodes have left.
        waiting: How many wait for a slot.
        waited_s: How long this one did.
    """
    slots = sum(_slots(node.total, wanted) for node in able)
    message = (
        f"all {slots} slots of {len(able)} nodes are taken, {waiting} wait, and none"
        f" came free within {waited_s:g} s (a slot is {_spelled(wanted)}; free:"
        f" {_spelled(_of(free, wanted))})"
    )
    fault = startup_fault("cluster_full", message, retryable=True)
    remedy = f"{message}; try again later, or add nodes"
    return PoolFull(remedy, code="cluster_full", fault=fault)


def bad_node(error: RayError) -> ClusterError:
    """Make the error for a node on which this package does not run."""
    said = str(error).strip().splitlines() or [type(error).__name__]
    return ClusterError(
        f"a node could not start a sandbox's process ({said[-1][:200]}): install"
        " 'kern-tools[ray]' of the same version on every node",
        code="bad_node",
    )


def _slots(total: Amounts, wanted: Amounts) -> int:
    return min(int(total.get(name, 0) / much) for name, much in wanted.items())


def _of(amounts: Amounts, names: Amounts) -> dict[str, float]:
    return {name: amounts.get(name, 0) for name in names}


def _spelled(amounts: Amounts) -> str:
    return ", ".join(f"{much:g} {name}" for name, much in amounts.items())
