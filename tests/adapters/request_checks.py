"""What the OpenAI API would refuse of a request, found before it is sent there.

Mock servers take anything. So each request that a test recorded is held against the
installed SDK's own types of requests, with unknown keys forbidden, its tools against
JSON Schema and strict mode (`request_tools`), and its history against the rules for
calls and their answers (`request_history`):

    assert_requests(server)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

from openai.types.chat import completion_create_params as chat
from openai.types.responses import response_create_params as responses
from pydantic import TypeAdapter
from pydantic_core import ErrorDetails, SchemaValidator, ValidationError

from kern_tools.scripted import ScriptedRequest, ScriptedServer

from .request_history import chat_problems, response_problems
from .request_tools import tool_problems

Said = Mapping[str, Sequence[Mapping[str, Any]]]
"""The output items of earlier responses, by the response's id."""

_PARAMS = {
    (True, False): chat.CompletionCreateParamsNonStreaming,
    (True, True): chat.CompletionCreateParamsStreaming,
    (False, False): responses.ResponseCreateParamsNonStreaming,
    (False, True): responses.ResponseCreateParamsStreaming,
}
_SHOWN = 6

Problem = tuple[tuple[int | str, ...], str]


def assert_requests(server: ScriptedServer) -> None:
    """Check every request that the server got, each with all that was said before.

    Raises:
        AssertionError: One would be refused; it lists what is wrong, by request.
    """
    said: dict[str, Sequence[Mapping[str, Any]]] = {}
    found: list[str] = []
    pairs = zip(server.requests, server.answers, strict=True)
    for number, (request, answer) in enumerate(pairs, 1):
        found += [f"request {number}: {text}" for text in problems_of(request, said)]
        if answer is not None and "output" in answer:
            said[answer["id"]] = answer["output"]
    assert not found, "\n".join(["the API would refuse this:", *found])


def problems_of(request: ScriptedRequest, said: Said | None = None) -> list[str]:
    """Say what is wrong with one request.

    Args:
        request: The request as it was recorded.
        said: Where it names a `previous_response_id`, what that response held.

    Returns:
        A sentence for each problem, beginning with its place in the body.
    """
    body = request.body
    try:
        json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:
        return [f"body: not JSON in UTF-8: {error}"]
    found = _type_problems(body, is_chat=request.is_chat, is_stream=request.is_stream)
    if found:
        return found
    found = tool_problems(body, is_chat=request.is_chat)
    if request.is_chat:
        return found + chat_problems(body["messages"])
    return found + response_problems(body, said or {})


def _type_problems(body: Any, *, is_chat: bool, is_stream: bool) -> list[str]:
    try:
        typed = body if is_chat else _typed(body)
        _validator(is_chat, is_stream).validate_python(typed, strict=True)
    except ValidationError as error:
        nearest = _nearest(map(_problem, error.errors(include_url=False)), body)
        return [f"{_path(place)}: {text}" for place, text in nearest][:_SHOWN]
    return []


def _typed(body: Mapping[str, Any]) -> dict[str, Any]:
    """Change what the API takes of a framework though the SDK's types do not say so.

    LangChain and LlamaIndex leave `strict` out of a function, which is then chosen by
    the API, and LlamaIndex sends a `user` of null.
    """
    tools = [
        {"strict": None, **tool} if tool.get("type") == "function" else tool
        for tool in body.get("tools", ())
    ]
    more: dict[str, Any] = {"tools": tools} if "tools" in body else {}
    kept = {key: value for key, value in body.items() if (key, value) != ("user", None)}
    return {**kept, **more}


def _problem(error: ErrorDetails) -> Problem:
    if error["type"] == "missing":
        return error["loc"][:-1], f"{error['loc'][-1]!r} is required"
    return error["loc"], error["msg"]


@cache
def _validator(is_chat: bool, is_stream: bool) -> SchemaValidator:
    adapter: TypeAdapter[Any] = TypeAdapter(_PARAMS[is_chat, is_stream])
    return SchemaValidator(_exact(adapter.core_schema))


def _exact(schema: Any) -> Any:
    """Read all of every `Iterable` at once, and forbid keys that the SDK lacks.

    As they are, the SDK's types accept unknown keys, and an `Iterable` is accepted
    unread: nothing in `messages` would be looked at.
    """
    if isinstance(schema, list | tuple):
        parts = [_exact(each) for each in cast("Sequence[Any]", schema)]
        return tuple(parts) if isinstance(schema, tuple) else parts
    if not isinstance(schema, dict):
        return schema
    pairs = cast("dict[str, Any]", schema).items()
    copy = {key: _exact(each) for key, each in pairs}
    if copy.get("type") == "generator":
        copy["type"] = "list"
    if copy.get("type") == "typed-dict":
        copy["extra_behavior"] = "forbid"
    return copy


def _nearest(problems: Iterable[Problem], value: Any) -> list[Problem]:
    """Keep, of each union, what its nearest member complains of.

    A union of thirty kinds of items complains thirty times about one wrong key. In
    each place are only keys and numbers of the body, without the names of members.
    """
    found: list[Problem] = []
    groups: dict[int | str, list[Problem]] = {}
    for place, text in problems:
        if place:
            groups.setdefault(place[0], []).append((place[1:], text))
        else:
            found.append((place, text))
    members: list[list[Problem]] = []
    for head, some in groups.items():
        if _holds(value, head):
            inner = _nearest(some, value[head])
            found += [((head, *place), text) for place, text in inner]
        else:
            members.append(_nearest(some, value))
    return found + (min(members, key=_distance) if members else [])


def _holds(value: Any, head: int | str) -> bool:
    if isinstance(value, list):
        return isinstance(head, int)
    return isinstance(value, dict) and head in value


def _distance(problems: list[Problem]) -> tuple[bool, bool, int]:
    """Tell how far off a member is: another kind of thing first of all."""
    places = {place for place, _ in problems}
    return bool(places & {("type",), ("role",)}), () in places, len(problems)


def _path(place: Sequence[int | str]) -> str:
    steps = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in place)
    return "".join(steps).lstrip(".") or "body"
