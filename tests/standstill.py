"""A real way to make boxes slow to build: settings that kern cannot finish reading."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Standstill:
    """Settings of kern's own, which can be made to hold up every box that starts.

    kern reads its settings file after it was started and before it builds anything. A
    FIFO in its place keeps it waiting there, as a file would on a network file system
    that has stopped answering.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._settings = folder / "kern" / "kern.toml"
        self._settings.parent.mkdir()
        monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))

    @contextmanager
    def held(self) -> Generator[None]:
        """Hold up the boxes that are started in this block."""
        os.mkfifo(self._settings)
        try:
            yield
        finally:
            self._settings.unlink()
