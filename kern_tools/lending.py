"""Hold a directory open, and lend it to threads while it may be closed by another."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

from .descriptors import open_root
from .faults import SandboxClosed


class HeldDirectory:
    """A descriptor of the workspace's own directory."""

    def __init__(self, path: os.PathLike[str]) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._descriptor = open_root(path)

    @property
    def closed(self) -> bool:
        """Whether nothing can be lent any more."""
        return self._descriptor < 0

    @contextmanager
    def lent(self) -> Generator[int]:
        """Lend a descriptor that stays good until the end of the block.

        Raises:
            SandboxClosed: The directory was given up before.
        """
        with self._lock:
            if self.closed:
                raise SandboxClosed(
                    f"the workspace {os.fspath(self._path)!r} is closed: open a new one"
                )
            descriptor = os.dup(self._descriptor)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def give_up(self) -> int | None:
        """Lend nothing any more.

        Returns:
            The descriptor, now the caller's to close; None the second time.
        """
        with self._lock:
            descriptor, self._descriptor = self._descriptor, -1
        return None if descriptor < 0 else descriptor
