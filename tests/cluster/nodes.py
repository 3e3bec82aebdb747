"""A real Ray cluster on loopback: a head that runs no sandbox, and nodes that do."""

from __future__ import annotations

import os
import time
from typing import Any

import ray

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Ray has its processes give way to all others of a host, unless told otherwise.
os.environ.setdefault("RAY_worker_niceness", "0")

SLOTS = 6
ROOM = 1
"""A resource that is scarce, for tests of what is full."""
STORE_BYTES = 80 << 20


class Nodes:
    """The cluster, and the nodes that can be added to it and taken away."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False}
        self.cluster: Any = Cluster(
            initialize_head=True,
            head_node_args={**head, "object_store_memory": STORE_BYTES},
        )
        self.address: str = self.cluster.address

    def add(self, resources: dict[str, float] | None = None, **options: Any) -> Any:
        """Start a node; it is registered when this returns."""
        has = {"kern": SLOTS, "room": ROOM} if resources is None else resources
        return self.cluster.add_node(
            num_cpus=1, resources=has, object_store_memory=STORE_BYTES, **options
        )

    def kill(self, node: Any) -> None:
        """Have a node die, with all its processes, and wait until Ray has noticed."""
        self.cluster.remove_node(node, allow_graceful=False)
        while node.node_id in self._living():
            time.sleep(0.05)

    def _living(self) -> set[str]:
        list_nodes: Any = ray.nodes
        rows: list[dict[str, Any]] = list_nodes() if ray.is_initialized() else []
        return {row["NodeID"] for row in rows if row["Alive"]}

    def close(self) -> None:
        """End all."""
        self.cluster.shutdown()
