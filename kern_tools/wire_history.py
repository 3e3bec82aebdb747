"""What a model said, as items of the history that is sent again.

Servers take back less than they send: an id or an array twice, a name or arguments that
a model made up, half of a surrogate pair, a field for output alone. What would make the
next request a bad one is put right here, and nothing else is changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from .jsontext import NotJson, is_object, read_json
from .reply import member
from .wire import WireCall

_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_MAX_CHARS = 64
_UNREADABLE_MAX_CHARS = 2_000
_FOR_OUTPUT_ALONE = ("created_by", "parsed_arguments", "parsed")
_ONLY_FROM_CHAT = ("annotations", "audio", "function_call", "index", "parsed")


def first_of_each_id(calls: Sequence[WireCall]) -> list[WireCall]:
    """Keep the first call under each id: each can be answered once."""
    return list({call.call_id: call for call in reversed(calls)}.values())[::-1]


def numbered(
    calls: Sequence[WireCall], taken: Iterable[str], turn: int
) -> list[WireCall]:
    """Give every call of a turn an id of its own.

    Args:
        calls: The calls of one turn, in order.
        taken: The ids that the history has.
        turn: Its number, from which missing ids are made.

    Returns:
        The calls, without those that say again what one of the same id says; another
        call under an id that is taken has a new one, and so has a call without id.
    """
    used = set(taken)
    kept: list[WireCall] = []
    seen: list[tuple[Any, ...]] = []
    for number, call in enumerate(calls, 1):
        said = (call.call_id, call.name, call.written)
        if call.call_id and said in seen:
            continue
        seen.append(said)
        call_id = _free(call.call_id or f"call_{turn}_{number}", used)
        used.add(call_id)
        kept.append(call._replace(call_id=call_id))
    return kept


def ids_in(history: Iterable[object]) -> set[str]:
    """Find the ids of all calls in a history, of either way of the API."""
    found: set[str] = set()
    for item in history:
        listed = member(item, "tool_calls")
        calls = cast("Sequence[Any]", listed) if isinstance(listed, list) else ()
        ids = [member(item, "call_id"), *(member(call, "id") for call in calls)]
        found.update(call_id for call_id in ids if isinstance(call_id, str))
    return found


def chat_items(message: object, calls: Sequence[WireCall]) -> list[dict[str, Any]]:
    """Write a message of Chat Completions for the history.

    Args:
        message: As the server sent it.
        calls: Its calls, with the ids and in the number they are to have.

    Returns:
        The assistant message; nothing where it neither says nor calls anything.
    """
    said = plain(message)
    kept = {
        name: value
        for name, value in said.items()
        if value is not None and name not in (*_ONLY_FROM_CHAT, "tool_calls")
    }
    item = {**kept, "role": "assistant", "content": said.get("content")}
    audio = member(said.get("audio"), "id")
    if audio:
        item["audio"] = {"id": audio}
    if calls:
        item["tool_calls"] = [_chat_call(call) for call in calls]
    elif not (item["content"] or item.get("refusal") or audio):
        return []
    return [cast("dict[str, Any]", encodable(item))]


def response_items(
    output: Iterable[object], calls: Sequence[WireCall], dropped: Sequence[WireCall]
) -> list[dict[str, Any]]:
    """Write the output of a response for the history.

    Args:
        output: The items as the server sent them.
        calls: The calls among them, with the ids that they are to have.
        dropped: The calls among them that are not to stand there.

    Returns:
        The items; without reasoning at the end, which must not stand alone.
    """
    known = {id(call.raw): call for call in calls}
    absent = {id(call.raw) for call in dropped}
    items: list[dict[str, Any]] = []
    for raw in output:
        call = known.get(id(raw))
        if call is not None:
            items.append(_response_call(call))
        elif id(raw) not in absent:
            items.append(_returnable(plain(raw)))
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return [cast("dict[str, Any]", encodable(item)) for item in items]


def plain(item: object) -> dict[str, Any]:
    """Give an object of the SDK as the JSON that it came as."""
    if isinstance(item, Mapping):
        return dict(cast("Mapping[str, Any]", item))
    given: dict[str, Any] = cast("Any", item).to_dict(warnings=False)
    return given


def encodable(value: object) -> object:
    """Copy a JSON value with halves of surrogate pairs replaced: they have no UTF-8."""
    if isinstance(value, str):
        ascii_only = value.isascii()
        return value if ascii_only else value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        entries = cast("dict[Any, Any]", value).items()
        return {encodable(key): encodable(each) for key, each in entries}
    if isinstance(value, list | tuple):
        return [encodable(each) for each in cast("Sequence[Any]", value)]
    return value


def _free(call_id: str, used: set[str]) -> str:
    number, free = 1, call_id
    while free in used:
        number += 1
        free = f"{call_id}_{number}"
    return free


def _returnable(item: dict[str, Any]) -> dict[str, Any]:
    kept = {name: item[name] for name in item if name not in _FOR_OUTPUT_ALONE}
    if kept.get("id", "") is None:
        del kept["id"]
    if isinstance(kept.get("content"), list):
        parts = cast("Sequence[Any]", kept["content"])
        kept["content"] = [_returnable(part) if part else part for part in parts]
    return kept


def _response_call(call: WireCall) -> dict[str, Any]:
    item = _returnable(plain(call.raw))
    if item.get("call_id") != call.call_id:
        item.pop("id", None)  # The server may know another call by it.
    item["call_id"] = call.call_id
    if call.is_shell:
        return item
    written = "input" if call.is_free_text else "arguments"
    return {**item, "name": _name(call.name), written: _written(call)}


def _chat_call(call: WireCall) -> dict[str, Any]:
    raw = plain(call.raw)
    kept = {name: raw[name] for name in raw if name not in _ONLY_FROM_CHAT}
    field = "input" if call.is_free_text else "arguments"
    body = {"name": _name(call.name), field: _written(call)}
    return {**kept, "id": call.call_id, "type": call.kind, call.kind: body}


def _name(name: object) -> str:
    """Keep a name that was made up within what a request may hold."""
    return _NO_NAME.sub("_", str(name or ""))[:_NAME_MAX_CHARS] or "unknown"


def _written(call: WireCall) -> str:
    if call.is_free_text:
        return str(call.written or "")
    return _object_text(call.written)


def _object_text(written: object) -> str:
    """Give arguments as JSON of an object, which servers parse that are sent them."""
    if isinstance(written, Mapping):
        return json.dumps(written)
    text = str(written or "")
    try:
        value, repairs = read_json(text)
    except NotJson:
        value, repairs = None, ()
    if is_object(value):
        return json.dumps(value) if repairs else text
    return json.dumps({"unreadable": text[:_UNREADABLE_MAX_CHARS]} if text else {})
