"""Chat Completions, as a loop needs it.

Source: https://platform.openai.com/docs/api-reference/chat/create and
https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

from kern_tools.adapters.openai.surface import Said, tokens_in
from kern_tools.loop_result import LoopReason
from kern_tools.reply import member
from kern_tools.wire import calls_in
from kern_tools.wire_history import chat_items, plain

_SAME = ("index", "type", "role", "id")


@dataclass(frozen=True, slots=True)
class Chat:
    """The way of Chat Completions.

    Attributes:
        given: The parameters of every request.
        instructions: The system message, which no history has; or None.
        streams: Ask for a stream.
    """

    given: Mapping[str, Any]
    instructions: str | None
    streams: bool
    keeps_ids: bool = False
    has_response_ids: bool = False

    def request(self, unsent: Sequence[Any], last_id: str | None) -> dict[str, Any]:
        """Write the next request; the whole history is sent each time."""
        system = {"role": "system", "content": self.instructions}
        messages = [*([system] if self.instructions else []), *unsent]
        request: dict[str, Any] = {"messages": messages, **self.given}
        if self.streams:
            usage = {"include_usage": True}
            request = {"stream_options": usage, **request, "stream": True}
        return request

    def create(self, client: Any) -> Callable[..., Any]:
        """Give `chat.completions.create`."""
        return cast("Callable[..., Any]", client.chat.completions.create)

    def stream(self) -> ChatStream:
        """Begin to put a streamed completion together."""
        return ChatStream()

    def read(self, answer: Any) -> Said:
        """Read a completion."""
        calls = calls_in(answer)
        choices = member(answer, "choices") or [None]
        message = member(choices[0], "message")
        refusal = member(message, "refusal") or ""
        text = _words(member(message, "content")) + refusal
        finish = member(choices[0], "finish_reason")
        return Said(
            text=text,
            calls=calls,
            ending=_ending(message, finish, text, refusal),
            is_whole=finish != "content_filter",
            tokens=tokens_in(
                member(answer, "usage"), "prompt_tokens", "completion_tokens"
            ),
            response_id=member(answer, "id"),
            items=lambda kept, _: chat_items(message, kept),
            answer=answer,
        )


class ChatStream:
    """Puts the chunks of a completion together.

    The SDK's own helper raises for what a loop has to go on with: arguments that are
    cut off or no JSON, an end by the limit on tokens or by the content filter, custom
    tools, and chunks of servers that leave out `index` or count it their own way.
    """

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._calls: list[dict[str, Any]] = []
        self._finish: str | None = None
        self._usage: Any = None

    def add(self, event: Any) -> str:
        """Take one chunk."""
        chunk = plain(event)
        for name in ("id", "created", "model", "system_fingerprint", "service_tier"):
            if chunk.get(name) is not None:
                self._head.setdefault(name, chunk[name])
        self._usage = chunk.get("usage") or self._usage
        choices: list[dict[str, Any]] = chunk.get("choices") or []
        first = next((each for each in choices if not each.get("index")), None)
        if first is None:
            return ""
        self._finish = first.get("finish_reason") or self._finish
        delta: dict[str, Any] = dict(first.get("delta") or {})
        pieces: list[dict[str, Any]] = delta.pop("tool_calls", None) or []
        for piece in pieces:
            _merge(self._call(piece), piece)
        _merge(self._message, delta)
        return f"{_words(delta.get('content'))}{delta.get('refusal') or ''}"

    def answer(self) -> Any:
        """Give the `ChatCompletion`, or None where no chunk said that it is the end."""
        from openai.types.chat import ChatCompletion

        if self._finish is None:
            return None
        message = dict(self._message)
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return ChatCompletion.construct(
            **self._head,
            object="chat.completion",
            choices=[{**choice, "logprobs": None}],
            usage=self._usage,
        )

    def _call(self, piece: Mapping[str, Any]) -> dict[str, Any]:
        """Find the call that a piece belongs to, or begin another."""
        index, call_id = piece.get("index"), piece.get("id")
        same = [call for call in self._calls if call.get("index") == index]
        last = (same if index is not None else self._calls)[-1:]
        if last and call_id in (None, "", last[0].get("id")):
            return last[0]
        if last and not last[0].get("id"):
            return last[0]
        self._calls.append({})
        return self._calls[-1]


def _words(content: object) -> str:
    """Join the parts, where a server sends its text in parts."""
    if isinstance(content, list):
        parts = cast("Sequence[Any]", content)
        return "".join(member(part, "text") or "" for part in parts)
    return content if isinstance(content, str) else ""


def _ending(message: object, finish: object, text: str, refusal: str) -> LoopReason:
    if message is None:
        return LoopReason.FAILED
    if finish == "content_filter":
        return LoopReason.FILTERED
    if finish == "length":
        return LoopReason.INCOMPLETE
    if refusal:
        return LoopReason.REFUSED
    return LoopReason.DONE if text else LoopReason.EMPTY


def _merge(whole: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add a piece of an object: text to text, entries to lists, keys to objects."""
    for name, more in piece.items():
        known = whole.get(name)
        if known is None or more is None:
            whole[name] = known if more is None else deepcopy(more)
        elif name in _SAME or (name == "name" and more == known):
            whole[name] = known or more
        elif isinstance(known, str) and isinstance(more, str):
            whole[name] = known + more
        elif isinstance(known, dict) and isinstance(more, Mapping):
            _merge(cast("dict[str, Any]", known), cast("dict[str, Any]", more))
        elif isinstance(known, list) and isinstance(more, list):
            whole[name] = [*cast("Sequence[Any]", known), *cast("Sequence[Any]", more)]
        else:
            whole[name] = more
