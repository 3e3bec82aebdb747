"""The actor on a node: one sandbox, of which Ray decides where it is and how long.

Ray puts the actor on a node, says when it is gone, and carries what opens and closes
the sandbox. What it is asked in between goes over channels.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray

from kern_tools.config import SandboxConfig
from kern_tools.facts import SandboxFacts
from kern_tools.image import image_info

from .agreement import NodeFacts, facts_here
from .answering import Answering
from .hosted import HostedSandbox
from .serving import Ports, Serving
from .told import Told, told

_ANSWERING_S = 1.0
"""How long the callers of a sandbox that was closed may take to hear of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What there is once an actor is on a node.

    Attributes:
        node: The node.
        address: Host and port where it takes channels.
        secret: What opens them.
    """

    node: NodeFacts
    address: tuple[str, int]
    secret: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Furnished:
    """What there is once a sandbox is open.

    Attributes:
        facts: For the words of prompts.
        node: The node, with its image.
        root: The workspace's directory on the node.
    """

    facts: SandboxFacts
    node: NodeFacts
    root: Path


class SandboxActor:
    """One conversation's sandbox, on the node where Ray put it.

    Args:
        ports: Where it may take channels; None takes any free port.
    """

    def __init__(self, ports: Ports | None = None) -> None:
        self._ports = ports
        self._answering = Answering()
        self._arriving = threading.Lock()
        self._arrived: Arrived | None = None
        self._serving: Serving | None = None

    async def stay(self) -> None:
        """Never come back: whoever awaits this learns when the actor is gone."""
        await asyncio.Event().wait()

    async def arrive(self) -> Told:
        """Say what this node runs, and where this takes channels; as `Arrived`."""
        return await told(asyncio.to_thread(self._arrive))

    def _arrive(self) -> Arrived:
        with self._arriving:
            if self._arrived is None:
                node, answer = facts_here(_node_id()), self._answering.answer
                self._serving = serving = Serving(_node_host(), self._ports, answer)
                self._arrived = Arrived(
                    node=node, address=serving.address, secret=serving.secret
                )
            return self._arrived

    async def open(self, config: SandboxConfig, limits_enforced: bool | None) -> Told:
        """Open the sandbox; its options are checked again, against this host.

        It is told as `Furnished`.

        Args:
            config: Its options.
            limits_enforced: What is known of the node's caps, which takes a box to
                find out.
        """
        return await told(asyncio.to_thread(self._open, config, limits_enforced))

    def _open(self, config: SandboxConfig, limits_enforced: bool | None) -> Furnished:
        sandbox = self._answering.sandbox = HostedSandbox(config.replace())
        sandbox.open()
        sandbox.note_limits(limits_enforced)
        return Furnished(
            facts=sandbox.describe(),
            node=replace(self._arrive().node, image=_image_of(sandbox)),
            root=sandbox.workspace.root,
        )

    async def close(self) -> Told:
        """End all calls, wait until no box is left, remove the workspace."""
        return await told(asyncio.to_thread(self._close))

    def _close(self) -> None:
        self._answering.files.close()
        if self._answering.sandbox is not None:
            self._answering.sandbox.close()
        if self._serving is not None:
            self._serving.wait_quiet(_ANSWERING_S)


def _node_id() -> str:
    return str(ray.get_runtime_context().get_node_id())


def _node_host() -> str:
    about: Any = ray.util
    return str(about.get_node_ip_address())


def _image_of(sandbox: HostedSandbox) -> str:
    """Name what boxes start from; a tag may mean another image on another node."""
    facts = sandbox.describe()
    if facts.host_python:
        with_them = "".join(f", {name} {version}" for name, version in facts.packages)
        return f"host of Python {facts.python_version}{with_them}"
    info = image_info(facts.image)
    if info is None:
        return facts.image
    return f"{facts.image} {info['architecture']} {info['size_bytes']} bytes"
