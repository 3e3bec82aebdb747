"""A pool whose sandboxes run on the nodes of a Ray cluster.

    from kern_tools.cluster import ClusterPool

    with ClusterPool(address="10.0.0.5:6379", snapshots="s3://bucket/agents") as pool:
        tools = as_tools(pool)

Each conversation's sandbox is an actor on some node, and its boxes run there. Needs
`pip install 'kern-tools[ray]'`, here and on every node.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kern_tools.extras import missing

try:
    import ray as _  # noqa: F401 - named here, where the error can say what to install
except ImportError as error:
    missing("ray", error, user="kern_tools.cluster")

if TYPE_CHECKING:
    from .agreement import NodeFacts
    from .pool import ClusterPool
    from .trouble import ClusterError, NodeLost

__all__ = ["ClusterError", "ClusterPool", "NodeFacts", "NodeLost"]

_HOMES = {
    "ClusterError": "trouble",
    "ClusterPool": "pool",
    "NodeFacts": "agreement",
    "NodeLost": "trouble",
}


def __getattr__(name: str) -> Any:
    """Load a name at its first use: an actor has no use for pools."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
