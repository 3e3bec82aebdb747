"""What the two ways of the API have in common, as a loop needs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from kern_tools.loop_result import LoopReason
from kern_tools.wire import WireCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the model said in one turn.

    Attributes:
        text: Its words, a refusal included.
        calls: The calls that it made, as they were written.
        ending: Why the loop ends here, where there is nothing to answer.
        is_whole: The server holds the turn to be valid: its calls may be run.
        tokens: What was read and what was written; None where the server did not tell.
        response_id: Of a response, its id.
        yours: Calls of a kind that only the caller can answer.
        items: Gives the history's items, of the calls that stay and those that go.
        answer: The server's answer itself.
    """

    text: str
    calls: Sequence[WireCall]
    ending: LoopReason
    is_whole: bool
    tokens: tuple[int, int] | None
    response_id: str | None = None
    yours: Sequence[Any] = ()
    items: Callable[[Sequence[WireCall], Sequence[WireCall]], list[dict[str, Any]]]
    answer: Any


class Stream(Protocol):
    """Puts one streamed answer together."""

    def add(self, event: Any) -> str:
        """Take one event; returns the words that it adds, if any."""
        ...

    def answer(self) -> Any:
        """Give the answer as if it had come at once, or None where it was cut off."""
        ...


class Surface(Protocol):
    """One way of the API."""

    @property
    def keeps_ids(self) -> bool:
        """Whether the server keeps the conversation, so that no id can be changed."""
        ...

    @property
    def has_response_ids(self) -> bool:
        """Whether answers have ids that a later request can name."""
        ...

    def request(self, unsent: Sequence[Any], last_id: str | None) -> dict[str, Any]:
        """Write the next request.

        Args:
            unsent: The items that the server has to be sent.
            last_id: The id of the response before them, where the server keeps it.
        """
        ...

    def create(self, client: Any) -> Callable[..., Any]:
        """Give the client's method that takes the request."""
        ...

    def stream(self) -> Stream:
        """Begin to put a streamed answer together."""
        ...

    def read(self, answer: Any) -> Said:
        """Read an answer; raises TypeError where it is none."""
        ...


def tokens_in(usage: object, read: str, written: str) -> tuple[int, int] | None:
    """Read what was used, by the names that the way of the API has for it."""
    counts = (getattr(usage, read, None), getattr(usage, written, None))
    if isinstance(counts[0], int) and isinstance(counts[1], int):
        return counts[0], counts[1]
    return None


def unforced(choice: object) -> object:
    """Give the `tool_choice` for the turns after the first.

    A model that is forced to call a tool in every turn would never answer.
    """
    if not isinstance(choice, Mapping):
        return "auto" if choice == "required" else choice
    given = cast("Mapping[str, Any]", choice)
    if given.get("type") != "allowed_tools":
        return "auto"
    nested = given.get("allowed_tools")
    if nested is None:
        return {**given, "mode": "auto"}
    return {**given, "allowed_tools": {**nested, "mode": "auto"}}
