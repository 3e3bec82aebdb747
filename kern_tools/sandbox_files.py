"""The files of a sandbox: read and written, copied out, kept and brought back."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from .config import SandboxConfig
from .result import FileInfo

if TYPE_CHECKING:
    from pathlib import Path

    from .locations import Location
    from .opened import Opened
    from .snapshot import RestoreReport, SnapshotReport
    from .workspace import Workspace


class SandboxFiles(ABC):
    """What a `Sandbox` does with its workspace."""

    config: SandboxConfig

    @abstractmethod
    def _ready(self) -> Opened: ...

    @property
    def workspace(self) -> Workspace:
        """The workspace's safe host side."""
        return self._ready().workspace

    def write_file(self, path: str, data: str | bytes) -> None:
        """Write one file of the workspace, byte for byte; parents are made.

        Raises:
            WorkspaceError: `code` says why it cannot be written.
        """
        self.workspace.write_file(path, data)

    def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Read one regular file of the workspace.

        Raises:
            WorkspaceError: `code` says why not; `too_large` if over `max_bytes`.
        """
        return self.workspace.read_file(path, max_bytes=max_bytes)

    def list_files(self, path: str = "") -> list[FileInfo]:
        """List the regular files below a folder of the workspace, sorted by path."""
        return self.workspace.list_files(path)

    def export(
        self, folder: str | os.PathLike[str], *paths: str, overwrite: bool = False
    ) -> list[Path]:
        """Copy regular files of the workspace to a folder of the host.

        No link is followed on either side, odd names become printable ones, and the
        copies are never executable.

        Args:
            folder: Where to put them, made if missing; best one of their own.
            *paths: Files, and directories to take whole; with none, everything.
            overwrite: Replace files that are there; otherwise they are refused, before
                anything is copied.

        Returns:
            The copies, in the order of `paths`, then by name.

        Raises:
            WorkspaceError: `exists`, or a file cannot be read or written.
        """
        from .export import export_files

        return export_files(self.workspace, folder, paths, overwrite=overwrite)

    def snapshot(self, target: Location, *, max_bytes: int = 4 << 30) -> SnapshotReport:
        """Save the workspace, and what made it, as one `.tar.gz`.

        Best between calls. A snapshot that fails leaves what was at `target`. Links,
        pipes and the values of `env` are not in it; nor are processes and names.

        Args:
            target: A path, or a URL for fsspec, such as `s3://bucket/run.tar.gz`.
            max_bytes: Refuse a workspace whose files add up to more.

        Returns:
            How many files and bytes it holds, and how many entries were left out.

        Raises:
            SnapshotError: `code` says why it cannot be made.
            WorkspaceError: A file of the workspace cannot be read.
            ImportError: The URL needs a library that is not installed.
        """
        from .snapshot import save_snapshot

        image, workspace = self._ready().image, self.workspace
        return save_snapshot(
            workspace, target, config=self.config, image=image, max_bytes=max_bytes
        )

    async def asnapshot(
        self, target: Location, *, max_bytes: int = 4 << 30
    ) -> SnapshotReport:
        """Do as `snapshot` on a thread, which a cancellation does not stop."""
        import asyncio

        return await asyncio.to_thread(self.snapshot, target, max_bytes=max_bytes)

    def restore(self, source: Location, *, max_bytes: int = 4 << 30) -> RestoreReport:
        """Put the files of a snapshot into the workspace, over those of the same name.

        Best between calls. Options, image and packages stay as they are here: what
        differs from where the snapshot was made is told in the report's `notes`.

        Args:
            source: A path, or a URL for fsspec.
            max_bytes: Refuse a snapshot whose files add up to more.

        Returns:
            What was restored, and what is other here than where it was made.

        Raises:
            SnapshotError: It cannot be used or read; nothing was changed.
            WorkspaceError: The files cannot be put into this workspace.
            ImportError: The URL needs a library that is not installed.
        """
        from .snapshot import restore_snapshot

        opened = self._ready()
        report = restore_snapshot(
            opened.workspace,
            source,
            config=self.config,
            image=opened.image,
            max_bytes=max_bytes,
        )
        opened.share()
        return report

    async def arestore(
        self, source: Location, *, max_bytes: int = 4 << 30
    ) -> RestoreReport:
        """Do as `restore` on a thread, which a cancellation does not stop."""
        import asyncio

        return await asyncio.to_thread(self.restore, source, max_bytes=max_bytes)
