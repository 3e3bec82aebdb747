"""What the nodes of a cluster say of themselves, without a sandbox."""

# Ray leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import (
    NodeDiedError,
    RayError,
    RayTaskError,
    TaskUnschedulableError,
)

from kern_tools.config import SandboxConfig
from kern_tools.facts import SandboxFacts
from kern_tools.pool import SandboxPool

from .agreement import NodeFacts, facts_here
from .cluster import Cluster, Node
from .slots import NodeGone, bad_node, no_node
from .told import Told
from .trouble import bounded


class Probing:
    """Asks the nodes that could hold a sandbox.

    Args:
        cluster: Of which.
        resources: What a sandbox takes.
        timeout_s: How long a node may take to answer.
    """

    def __init__(
        self, cluster: Cluster, resources: Mapping[str, float], timeout_s: float
    ) -> None:
        self._cluster = cluster
        self._resources = dict(resources)
        self._timeout_s = timeout_s

    def facts(self, config: SandboxConfig) -> SandboxFacts:
        """Ask one of them for the facts about a sandbox there.

        Raises:
            ClusterError: None can be asked.
        """
        bare = config.replace(on_stdout=None, on_stderr=None)
        for node in self._able():
            with suppress(NodeGone):
                found: SandboxFacts = self._on(node, _facts, bare)
                return found
        raise NodeGone

    def identities(self) -> list[NodeFacts]:
        """Ask each of them what it runs.

        Raises:
            ClusterError: One cannot be used, or none is there.
            HostError: One has no kern.
        """
        found: list[NodeFacts] = []
        for node in self._able():
            with suppress(NodeGone):
                found.append(self._on(node, _identity))
        return found

    def _able(self) -> list[Node]:
        nodes = self._cluster.nodes()
        able = [node for node in nodes if node.has(self._resources)]
        if not able:
            raise no_node(nodes, self._resources)
        return able

    def _on(self, node: Node, do: Callable[..., Told], *arguments: Any) -> Any:
        """Run a function on a node.

        Raises:
            NodeGone: The node has died, which its list does not show at once.
        """
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        asked = ray.remote(do).options(
            num_cpus=0, max_retries=0, scheduling_strategy=there
        )
        ask = lambda: ray.get(asked.remote(*arguments))  # noqa: E731
        try:
            answer: Told = bounded(ask, self._timeout_s, self._cluster.where)
        except RayTaskError:
            raise
        except (TaskUnschedulableError, NodeDiedError) as error:
            raise NodeGone from error
        except RayError as error:
            raise bad_node(error) from error
        return answer.opened()


def _facts(config: SandboxConfig) -> Told:
    try:
        with SandboxPool(config) as pool:
            return Told(pool.describe())
    except Exception as error:
        return Told.of(error)


def _identity() -> Told:
    try:
        return Told(facts_here(str(ray.get_runtime_context().get_node_id())))
    except Exception as error:
        return Told.of(error)
