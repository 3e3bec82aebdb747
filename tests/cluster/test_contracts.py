"""The contracts of sandboxes and adapters, held by a sandbox on another node.

One process of the node serves all of them, one sandbox after the other: what is tested
is the way there and back, and a process takes seconds to start.
"""

# Ray leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import ray

from kern_tools import Sandbox, SandboxConfig
from kern_tools.adapters import langchain
from kern_tools.adapters.langchain.caller import LangChainCaller
from kern_tools.cluster.cluster import Cluster
from kern_tools.cluster.link import Link
from kern_tools.cluster.opened import RemoteOpened
from kern_tools.cluster.opening import RemoteOpening
from kern_tools.cluster.placing import actor_class
from kern_tools.cluster.sandbox import Place, RemoteSandbox
from kern_tools.testing import Adapter, AdapterContract, SandboxContract

from .nodes import Nodes

Make = Any


class Borrowed(Link):
    """A link whose actor stays when the sandbox is closed."""

    def _end_actor(self) -> None:
        self._kill.detach()


@pytest.fixture(scope="module")
def place(nodes: Nodes) -> Iterator[Place]:
    """Opens a sandbox in the one process that all share."""
    cluster = Cluster(nodes.address)
    each_stays = {"max_concurrency": 1000}
    actor = actor_class().options(resources={"kern": 1}, **each_stays).remote()

    def place(config: SandboxConfig, opening: RemoteOpening) -> RemoteOpened:
        told: Any = ray.get(actor.arrive.remote())
        link = Borrowed(actor, told.opened())
        return RemoteOpened(config, link, link.read(link.open(config), opening))

    yield place
    ray.kill(actor)
    cluster.leave()


class TestSandboxOnANode(SandboxContract):
    """All clauses; both ends are on one host here, so that processes can be seen."""

    @pytest.fixture
    def make(self, place: Place) -> Iterator[Make]:
        """Open sandboxes that are closed after the test."""
        with ExitStack() as opened:

            def make(**options: Any) -> Sandbox:
                chosen: dict[str, Any] = {"timeout_s": 30, **self.options, **options}
                sandbox = RemoteSandbox(SandboxConfig(**chosen), place)
                return opened.enter_context(sandbox)

            yield make


class TestAdapterOverANode(AdapterContract):
    """The model reads the same words, wherever its code ran."""

    @pytest.fixture
    def sandbox(self, place: Place) -> Iterator[Sandbox]:
        """Where the adapter's calls run."""
        with RemoteSandbox(SandboxConfig(timeout_s=20), place) as sandbox:
            yield sandbox

    @pytest.fixture
    def adapter(self, sandbox: Sandbox) -> Adapter:
        """The tools that code uses, in LangChain."""
        tools = langchain.as_tools(sandbox, "coding")
        return LangChainCaller({tool.name: tool for tool in tools})
