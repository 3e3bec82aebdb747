"""A pool whose sandboxes run on the nodes of a Ray cluster."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from kern_tools.config import SandboxConfig
from kern_tools.conversations import conversation_of
from kern_tools.facts import SandboxFacts
from kern_tools.faults import ConfigError, PoolFull, startup_fault
from kern_tools.lease import Lease
from kern_tools.options import Check, FrozenMap, number, optional, refusal, text, whole
from kern_tools.pool import SandboxPool
from kern_tools.seats import Seat

from .agreement import NodeFacts
from .cluster import HEAD_WAIT_S, Cluster
from .opened import RemoteOpened
from .opening import RemoteOpening
from .placing import Placing
from .probing import Probing
from .sandbox import RemoteSandbox
from .schedule import Schedule
from .serving import Ports

SLOT_TIMEOUT_S = 30.0
MAX_WAITING = 32
_ENDS = 2
RESOURCES: Mapping[str, float] = FrozenMap({"CPU": 0.25})


class ClusterPool(SandboxPool):
    """Gives every conversation a sandbox of its own, on some node of a Ray cluster.

    It is used as `SandboxPool` is. A node that dies takes its sandboxes with it: calls
    that run there end with the fault `killed`, and the conversation's next call has a
    new sandbox on another node, with the files of its last snapshot and `state_new`.

    Args:
        config: Options of every sandbox; or give them by name, see `SandboxConfig`.
            What they name of a host, such as `mounts`, is that of the nodes.
        address: Where the cluster's head is, `host:port`. None takes the Ray that this
            process has initialised, or `RAY_ADDRESS`, or this machine's cluster.
        resources: What one sandbox takes of its node, by Ray's names. A custom resource
            bounds how many sandboxes a node has, and which nodes have any.
        slot_timeout_s: How long a conversation waits for a node with room.
        max_waiting: How many may wait at once; further ones are refused at once.
        snapshot_every_s: Age that a snapshot may reach while its sandbox is used; None
            saves when a sandbox is closed, alone.
        call_ports: The first and the last port at which a node's sandboxes take calls,
            for hosts with a firewall between them; None takes any free ones.
        **options: Those of `SandboxPool`, whose `max_sandboxes` is that of this pool,
            and whose `snapshots` is a folder of this host, or a URL for fsspec that
            every node reaches; and of `SandboxConfig`, but `workspace`.

    Raises:
        ConfigError: An option cannot be used.
        ClusterError: The cluster cannot be reached.
    """

    def __init__(
        self,
        config: SandboxConfig | None = None,
        /,
        *,
        address: str | None = None,
        resources: Mapping[str, float] = RESOURCES,
        slot_timeout_s: float = SLOT_TIMEOUT_S,
        max_waiting: int = MAX_WAITING,
        snapshot_every_s: float | None = None,
        call_ports: Ports | None = None,
        **options: Any,
    ) -> None:
        own = {
            "address": address,
            "resources": resources,
            "slot_timeout_s": slot_timeout_s,
            "max_waiting": max_waiting,
            "snapshot_every_s": snapshot_every_s,
            "call_ports": call_ports,
        }
        for name, check in _OWN.items():
            check(name, own[name])
        super().__init__(config, **options)
        if snapshot_every_s is not None and options.get("snapshots") is None:
            raise ConfigError(
                f"snapshot_every_s={snapshot_every_s!r} has no place to save to; give"
                " snapshots=...",
                option="snapshot_every_s",
            )
        self._max_waiting = max_waiting
        self._cluster = Cluster(address)
        self._placing = Placing(self._cluster, resources, slot_timeout_s, call_ports)
        self._probing = Probing(self._cluster, resources, slot_timeout_s + HEAD_WAIT_S)
        self._turnover.make = self._maker()
        # Whoever waits for a slot holds a thread; those who would wait for a thread
        # are refused.
        self._openers = ThreadPoolExecutor(max_waiting, "kern-tools-cluster")
        self._schedule = (
            None
            if snapshot_every_s is None
            else Schedule(self._seats, self._keeping, snapshot_every_s)
        )
        self._facts: SandboxFacts | None = None
        self._facts_lock = threading.Lock()

    def _maker(self) -> Callable[[Seat], RemoteSandbox]:
        """Give what makes a seat's sandbox; it must not keep the pool alive."""
        config, placing, turnover = self.config, self._placing, self._turnover

        def make(seat: Seat) -> RemoteSandbox:
            def place(config: SandboxConfig, opening: RemoteOpening) -> RemoteOpened:
                return placing.place(config, opening, lambda: turnover.make_room(seat))

            return RemoteSandbox(config, place)

        return make

    def lease(self, conversation: object, *, tenant: object = None) -> Lease:
        """Hold a conversation's sandbox for a `with` or `async with` block.

        The block is given the open sandbox, which the pool does not close meanwhile.
        Entering raises what `get` raises.

        Args:
            conversation: The framework's own id of the conversation.
            tenant: Whose it is.

        Raises:
            ConfigError: `conversation` or `tenant` names nobody.
            PoolFull: `too_many_waiting`: as many as may do wait for a node already.
        """
        if self._seats.find(conversation_of(conversation, tenant)) is None:
            self._check_waiting()
        return super().lease(conversation, tenant=tenant)

    def _check_waiting(self) -> None:
        waiting = sum(not seat.opened.done() for seat in self._seats.all())
        if waiting < self._max_waiting:
            return
        message = f"{waiting} conversations wait for a node, which max_waiting allows"
        fault = startup_fault("too_many_waiting", message, retryable=True)
        remedy = f"{message}; try again later, or add nodes"
        raise PoolFull(remedy, code="too_many_waiting", fault=fault)

    def drop(self, conversation: object, *, tenant: object = None) -> bool:
        """End a conversation: close its sandbox and remove what was kept of it."""
        if self._schedule is None:
            return super().drop(conversation, tenant=tenant)
        with self._schedule.held_off():  # a snapshot would come after its removal
            return super().drop(conversation, tenant=tenant)

    def check(self) -> list[NodeFacts]:
        """Ask every node that can hold a sandbox what it runs.

        Returns:
            The facts about each.

        Raises:
            ClusterError: `version_mismatch`, `no_node` or `unreachable`.
            HostError: A node has no kern.
        """
        found = self._probing.identities()
        for node in found:
            self._placing.agreement.check(node)
        return found

    def describe(self) -> SandboxFacts:
        """Give the plain facts about every sandbox; opens none.

        Raises:
            ClusterError: No node can be asked.
        """
        with self._facts_lock:
            if self._facts is None:
                self._facts = self._probing.facts(self.config)
            return self._facts

    def close(self) -> None:
        """Close every sandbox, after a snapshot where those are kept; opens no more.

        Raises:
            SandboxError: A snapshot failed; all sandboxes are closed all the same.
        """
        if os.getpid() != self._pid:
            return
        try:
            if self._schedule is not None:
                self._schedule.close()
            super().close()
        finally:
            self._cluster.leave()

    def __repr__(self) -> str:
        where, image = self._cluster.where, self.config.image
        return f"<ClusterPool of {len(self)} at {where!r}, image={image!r}>"


def _resources(option: str, value: object) -> object:
    remedy = "write Ray's names and amounts, such as {'CPU': 0.25, 'kern': 1}"
    given = cast("Mapping[object, object]", value)
    if not isinstance(value, Mapping) or not given:
        raise refusal(option, given, "is no mapping of what a sandbox takes", remedy)
    amount = number(1e-4, 1e9, "amount")
    for name, much in given.items():
        if not isinstance(name, str) or not name:
            raise refusal(option, given, f"has the name {name!r}", remedy)
        amount(f"{option}[{name!r}]", much)
    return given


def _ports(option: str, value: object) -> object:
    remedy = "write the first and the last, such as (20000, 20999)"
    given = cast("tuple[object, ...]", value)
    if not isinstance(value, tuple) or len(given) != _ENDS:
        raise refusal(option, given, "is no range of ports", remedy)
    port = whole(1, (1 << 16) - 1, "a port")
    for each in given:
        port(option, each)
    first, last = cast("Ports", value)
    if first > last:
        raise refusal(option, given, "ends before it begins", remedy)
    return given


_OWN: Mapping[str, Check] = {
    "address": optional(text(r"\S+", "write host:port of the head")),
    "resources": _resources,
    "slot_timeout_s": number(0.1, 1e6, "seconds"),
    "max_waiting": whole(1, 1 << 10, "conversations"),
    "snapshot_every_s": optional(number(0.05, 1e9, "seconds")),
    "call_ports": optional(_ports),
}
