"""The rules for calls, their answers and images in the history of a request.

Source: the API's own refusals, such as `An assistant message with 'tool_calls' must be
followed by tool messages responding to each 'tool_call_id'`, `Duplicate value for
'tool_call_id'`, `No tool output found for function call` and `Duplicate item found`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_ANSWERS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "shell_call": "shell_call_output",
    "local_shell_call": "local_shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
}
"""Each kind of call in Responses that the caller has to answer, and with what."""

_CALLS = {answer: call for call, answer in _ANSWERS.items()}

_MAGIC = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}

Item = Mapping[str, Any]


def chat_problems(messages: Sequence[Item]) -> list[str]:
    """Say what is wrong with the messages of a chat.

    Args:
        messages: Messages that fit the SDK's types, which take images from users only.

    Returns:
        A sentence for each problem, beginning with its place in the body.
    """
    found: list[str] = []
    ids: set[str] = set()
    open_calls: dict[str, int] = {}
    for number, message in enumerate(messages):
        place = f"messages[{number}]"
        if message["role"] == "tool":
            if open_calls.pop(message["tool_call_id"], None) is None:
                wrong = f"{message['tool_call_id']!r} is no call that waits for it"
                found.append(f"{place}: answers out of place: {wrong}")
        else:
            found += _unanswered(open_calls, place)
            open_calls = {call["id"]: number for call in _chat_calls(message)}
            found += [f"{place}: {text}" for text in _chat_message(message, ids)]
        found += [f"{place}: {text}" for text in _image_problems(message)]
    return found + _unanswered(open_calls, "the end")


def _unanswered(open_calls: Mapping[str, Any], place: str) -> list[str]:
    return [f"{place}: call {call_id!r} was not answered" for call_id in open_calls]


def _chat_calls(message: Item) -> Sequence[Item]:
    return message.get("tool_calls") or ()


def _chat_message(message: Item, ids: set[str]) -> Iterator[str]:
    """Look at one message that is no answer; `ids` are those used so far."""
    for call in _chat_calls(message):
        if call["id"] in ids:
            yield f"a second call has the id {call['id']!r}"
        ids.add(call["id"])
    says = message.get("content") or message.get("refusal") or message.get("audio")
    calls = message.get("tool_calls") or message.get("function_call")
    if message["role"] == "assistant" and not calls:
        if "tool_calls" in message:
            yield "an empty `tool_calls`"
        if says is None:
            yield "neither content nor calls"


def response_problems(body: Item, said: Mapping[str, Sequence[Item]]) -> list[str]:
    """Say what is wrong with the input of a Responses request.

    Args:
        body: A request that fits the SDK's types.
        said: The output items of earlier responses, by the response's id.

    Returns:
        A sentence for each problem, beginning with its place in the body.
    """
    previous = body.get("previous_response_id")
    if previous is not None and previous not in said:
        return [f"previous_response_id: there was no response {previous!r}"]
    history = _Items(said[previous] if previous is not None else ())
    written = body.get("input", [])
    items: Sequence[Item] = [] if isinstance(written, str) else written
    found: list[str] = []
    for number, item in enumerate(items):
        problems = [*history.add(item), *_image_problems(item)]
        if item.get("type") == "reasoning" and _stands_alone(items[number + 1 :]):
            problems.append("reasoning without the item that it led to")
        found += [f"input[{number}]: {text}" for text in problems]
    return found + _unanswered(history.open_calls, "the end")


class _Items:
    """The items so far, and which of their calls wait for an answer."""

    def __init__(self, before: Iterable[Item]) -> None:
        self.open_calls: dict[str, str] = {}
        self._call_ids: set[str] = set()
        self._item_ids: set[str] = set()
        for item in before:
            list(self.add(item))

    def add(self, item: Item) -> Iterator[str]:
        kind = item.get("type")
        if item.get("id") in self._item_ids:
            yield f"a second item has the id {item['id']!r}"
        if item.get("id"):
            self._item_ids.add(item["id"])
        if kind in _ANSWERS:
            yield from self._call(item)
        elif kind in _CALLS:
            call_id = item["call_id"]
            if self.open_calls.pop(call_id, None) != _CALLS[kind]:
                yield f"no {_CALLS[kind]} {call_id!r} waits for it"

    def _call(self, item: Item) -> Iterator[str]:
        call_id = item["call_id"]
        if call_id in self._call_ids:
            yield f"a second call has the id {call_id!r}"
        self._call_ids.add(call_id)
        self.open_calls[call_id] = item["type"]


def _stands_alone(rest: Sequence[Item]) -> bool:
    if not rest:
        return True
    kind, role = rest[0].get("type"), rest[0].get("role")
    return kind in _CALLS or role in ("user", "system", "developer")


def _image_problems(item: Item) -> Iterator[str]:
    """Look at the images of one message or item, wherever the SDK's types take them."""
    for part in _parts(item):
        if part.get("type") == "image_url":
            yield from _url_problems(part["image_url"]["url"])
        elif part.get("type") == "input_image":
            yield from _url_problems(part.get("image_url"))


def _parts(item: Item) -> Iterator[Item]:
    for key in ("content", "output"):
        written: Any = item.get(key)
        if not isinstance(written, str | None):
            yield from (written if isinstance(written, list) else [written])


def _url_problems(url: str | None) -> Iterator[str]:
    if url is None or not url.startswith("data:"):
        return
    head, _, text = url.removeprefix("data:").partition(",")
    kind, _, coding = head.partition(";")
    if coding != "base64" or kind not in _MAGIC:
        yield f"an image is {head!r}, not one of {', '.join(_MAGIC)} in base64"
        return
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        yield f"an image is no base64: {error}"
        return
    if not data.startswith(_MAGIC[kind]):
        yield f"an image is said to be {kind} and begins with {data[:8]!r}"
