"""What a model says, in the bodies and events of Chat Completions and Responses.

Source: https://platform.openai.com/docs/api-reference/chat/object,
https://platform.openai.com/docs/api-reference/responses/object and
https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_PIECE_CHARS = 16

_USAGE_CHAT = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
_USAGE = {
    "input_tokens": 1,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 1,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 2,
}


@dataclass(frozen=True, slots=True)
class Said:
    """One thing said: text, or a call of `name` with `text` as its arguments."""

    text: str
    name: str | None = None
    call_id: str = ""
    free_text: bool = False

    @property
    def kind(self) -> str:
        """Its type in Responses."""
        if self.name is None:
            return "message"
        return "custom_tool_call" if self.free_text else "function_call"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the model: the request's number, whose ids are made of it."""

    number: int
    model: str
    said: Sequence[Said]


def chat_body(answer: Answer) -> dict[str, Any]:
    """Write a whole chat completion."""
    said = answer.said
    calls = [_chat_call(each, each.text) for each in said if each.name is not None]
    message: dict[str, Any] = {"role": "assistant", "content": _chat_text(said)}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": _chat_end(said)}
    head = _chat_head("chat.completion", answer)
    return {**head, "choices": [choice], "usage": _USAGE_CHAT}


def chat_chunks(answer: Answer) -> list[dict[str, Any]]:
    """Write the same as the chunks of a stream."""
    said, head = answer.said, _chat_head("chat.completion.chunk", answer)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    deltas += [{"content": piece} for piece in _pieces(_chat_text(said) or "")]
    calls = [each for each in said if each.name is not None]
    for index, call in enumerate(calls):
        deltas.append({"tool_calls": [{"index": index, **_chat_call(call, "")}]})
        kind = "custom" if call.free_text else "function"
        field = "input" if call.free_text else "arguments"
        for piece in _pieces(call.text):
            more = {"index": index, "type": kind, kind: {field: piece}}
            deltas.append({"tool_calls": [more]})
    ends = [None] * len(deltas) + [_chat_end(said)]
    return [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in zip([*deltas, {}], ends, strict=True)
    ]


def response_body(answer: Answer) -> dict[str, Any]:
    """Write a whole response."""
    return {
        "id": f"resp_{answer.number}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": answer.model,
        "output": [
            _item(item_id, each, each.text) for item_id, each in _numbered(answer)
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": _USAGE,
    }


def response_events(answer: Answer) -> list[dict[str, Any]]:
    """Write the same as the events of a stream."""
    whole = response_body(answer)
    begun: dict[str, Any] = {
        **whole,
        "status": "in_progress",
        "output": [],
        "usage": None,
    }
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, (item_id, each) in enumerate(_numbered(answer)):
        events += _item_events(index, item_id, each)
    events.append({"type": "response.completed", "response": whole})
    return [{**event, "sequence_number": n} for n, event in enumerate(events)]


def _chat_head(kind: str, answer: Answer) -> dict[str, Any]:
    name = {"id": f"chatcmpl-{answer.number}", "object": kind}
    return {**name, "created": 0, "model": answer.model}


def _chat_text(said: Sequence[Said]) -> str | None:
    return "".join(each.text for each in said if each.name is None) or None


def _chat_end(said: Sequence[Said]) -> str:
    return "tool_calls" if any(each.name is not None for each in said) else "stop"


def _chat_call(call: Said, text: str) -> dict[str, Any]:
    kind, field = ("custom", "input") if call.free_text else ("function", "arguments")
    return {"id": call.call_id, "type": kind, kind: {"name": call.name, field: text}}


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE_CHARS):
        yield text[start : start + _PIECE_CHARS]


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _numbered(answer: Answer) -> list[tuple[str, Said]]:
    return [(f"item_{answer.number}_{n}", each) for n, each in enumerate(answer.said)]


def _item(item_id: str, said: Said, text: str) -> dict[str, Any]:
    item = {"id": item_id, "type": said.kind}
    if said.kind == "message":
        content = [_part(text)] if text else []
        return {**item, "role": "assistant", "status": "completed", "content": content}
    call = {**item, "call_id": said.call_id, "name": said.name}
    if said.free_text:
        return {**call, "input": text}
    return {**call, "arguments": text, "status": "completed"}


def _item_events(index: int, item_id: str, said: Said) -> Iterator[dict[str, Any]]:
    place = {"item_id": item_id, "output_index": index}
    opened = {"output_index": index, "item": _item(item_id, said, "")}
    yield {"type": "response.output_item.added", **opened}
    if said.kind == "message":
        yield from _text_events({**place, "content_index": 0}, said.text)
    else:
        name = "custom_tool_call_input" if said.free_text else "function_call_arguments"
        field = "input" if said.free_text else "arguments"
        for piece in _pieces(said.text):
            yield {"type": f"response.{name}.delta", **place, "delta": piece}
        whole = {"name": said.name, field: said.text}
        yield {"type": f"response.{name}.done", **place, **whole}
    closed = {"output_index": index, "item": _item(item_id, said, said.text)}
    yield {"type": "response.output_item.done", **closed}


def _text_events(place: dict[str, Any], text: str) -> Iterator[dict[str, Any]]:
    yield {"type": "response.content_part.added", **place, "part": _part("")}
    for piece in _pieces(text):
        delta: dict[str, Any] = {"delta": piece, "logprobs": []}
        yield {"type": "response.output_text.delta", **place, **delta}
    yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": _part(text)}
