"""What a model says: whole bodies of Chat Completions and Responses, and their streams.

llmock, which serves them, has words of its own that tests of a loop cannot do with: as
of 0.2.2 it makes every call's id up (so that none can come twice), says arguments as
valid JSON only, and knows no custom tool, no other item, no usage to hold against a
budget. So the words are ours, and the sockets, errors and broken streams are its.

Source: https://platform.openai.com/docs/api-reference/chat/object,
https://platform.openai.com/docs/api-reference/responses/object and
https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PIECE_CHARS = 16

_USAGE_CHAT = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
_USAGE = {
    "input_tokens": 1,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 1,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 2,
}

# A call's type in Responses, the field of what it is called with, and the name that the
# events of its pieces have.
_CALL_ITEMS = {
    "function_call": ("arguments", "function_call_arguments"),
    "custom_tool_call": ("input", "custom_tool_call_input"),
}
_CHAT_FIELDS = {"function": "arguments", "custom": "input"}

Body = Mapping[str, Any]
"""A whole body, as the API answers without streaming."""


@dataclass(frozen=True, slots=True)
class Said:
    """One thing said: text, or a call of `name` with `text` as its arguments."""

    text: str
    name: str | None = None
    call_id: str = ""
    free_text: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the model: the request's number, whose ids are made of it."""

    number: int
    model: str
    said: Sequence[Said]


def chat_body(answer: Answer) -> dict[str, Any]:
    """Write a whole chat completion."""
    calls = [_chat_call(each) for each in answer.said if each.name is not None]
    text = "".join(each.text for each in answer.said if each.name is None)
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    message["refusal"] = None
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None}
    return {
        "id": f"chatcmpl-{answer.number}",
        "object": "chat.completion",
        "created": 0,
        "model": answer.model,
        "choices": [{**choice, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": _USAGE_CHAT,
    }


def chat_events(body: Body, *, usage: bool) -> Iterator[dict[str, Any]]:
    """Write a chat completion as the chunks of a stream.

    Args:
        body: The whole of it.
        usage: End with its `usage`, as `stream_options` may ask.
    """
    head = {key: body[key] for key in ("id", "created", "model") if key in body}
    head["object"] = "chat.completion.chunk"
    for choice in body["choices"]:
        for delta in _deltas(choice["message"]):
            part = {"index": choice["index"], "delta": delta, "finish_reason": None}
            yield {**head, "choices": [part]}
        end: dict[str, Any] = {"delta": {}, "finish_reason": choice["finish_reason"]}
        yield {**head, "choices": [{"index": choice["index"], **end}]}
    if usage:
        yield {**head, "choices": [], "usage": body["usage"]}


def response_body(answer: Answer) -> dict[str, Any]:
    """Write a whole response."""
    said = [(f"item_{answer.number}_{n}", each) for n, each in enumerate(answer.said)]
    return {
        "id": f"resp_{answer.number}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": answer.model,
        "output": [_item(item_id, each) for item_id, each in said],
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


def response_events(body: Body) -> Iterator[dict[str, Any]]:
    """Write a response as the events of a stream, numbered.

    Args:
        body: The whole of it; its `status` decides what the last event is.
    """
    for number, event in enumerate(_response_events(body)):
        yield {**event, "sequence_number": number}


def _response_events(body: Body) -> Iterator[dict[str, Any]]:
    begun: dict[str, Any] = {**body, "output": [], "usage": None}
    begun["status"] = "in_progress"
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(body["output"]):
        opened = {"output_index": index, "item": _begun(item)}
        yield {"type": "response.output_item.added", **opened}
        yield from _inside(item, {"item_id": item.get("id"), "output_index": index})
        closed = {"output_index": index, "item": item}
        yield {"type": "response.output_item.done", **closed}
    yield {"type": f"response.{body['status']}", "response": dict(body)}


def _chat_call(call: Said) -> dict[str, Any]:
    kind = "custom" if call.free_text else "function"
    inner = {"name": call.name, _CHAT_FIELDS[kind]: call.text}
    return {"id": call.call_id, "type": kind, kind: inner}


def _deltas(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": message["role"], "content": None}
    for field in ("content", "refusal"):
        for piece in _pieces(message.get(field) or ""):
            yield {field: piece}
    for index, call in enumerate(message.get("tool_calls") or ()):
        kind = call["type"]
        field = _CHAT_FIELDS[kind]
        named: dict[str, Any] = {**call[kind], field: ""}
        yield {"tool_calls": [{**call, "index": index, kind: named}]}
        for piece in _pieces(call[kind][field]):
            more = {"index": index, "type": kind, kind: {field: piece}}
            yield {"tool_calls": [more]}


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE_CHARS):
        yield text[start : start + _PIECE_CHARS]


def _item(item_id: str, said: Said) -> dict[str, Any]:
    if said.name is None:
        head = {"id": item_id, "type": "message", "role": "assistant"}
        return {**head, "status": "completed", "content": [_part(said.text)]}
    kind = "custom_tool_call" if said.free_text else "function_call"
    field, _ = _CALL_ITEMS[kind]
    call = {"id": item_id, "type": kind, "call_id": said.call_id, "name": said.name}
    done = {} if said.free_text else {"status": "completed"}
    return {**call, field: said.text, **done}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _begun(item: Mapping[str, Any]) -> dict[str, Any]:
    blank: dict[str, Any] = {"status": "in_progress"} if "status" in item else {}
    if item["type"] == "message":
        blank["content"] = []
    if item["type"] in _CALL_ITEMS:
        blank[_CALL_ITEMS[item["type"]][0]] = ""
    return {**item, **blank}


def _inside(
    item: Mapping[str, Any], place: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    if item["type"] in _CALL_ITEMS:
        field, name = _CALL_ITEMS[item["type"]]
        for piece in _pieces(item[field]):
            yield {"type": f"response.{name}.delta", **place, "delta": piece}
        whole = {"name": item["name"], field: item[field]}
        yield {"type": f"response.{name}.done", **place, **whole}
    elif item["type"] == "message":
        for index, part in enumerate(item["content"]):
            yield from _part_events({**place, "content_index": index}, part)


def _part_events(
    place: Mapping[str, Any], part: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    kind, field = ("refusal", "refusal")
    if part["type"] == "output_text":
        kind, field = "output_text", "text"
    more: dict[str, Any] = {"logprobs": []} if field == "text" else {}
    added = {"part": {**part, field: ""}}
    yield {"type": "response.content_part.added", **place, **added}
    for piece in _pieces(part[field]):
        yield {"type": f"response.{kind}.delta", **place, "delta": piece, **more}
    yield {"type": f"response.{kind}.done", **place, field: part[field], **more}
    yield {"type": "response.content_part.done", **place, "part": dict(part)}
