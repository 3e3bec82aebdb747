"""Finding a node for a sandbox: by free slots, for a bounded time, of equal nodes."""

# Ray leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import (
    RayActorError,
    RayError,
    RayTaskError,
)

from kern_tools.config import SandboxConfig
from kern_tools.faults import SandboxError

from .actor import Arrived, Furnished, SandboxActor
from .agreement import Agreement
from .cluster import HEAD_WAIT_S, Cluster, kill
from .link import Link
from .opened import RemoteOpened
from .opening import RemoteOpening
from .serving import Ports
from .slots import NodeGone, bad_node, full, no_node, slow_start
from .told import Told
from .trouble import ClusterError, NodeLost, aside, bounded

ASKED_AT_ONCE = 8
"""By Ray: to stay, to open, to close. What comes over channels does not count."""
_TRIES = 3

MakeRoom = Callable[[], bool]
"""Closes a sandbox of the pool that is not used, if there is one."""


class Placing:
    """Puts sandboxes on nodes.

    Args:
        cluster: Where.
        resources: What a sandbox takes of its node.
        slot_timeout_s: How long to wait for a node that has it free.
        ports: Where sandboxes take calls; None takes any free port of their node.
    """

    def __init__(
        self,
        cluster: Cluster,
        resources: Mapping[str, float],
        slot_timeout_s: float,
        ports: Ports | None = None,
    ) -> None:
        self.agreement = Agreement(cluster.living)
        self._cluster = cluster
        self._resources = dict(resources)
        self._slot_timeout_s = slot_timeout_s
        self._ports = ports
        self._lock = threading.Lock()
        self._waiting = 0
        self._limits: dict[str, bool | None] = {}  # by node

    def place(
        self, config: SandboxConfig, opening: RemoteOpening, make_room: MakeRoom
    ) -> RemoteOpened:
        """Open a sandbox on some node.

        Args:
            config: Its options.
            opening: May be cut short.
            make_room: Called where no node has room.

        Raises:
            PoolFull: `cluster_full`: no node had room in time.
            ClusterError: There is no cluster, or no node that can be used.
            SandboxError: The node cannot open it.
            SandboxClosed: It was cut short.
        """
        for _ in range(_TRIES - 1):  # nothing has run where a node died meanwhile
            with suppress(NodeLost, NodeGone):
                return self._placed(config, opening, make_room)
        return self._placed(config, opening, make_room)

    def _placed(
        self, config: SandboxConfig, opening: RemoteOpening, make_room: MakeRoom
    ) -> RemoteOpened:
        if not self._fits():
            make_room()
        opening.check()
        actor = self._start()
        try:
            arrived = self._arrived(actor, opening)
            self.agreement.check(arrived.node)
            link = Link(actor, arrived)
        except BaseException:
            aside(lambda: kill(actor))
            raise
        known = self._limits.get(arrived.node.node_id)
        there = self._furnished(config, link, opening, known)
        self._limits[there.node.node_id] = there.facts.limits_enforced
        return RemoteOpened(config, link, there)

    def _furnished(
        self,
        config: SandboxConfig,
        link: Link,
        opening: RemoteOpening,
        limits_enforced: bool | None,
    ) -> Furnished:
        try:
            furnished = link.open(config, limits_enforced=limits_enforced)
            link.reach()
            there: Furnished = link.read(furnished, opening)
            self.agreement.check(there.node)
        except BaseException:
            link.close()
            raise
        return there

    def _fits(self) -> bool:
        free = self._cluster.free()
        return all(free.get(name, 0) >= much for name, much in self._resources.items())

    def _start(self) -> Any:
        def start() -> Any:
            return actor_class().options(**self._options()).remote(self._ports)

        return bounded(start, HEAD_WAIT_S, self._cluster.where)

    def _options(self) -> dict[str, Any]:
        custom = dict(self._resources)
        return {
            "num_cpus": custom.pop("CPU", 0),
            "num_gpus": custom.pop("GPU", 0),
            "resources": custom,
            "scheduling_strategy": "SPREAD",
        }

    def _arrived(self, actor: Any, opening: RemoteOpening) -> Arrived:
        """Wait until the actor is on a node, and say where."""
        with self._lock:
            self._waiting += 1
        try:
            answer: Future[Told] = actor.arrive.remote().future()
            told = opening.wait(answer, self._slot_timeout_s)
        except TimeoutError:
            raise self._verdict() from None
        except RayTaskError:
            raise
        except RayError as error:
            raise _no_start(error) from error
        finally:
            with self._lock:
                self._waiting -= 1
        found: Arrived = told.opened()
        return found

    def _verdict(self) -> SandboxError:
        """Say why no node took the sandbox in time."""
        nodes = self._cluster.nodes()
        able = [node for node in nodes if node.has(self._resources)]
        if not able:
            return no_node(nodes, self._resources)
        if self._fits():
            return slow_start(self._resources, self._slot_timeout_s)
        return full(
            able,
            self._resources,
            free=self._cluster.free(),
            waiting=self._waiting,
            waited_s=self._slot_timeout_s,
        )


def actor_class() -> Any:
    """Give the class of actors, as Ray knows it."""
    options = {"max_restarts": 0, "max_task_retries": 0}
    make: Any = ray.remote  # its types know no `max_concurrency`
    return make(max_concurrency=ASKED_AT_ONCE, **options)(SandboxActor)


def _no_start(error: RayError) -> ClusterError:
    """Tell a process that could not be started from one whose node died."""
    is_gone = isinstance(error, RayActorError) and not error.actor_init_failed
    return NodeGone() if is_gone else bad_node(error)
