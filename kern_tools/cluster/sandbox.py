"""A sandbox whose boxes run on a node of the cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from kern_tools.config import SandboxConfig
from kern_tools.faults import SandboxClosed
from kern_tools.locations import local_path
from kern_tools.sandbox import Sandbox

from .opened import RemoteOpened
from .opening import RemoteOpening
from .parcels import received, sent
from .trouble import NodeLost

if TYPE_CHECKING:
    from kern_tools.facts import SandboxFacts
    from kern_tools.locations import Location
    from kern_tools.opened import Opened
    from kern_tools.snapshot import RestoreReport, SnapshotReport
    from kern_tools.underway import Opening

Place = Callable[[SandboxConfig, RemoteOpening], RemoteOpened]
"""Finds a node and opens a sandbox there."""


class RemoteSandbox(Sandbox):
    """As `Sandbox`; made by a `ClusterPool`.

    A call that runs while its node is lost ends with the fault `killed`, whose reason
    is `node_lost`; the sandbox is closed then, and its methods raise `NodeLost`.
    """

    def __init__(self, config: SandboxConfig, place: Place) -> None:
        super().__init__(config)
        self._place = place
        self._remote: RemoteOpened | None = None

    def _open(self) -> None:
        opening = RemoteOpening()
        self._opening = cast("Opening", opening)
        try:
            self._check_not_closed()
            self._remote = remote = self._place(self.config, opening)
            # It has what `SandboxCalls` and `SandboxFiles` use of an `Opened`.
            self._opened = cast("Opened", remote)
        finally:
            self._opening = None
            opening.finish()
        if self._closed:  # too late to cut it short
            remote.close()
            raise SandboxClosed("the sandbox was closed while it was being opened")

    @property
    def is_open(self) -> bool:
        """It was opened, is not closed, and its node is still there."""
        remote = self._remote
        return super().is_open and remote is not None and remote.link.lost is None

    def _ready(self) -> Opened:
        opened, remote = super()._ready(), self._remote
        if remote is not None and remote.link.lost is not None:
            raise NodeLost(remote.link.lost)
        return opened

    def describe(self) -> SandboxFacts:
        """Give the plain facts that prompts are rendered from; no secrets."""
        return self._there().facts

    @property
    def quiet_since_s(self) -> float | None:
        """When it was last used, by `time.monotonic()`; None while it is."""
        return self._there().quiet_since_s

    @property
    def node(self) -> str:
        """The host name of the node that its boxes run on."""
        return self._there().link.node

    def wait_ready(self, timeout_s: float | None = None) -> bool:
        """Wait until the boxes that `prewarm` asks for are ready, as `Sandbox`."""
        try:
            return self._there().when_ready().result(timeout_s)
        except TimeoutError:
            return False

    def snapshot(self, target: Location, *, max_bytes: int = 4 << 30) -> SnapshotReport:
        """Save the workspace as `Sandbox.snapshot`.

        Args:
            target: A path of this host, to which it is sent; or a URL for fsspec,
                which the node must reach, to which it goes straight.
            max_bytes: Refuse a workspace whose files add up to more.
        """
        link = self._there().link
        if local_path(target) is None:
            report: SnapshotReport = link.look(
                "sandbox", "snapshot", os.fspath(target), max_bytes=max_bytes
            )
            return report
        return received(link, target, max_bytes)

    def restore(self, source: Location, *, max_bytes: int = 4 << 30) -> RestoreReport:
        """Bring back the files of a snapshot, as `Sandbox.restore`.

        Args:
            source: A path of this host, or a URL for fsspec that the node must reach.
            max_bytes: Refuse a snapshot whose files add up to more.
        """
        link = self._there().link
        if local_path(source) is None:
            report: RestoreReport = link.ask(
                "sandbox", "restore", os.fspath(source), max_bytes=max_bytes
            )
            return report
        return sent(link, source, max_bytes)

    def _there(self) -> RemoteOpened:
        self._ready()
        assert self._remote is not None
        return self._remote
