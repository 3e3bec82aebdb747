"""Watching a workspace that has a limit: a host directory has no quota of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .workspace import Workspace

_PAUSE_S = 0.02
_SHARE = 10  # of the time, at most a tenth goes into measuring


class CapWatch:
    """Measures the workspace during one call and tells when it is over its limit."""

    def __init__(
        self, workspace: Workspace, max_bytes: int, on_full: Callable[[], None]
    ) -> None:
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

    def _watch(self) -> None:
        pause_s = _PAUSE_S
        while not self._ended.wait(pause_s):
            began = time.monotonic()
            used_bytes = self._workspace.usage_bytes(stop_over=self._max_bytes)
            if used_bytes > self._max_bytes:
                self._on_full()
                return
            pause_s = max(_PAUSE_S, _SHARE * (time.monotonic() - began))
