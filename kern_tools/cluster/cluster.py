"""The connection to a Ray cluster: made once for a process, asked for bounded times."""

# Ray leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray

from .trouble import bounded, unreachable

HEAD_WAIT_S = 10.0
"""How long the head may take to answer."""
_CONNECT_S = 60.0
_PROBE_S = 5.0
_SURVIVE_S = 86_400

_lock = threading.Lock()
_users = 0  # pools that share the connection that this package made


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is alive.

    Attributes:
        node_id: Ray's own id.
        host: Its name.
        total: What it has of each resource, taken or not.
    """

    node_id: str
    host: str
    total: Mapping[str, float]

    def has(self, wanted: Mapping[str, float]) -> bool:
        """Tell whether it could ever hold what is wanted."""
        return all(self.total.get(name, 0) >= much for name, much in wanted.items())


class Cluster:
    """The cluster that this process is connected to.

    A Ray that the program has initialised is used as it is, and left so.

    Args:
        address: Where the head is, `host:port`; None takes `RAY_ADDRESS`, or the
            cluster of this machine.

    Raises:
        ClusterError: `unreachable`.
    """

    def __init__(self, address: str | None) -> None:
        self.where = address or os.environ.get("RAY_ADDRESS") or "auto"
        self._joined = _join(self.where)

    def leave(self) -> None:
        """Disconnect, where nobody else of this package uses the connection."""
        global _users
        with _lock:
            joined, self._joined = self._joined, False
            if joined:
                _users -= 1
                if _users == 0:
                    bounded(_shut_down, HEAD_WAIT_S, self.where)

    def nodes(self) -> list[Node]:
        """List the nodes that are alive.

        Raises:
            ClusterError: `unreachable`.
        """
        rows: Sequence[dict[str, Any]] = self._asked(ray.nodes)
        return [
            Node(row["NodeID"], row["NodeManagerHostname"], row["Resources"])
            for row in rows
            if row["Alive"]
        ]

    def living(self) -> list[str]:
        """List the ids of the nodes that are alive."""
        return [node.node_id for node in self.nodes()]

    def free(self) -> Mapping[str, float]:
        """Add up what all nodes have left.

        Raises:
            ClusterError: `unreachable`.
        """
        found: Mapping[str, float] = self._asked(ray.available_resources)
        return found

    def _asked(self, ask: Any) -> Any:
        if not ray.is_initialized():
            raise unreachable(self.where, "Ray was shut down in this process")
        return bounded(ask, HEAD_WAIT_S, self.where)


def _join(where: str) -> bool:
    """Connect, where that is not done; tell whether it was done here."""
    global _users
    with _lock:
        if ray.is_initialized() and _users == 0:
            return False
        if not ray.is_initialized():
            _probe(where)
            _connect(where)
        _users += 1
        return True


def _probe(where: str) -> None:
    """Find out at once whether anybody listens there, for which Ray takes minutes."""
    host, _, port = where.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PROBE_S).close()
    except OSError as error:
        raise unreachable(where, error.strerror or str(error)) from error


def _connect(where: str) -> None:
    # Ray ends the whole process once the head was gone for so long. Ours goes on, and
    # tells its callers.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", str(_SURVIVE_S))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"address": where, "log_to_driver": False}
    if threading.current_thread() is not threading.main_thread():
        options["logging_level"] = "ERROR"  # it warns that it handles no SIGTERM here
    try:
        ray.init(**options, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        with suppress(Exception):
            _shut_down()
        raise unreachable(where, str(error).partition("\n")[0]) from error


def _shut_down() -> None:
    ray.shutdown()


def kill(actor: Any) -> None:
    """End an actor at once, if it and Ray are still there."""
    with suppress(Exception):  # Ray was shut down
        ray.kill(actor)
