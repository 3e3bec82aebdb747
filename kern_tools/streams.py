"""Callbacks given a call's output while it arrives, which never hold up the box."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import copy_context

from .backlog import Backlog
from .events import OnOutput, OutputEvent, StreamName

OnText = Callable[[str], object]
PATIENCE_S = 1.0
"""How long the callbacks of an ended call may take to see the rest of its output."""


class Feed:
    """Hands events to a callback, on a thread of its own, in the caller's context.

    A callback that is too slow loses pieces. One that raises is not called again.

    Attributes:
        done: Resolves once the callback will not be called again.
        error: What the callback raised.
    """

    def __init__(
        self, callback: OnOutput, call_id: str, *, most_bytes: int | None = None
    ) -> None:
        self.done: Future[None] = Future()
        self.error: BaseException | None = None
        self._callback = callback
        self._arrived = threading.Event()
        self.backlog = Backlog(call_id, self._arrived.set, most_bytes=most_bytes)
        self._context = copy_context()

    def start(self) -> None:
        """Begin to deliver."""
        deliver = lambda: self._context.run(self._deliver)  # noqa: E731
        threading.Thread(target=deliver, name="kern-tools-feed", daemon=True).start()

    def _deliver(self) -> None:
        try:
            while not self.backlog.is_over:
                self._arrived.wait()
                self._arrived.clear()
                while (event := self.backlog.take()) is not None:
                    self._callback(event)
        except BaseException as error:  # a SystemExit too ends this thread alone
            self.error = error
            self.backlog.drop()
        finally:
            self.done.set_result(None)


class Listeners:
    """All that hear the output of one call while it runs."""

    def __init__(self, call_id: str) -> None:
        self._call_id = call_id
        self._feeds: list[Feed] = []
        self._backlogs: dict[StreamName, list[Backlog]] = {"stdout": [], "stderr": []}

    def add_text(self, stream: StreamName, callback: OnText | None) -> None:
        """Have a callback hear the text of one stream."""
        if callback is None:
            return

        def hear(event: OutputEvent) -> None:
            if event.text:
                callback(event.text)

        feed = Feed(hear, self._call_id)
        self._feeds.append(feed)
        self._backlogs[stream].append(feed.backlog)

    def add_output(self, callback: OnOutput | None, most_bytes: int) -> None:
        """Have a callback hear events of both streams, up to a bound for each."""
        if callback is None:
            return
        feed = Feed(callback, self._call_id, most_bytes=most_bytes)
        self._feeds.append(feed)
        self.add(feed.backlog)

    def add(self, backlog: Backlog) -> None:
        """Have a backlog hear both streams."""
        for backlogs in self._backlogs.values():
            backlogs.append(backlog)

    def ear(self, stream: StreamName) -> Callable[[bytes], None] | None:
        """Give what is to be called with the chunks of one stream."""
        backlogs = self._backlogs[stream]
        if not backlogs:
            return None

        def hear(chunk: bytes) -> None:
            for backlog in backlogs:
                backlog.put(stream, chunk)

        return hear

    def lose(self, stream: StreamName, count: int) -> None:
        """Tell all of bytes that were lost on their way here."""
        for backlog in self._backlogs[stream]:
            backlog.lose(stream, count)

    def start(self) -> None:
        """Begin to call the callbacks."""
        for feed in self._feeds:
            feed.start()

    def end(self) -> None:
        """Tell all that nothing more will come."""
        for backlogs in self._backlogs.values():
            for backlog in backlogs:
                backlog.end()

    def hear_out(self) -> None:
        """Let the callbacks see the rest, for a while; warn of those that failed.

        What a callback has not seen within `PATIENCE_S` is lost to it.
        """
        if not self._feeds:
            return
        wait([feed.done for feed in self._feeds], PATIENCE_S)
        for trouble in [said for feed in self._feeds if (said := _trouble(feed))]:
            warnings.warn(trouble, RuntimeWarning, stacklevel=2)

    def stop(self) -> None:
        """Call no callback again; one that is at work is not waited for."""
        while self._feeds:
            self._feeds.pop().backlog.drop()


def _trouble(feed: Feed) -> str | None:
    if feed.error is not None:
        return f"an output callback raised {feed.error!r} and was not called again"
    if not feed.done.done():
        lost_bytes = feed.backlog.drop()
        return (
            f"an output callback was still at work {PATIENCE_S:g} s after its call had"
            f" ended and is not waited for; {lost_bytes:,} bytes never reached it"
        )
    return None
