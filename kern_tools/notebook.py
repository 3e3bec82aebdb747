"""Showing entries of a run in a notebook while it runs."""

from __future__ import annotations

import sys
import threading
import time
from contextvars import copy_context
from importlib import import_module
from typing import Any

from .events import OutputEvent
from .loop_events import LoopEvent, TextPiece
from .run_record import Entry, Said
from .transcript_page import fragment

_PAUSE_S = 0.1
"""Between two drawings of what grows: a browser keeps up with that."""


def is_notebook() -> bool:
    """Tell whether this process is the kernel of a notebook, which can show HTML."""
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel")


class NotebookDisplay:
    """Draws entries into the output of the cell that runs, and again as they grow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawings: dict[Entry, Any] = {}
        self._waiting: dict[Entry, None] = {}
        self._drawn_s = 0.0
        self._timer: threading.Timer | None = None

    def show(self, entry: Entry, event: LoopEvent) -> None:
        """Draw an entry, a little later where more of it is likely to come.

        Args:
            entry: What was added or has changed.
            event: What changed it.
        """
        with self._lock:
            self._waiting[entry] = None
            pause_s = self._drawn_s + _PAUSE_S - time.monotonic()
            if pause_s <= 0 or not _grows(entry, event):
                self._draw()
            elif self._timer is None:
                self._timer = threading.Timer(pause_s, copy_context().run, [self._late])
                self._timer.daemon = True
                self._timer.start()

    def _late(self) -> None:
        with self._lock:
            self._draw()

    def _draw(self) -> None:
        display: Any = import_module("IPython.display").display
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for entry in self._waiting:
            if entry in self._drawings:
                self._drawings[entry].update(_Drawing(entry))
            else:
                self._drawings[entry] = display(_Drawing(entry), display_id=True)
        self._waiting.clear()
        self._drawn_s = time.monotonic()


def _grows(entry: Entry, event: LoopEvent) -> bool:
    """Tell whether more is likely to follow: words come whole, or one by one."""
    if isinstance(event, TextPiece):
        return isinstance(entry, Said) and entry.text != event.text
    return isinstance(event, OutputEvent)


class _Drawing:
    """One entry, in the form in which IPython asks what to show."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return {"text/html": fragment([self._entry]), "text/plain": ""}
