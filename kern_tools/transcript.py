"""A run to look at: calls, verdicts, streams, charts and times, live and afterwards.

    transcript = Transcript()
    asked = "How warm was July?"
    run_loop(client, tools, asked, model="gpt-5.5", on_event=transcript)
    transcript.to_html("run.html")

In a notebook it draws itself while the run goes on, and is its own picture as the last
line of a cell.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Literal, Protocol, Self

from .events import OutputEvent, ResultEvent
from .loop_events import (
    CallFinished,
    CallStarted,
    LoopEvent,
    LoopFinished,
    TextPiece,
    TurnStarted,
)
from .quantities import count
from .reply import Reply
from .result import ExecutionResult
from .run_record import UNNAMED, Ended, Entry, RunRecord

_EVENTS = (
    CallFinished,
    CallStarted,
    LoopFinished,
    OutputEvent,
    TextPiece,
    TurnStarted,
)


class Display(Protocol):
    """Shows a run while it goes on."""

    def show(self, entry: Entry, event: LoopEvent) -> None:
        """Show an entry that was added, or that has changed, by an event."""
        ...


class Transcript:
    """What an agent's run did, to look at; give it to a loop as `on_event`.

    Events may come from any thread. All that a model or code wrote is shown as text,
    and images as images: nothing of it can act where it is shown.

    Args:
        title: A heading, such as the question that was asked.
        live: Show it while it runs: in a notebook, else on stdout; or on a display of
            your own. None does so in a notebook alone.
    """

    def __init__(self, title: str = "", *, live: bool | Display | None = None) -> None:
        self.title = title
        self._live = live
        self._lock = threading.RLock()
        self._record = RunRecord()
        self._started_s: float | None = None

    def __call__(self, event: LoopEvent) -> None:
        """Take in what a loop tells."""
        with self._lock:
            self._tell(event, time.monotonic())

    def add(self, *seen: LoopEvent | ResultEvent | Reply | ExecutionResult) -> Self:
        """Take in what did not come by `on_event`.

        Args:
            *seen: Events, replies or results, in order: what `stream_code` tells, the
                replies in what `answer` gives, what an adapter's `events_of` makes of
                its framework's own.

        Returns:
            Itself.

        Raises:
            TypeError: It is something else.
        """
        with self._lock:
            for one in seen:
                self._tell(_event_of(one), None)
        return self

    @property
    def replies(self) -> list[Reply]:
        """The replies so far, in the order in which their calls started."""
        with self._lock:
            return [call.reply for call in self._record.calls if call.reply is not None]

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Save it as one file that needs no other and runs nothing.

        Args:
            path: The file; one that is there is replaced.

        Returns:
            The path.
        """
        from .transcript_page import document

        saved = Path(path)
        with self._lock:
            page = document(self._record.entries, self.title)
        saved.write_text(page, encoding="utf-8")
        return saved

    def _repr_html_(self) -> str:
        from .transcript_page import fragment

        with self._lock:
            return fragment(self._record.entries, self.title)

    def __str__(self) -> str:
        from .terminal import plain_text

        with self._lock:
            return plain_text(self._record.entries, self.title)

    def __repr__(self) -> str:
        return f"<Transcript of {count(len(self._record.calls), 'call')}>"

    def _tell(self, event: LoopEvent, now_s: float | None) -> None:
        if isinstance(event, TurnStarted) and event.turn == 1:
            self._started_s = now_s
        entry = self._record.tell(event)
        if isinstance(entry, Ended):
            entry.elapsed_s = _since(self._started_s, now_s)
        if self._live is None or self._live is True:
            self._live = _display(self._live is True)
        if entry is not None and self._live is not False:
            self._live.show(entry, event)


def _since(started_s: float | None, now_s: float | None) -> float | None:
    return None if started_s is None or now_s is None else now_s - started_s


def _display(wanted: bool) -> Display | Literal[False]:
    from .notebook import NotebookDisplay, is_notebook

    if is_notebook():
        return NotebookDisplay()
    if not wanted:
        return False
    from .terminal import TerminalDisplay

    return TerminalDisplay()


def _event_of(seen: object) -> LoopEvent:
    match seen:
        case ResultEvent(call_id=call_id, result=result):
            return _finished(Reply(name=UNNAMED, parts=(), result=result), call_id)
        case ExecutionResult():
            return _finished(Reply(name=UNNAMED, parts=(), result=seen), seen.call_id)
        case Reply():
            return _finished(seen, seen.call_id)
        case _ if isinstance(seen, _EVENTS):
            return seen
        case _:
            raise TypeError(
                f"a transcript has no entry for {type(seen).__name__}; give it events,"
                " replies or results, or what an adapter's events_of makes of it"
            )


def _finished(reply: Reply, call_id: str | None) -> CallFinished:
    return CallFinished(
        turn=0,
        call_id=call_id or "",
        tool=reply.name,
        reply=reply,
        duration_ms=0 if reply.result is None else reply.result.duration_ms,
    )
