"""The boxes of a sandbox, of which some are lent to the callers of their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .dispatch import Carrier

if TYPE_CHECKING:
    from .box import Box
    from .call import Call


class Lender(Carrier):
    """Holds boxes; the callers of cells may serve these themselves for a moment.

    Attributes:
        takes_turns: A call begins when the one before it is over, and not earlier.
    """

    takes_turns = False

    def __init__(self) -> None:
        self._boxes: set[Box] = set()

    @property
    def empty(self) -> bool:
        """Nothing is left of any box."""
        return not self._boxes

    @property
    def guests(self) -> list[Call]:
        """The calls to whose callers boxes are lent; any thread may ask."""
        guests = (box.guest for box in list(self._boxes))
        return [call for call in guests if call is not None]

    def lend(self, call: Call) -> Box | None:
        """Lend a box to the caller of a cell, if one could serve it now.

        Any thread may ask.
        """
        raise NotImplementedError

    def take_back(self, call: Call) -> None:
        """Go on with a call whose caller was lent a box."""
        for box in list(self._boxes):
            box.take_back(call)

    def replace(self, call: Call) -> None:
        """End the box that the caller of a call was lent, and that did not answer."""
        for box in list(self._boxes):
            if box.guest is call:
                box.refuse()
