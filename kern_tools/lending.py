"""The boxes of a sandbox, of which some are lent to the callers of their calls."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING

from .dispatch import Carrier

if TYPE_CHECKING:
    from collections.abc import Callable

    from .box import Box
    from .call import Call
    from .engine import Engine

LEAVING = 4
"""So many boxes of a sandbox may be on their way out, where fewer calls may run."""


class Lender(Carrier):
    """Holds boxes; the callers of cells may serve these themselves for a moment.

    Attributes:
        takes_turns: A call begins when the one before it is over, and not earlier.

    Args:
        engine: Where the boxes live.
        max_running: How many calls may run at once.
        on_gone: Told when nothing is left of a box.
    """

    takes_turns = False

    def __init__(
        self, engine: Engine, max_running: int, on_gone: Callable[[Box], None]
    ) -> None:
        self._engine = engine
        self._boxes: set[Box] = set()
        self._may_leave = max(LEAVING, max_running)
        self._on_gone = on_gone
        self._to_start: deque[Callable[[], None]] = deque()

    @property
    def empty(self) -> bool:
        """Nothing is left of any box."""
        return not self._boxes

    @property
    def guests(self) -> list[Call]:
        """The calls to whose callers boxes are lent; any thread may ask."""
        guests = (box.guest for box in list(self._boxes))
        return [call for call in guests if call is not None]

    @abstractmethod
    def lend(self, call: Call) -> Box | None:
        """Lend a box to the caller of a cell, if one could serve it now.

        Any thread may ask.
        """

    def take_back(self, call: Call) -> None:
        """Go on with a call whose caller was lent a box."""
        for box in list(self._boxes):
            box.take_back(call)

    def replace(self, call: Call) -> None:
        """End the box that the caller of a call was lent, and that did not answer."""
        for box in list(self._boxes):
            if box.guest is call:
                box.refuse()

    def _when_startable(self, start: Callable[[], None]) -> None:
        """Run `start` in one of the engine's starting slots, now or later.

        A call is over before kern has left its box, which takes longer on a busy host:
        what is on its way out holds descriptors, so no more is started meanwhile.
        """
        self._to_start.append(start)
        self._start_some()

    def _start_some(self) -> None:
        while self._to_start and self._leaving < self._may_leave:
            self._engine.when_startable(self._to_start.popleft())

    @property
    def _leaving(self) -> int:
        return sum(box.leaving for box in self._boxes)

    def _let_go_of(self, box: Box) -> None:
        """Hold a box no longer, of which nothing is left."""
        self._boxes.discard(box)
        self._on_gone(box)
        self._start_some()
