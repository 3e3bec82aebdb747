"""Callers that hang up while they are being answered."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from .channel import Channel

End = Callable[[], object]
"""Ends what is being done for a caller; it may block."""


class HangUps:
    """One thread that learns which callers have hung up."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._watched: dict[int, tuple[Channel, End]] = {}
        name = "kern-tools-cluster-hang-ups"
        threading.Thread(target=self._watch, name=name, daemon=True).start()

    @contextmanager
    def ending(self, channel: Channel, end: End) -> Generator[None]:
        """Have `end` called, on a thread, if the caller hangs up during a block."""
        number = channel.fileno()
        self._watched[number] = (channel, end)
        self._poll.register(number, select.EPOLLRDHUP | select.EPOLLONESHOT)
        try:
            yield
        finally:
            self._poll.unregister(number)
            del self._watched[number]

    def _watch(self) -> None:
        while True:
            for number, _ in self._poll.poll():
                channel, end = self._watched.get(number, (None, None))
                # What is told may be of an earlier channel with this number.
                if channel is not None and end is not None and channel.is_hung_up:
                    threading.Thread(target=end, daemon=True).start()
