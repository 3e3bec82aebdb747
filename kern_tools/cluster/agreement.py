"""Whether the nodes of a cluster run the same: package, Python, kern and image."""

from __future__ import annotations

import platform
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from importlib.metadata import version

from kern_tools.binary import find_kern, kern_version

from .trouble import ClusterError


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What one node runs.

    Attributes:
        node_id: Ray's own id of the node.
        host: Its host name.
        kern_tools: The version of this package there.
        python: The version of Python there.
        kern: The version of kern there; None where it was not asked.
        image: The image that boxes start from there; None where it was not asked.
    """

    node_id: str
    host: str
    kern_tools: str
    python: str
    kern: str | None = None
    image: str | None = None


def facts_here(node_id: str, *, kern: bool = True) -> NodeFacts:
    """Describe the node that this process runs on.

    Args:
        node_id: Ray's id of it.
        kern: Ask for kern's version.

    Raises:
        HostError: There is no usable kern.
    """
    return NodeFacts(
        node_id=node_id,
        host=socket.gethostname(),
        kern_tools=version("kern-tools"),
        python=platform.python_version(),
        kern=kern_version(find_kern()) if kern else None,
    )


class Agreement:
    """Compares every node with those seen before, and with this process.

    Args:
        living: Gives the ids of the nodes that are alive: of those that are gone, as
            after a rolling upgrade, nothing is remembered.
    """

    def __init__(self, living: Callable[[], Iterable[str]]) -> None:
        self._living = living
        self._lock = threading.Lock()
        self._seen: dict[str, NodeFacts] = {}
        self._here = facts_here("", kern=False)

    def check(self, node: NodeFacts) -> None:
        """Take a node in, or refuse it.

        Raises:
            ClusterError: `version_mismatch`; the message names what differs and where.
        """
        with self._lock:
            if self._difference(node) is not None:
                self._forget_gone()
            difference = self._difference(node)
            if difference is None:
                self._seen[node.node_id] = node
        if difference is not None:
            raise ClusterError(difference, code="version_mismatch")

    def _difference(self, node: NodeFacts) -> str | None:
        for other in (self._here, *self._seen.values()):
            for name in _COMPARED:
                there, here = getattr(node, name), getattr(other, name)
                if None not in (there, here) and there != here:
                    return _told(name, node, there, other, here)
        return None

    def _forget_gone(self) -> None:
        living = set(self._living())
        self._seen = {key: node for key, node in self._seen.items() if key in living}


_COMPARED = [
    each.name for each in fields(NodeFacts) if each.name not in ("node_id", "host")
]


def _told(name: str, node: NodeFacts, there: str, other: NodeFacts, here: str) -> str:
    where = f"node {other.host!r}" if other.node_id else "this process"
    return (
        f"node {node.host!r} ({node.node_id[:12]}) has {name} {there!r}, and {where}"
        f" has {here!r}: install the same on all nodes, or remove that node"
    )
