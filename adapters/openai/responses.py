"""Responses, as a loop needs it.

Source: https://platform.openai.com/docs/api-reference/responses/create and
https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from kern_tools.adapters.openai.surface import Said, tokens_in
from kern_tools.loop_result import LoopReason
from kern_tools.reply import member
from kern_tools.wire import calls_in
from kern_tools.wire_history import response_items

_WORDS = ("response.output_text.delta", "response.refusal.delta")
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_YOURS = (
    "computer_call",
    "apply_patch_call",
    "local_shell_call",
    "mcp_approval_request",
)


@dataclass(frozen=True, slots=True)
class Responses:
    """The way of Responses.

    Attributes:
        given: The parameters of every request.
        instructions: Sent with each request; or None.
        streams: Ask for a stream.
        keeps_ids: The server keeps the conversation: what it knows is not sent again.
    """

    given: Mapping[str, Any]
    instructions: str | None
    streams: bool
    keeps_ids: bool
    has_response_ids: bool = True

    def request(self, unsent: Sequence[Any], last_id: str | None) -> dict[str, Any]:
        """Write the next request."""
        request: dict[str, Any] = {"input": list(unsent), **self.given}
        if self.instructions is not None:
            request["instructions"] = self.instructions
        if self.streams:
            request["stream"] = True
        if last_id is not None and self.keeps_ids:
            request["previous_response_id"] = last_id
        return request

    def create(self, client: Any) -> Callable[..., Any]:
        """Give `responses.create`."""
        return cast("Callable[..., Any]", client.responses.create)

    def stream(self) -> ResponseStream:
        """Begin to put a streamed response together."""
        return ResponseStream()

    def read(self, answer: Any) -> Said:
        """Read a response, or the error that a stream told in its place."""
        failed = member(answer, "type") == "error" or _status(answer) == "failed"
        calls = [] if failed else calls_in(answer)
        output = [] if failed else list(member(answer, "output") or [])
        words, refusal = _words(output), _words(output, "refusal")
        return Said(
            text=words + refusal,
            calls=calls,
            ending=LoopReason.FAILED if failed else _ending(answer, words, refusal),
            is_whole=_why_incomplete(answer) != "content_filter",
            tokens=tokens_in(member(answer, "usage"), "input_tokens", "output_tokens"),
            response_id=None if failed else member(answer, "id"),
            yours=[item for item in output if _is_yours(item)],
            items=partial(response_items, output),
            answer=answer,
        )


class ResponseStream:
    """Takes the response out of the events that tell of it.

    The last event has all of it. The SDK's own helper counts on indices that some
    servers leave out, and raises where an answer is incomplete.
    """

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._answer: Any = None

    def add(self, event: Any) -> str:
        """Take one event."""
        kind = member(event, "type")
        if kind in _WORDS:
            return member(event, "delta") or ""
        if kind == "response.output_item.done":
            self._items.append(member(event, "item"))
        elif kind in _ENDS:
            self._answer = member(event, "response")
        elif kind == "error":
            self._answer = event
        return ""

    def answer(self) -> Any:
        """Give the response; None where no event said that it is the end."""
        answer = self._answer
        if member(answer, "type") == "error" or member(answer, "output"):
            return answer
        if answer is not None and self._items:
            return answer.model_copy(update={"output": self._items})
        return answer


def _status(answer: object) -> object:
    return member(answer, "status")


def _why_incomplete(answer: object) -> object:
    return member(member(answer, "incomplete_details"), "reason")


def _ending(answer: object, words: str, refusal: str) -> LoopReason:
    if _why_incomplete(answer) == "content_filter":
        return LoopReason.FILTERED
    if _status(answer) not in ("completed", None):
        return LoopReason.INCOMPLETE
    if refusal:
        return LoopReason.REFUSED
    return LoopReason.DONE if words else LoopReason.EMPTY


def _words(output: Sequence[object], kind: str = "text") -> str:
    """Join what the messages say, or what they refuse with."""
    said: list[str] = []
    for item in output:
        if member(item, "type") == "message":
            said += [member(part, kind) or "" for part in member(item, "content") or ()]
    return "".join(said)


def _is_yours(item: object) -> bool:
    kind = member(item, "type")
    if kind == "tool_search_call":
        return bool(member(item, "execution") == "client")
    return kind in _YOURS
