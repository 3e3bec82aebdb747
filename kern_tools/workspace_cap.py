"""Watching a workspace that has a limit: a host directory has no quota of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .faults import SandboxClosed, WorkspaceError
from .workspace import Workspace

_PAUSE_S = 0.02
_FULL_PAUSE_S = 0.002  # each call could add to what is too much already
_SHARE = 10  # of the time, at most a tenth goes into measuring


class CapWatch:
    """Measures the workspace during one call and tells when it is over its limit.

    Args:
        workspace: What is measured.
        max_bytes: The limit.
        on_full: Called once it is over that.
        began_full: It was full before, and looked after more closely.
    """

    def __init__(
        self,
        workspace: Workspace,
        max_bytes: int,
        on_full: Callable[[], None],
        *,
        began_full: bool = False,
    ) -> None:
        self._pause_s = _FULL_PAUSE_S if began_full else _PAUSE_S
        self._workspace = workspace
        self._max_bytes = max_bytes
        self._on_full = on_full
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="kern-tools-cap", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the watch."""
        self._ended.set()
        self._thread.join()

    def is_over(self) -> bool:
        """Tell whether the workspace is over the limit now."""
        used_bytes = self._workspace.usage_bytes(stop_over=self._max_bytes)
        return used_bytes > self._max_bytes

    def _watch(self) -> None:
        pause_s = self._pause_s
        while not self._ended.wait(pause_s):
            began = time.monotonic()
            try:
                is_over = self.is_over()
            except SandboxClosed:
                return
            except WorkspaceError:  # short of descriptors, say: the limit still holds
                continue
            if is_over:
                self._on_full()
                return
            pause_s = max(self._pause_s, _SHARE * (time.monotonic() - began))
