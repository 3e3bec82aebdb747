"""The rules for tools in a request, which the SDK's types do not know.

Source: https://platform.openai.com/docs/guides/structured-outputs (strict mode),
https://platform.openai.com/docs/api-reference/chat/create (names, descriptions).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, SchemaError

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DESCRIPTION_CHARS = 1024
_NOT_AT_THE_TOP = {"oneOf", "anyOf", "allOf", "enum", "not"}

_STRICT_KEYWORDS = {
    *("type", "properties", "required", "additionalProperties", "items", "anyOf"),
    *("enum", "const", "$ref", "$defs", "definitions", "title", "description"),
    *("pattern", "format", "multipleOf", "minItems", "maxItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}
_STRICT_FORMATS = {
    *("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6"),
    "uuid",
}
_STRICT_DEPTH = 10
_STRICT_PROPERTIES = 5000

Schema = Mapping[str, Any]


def tool_problems(body: Mapping[str, Any], *, is_chat: bool) -> list[str]:
    """Say what is wrong with `tools` and what speaks of them.

    Args:
        body: A request that fits the SDK's types.
        is_chat: Whether it goes to Chat Completions, where a function is nested.

    Returns:
        A sentence for each problem, beginning with its place in the body.
    """
    tools = body.get("tools")
    if tools is None:
        lost = [key for key in ("tool_choice", "parallel_tool_calls") if key in body]
        return [f"{key}: allowed only beside `tools`" for key in lost if is_chat]
    if not tools:
        return ["tools: an empty list is refused; leave the key out"]
    found: list[str] = []
    names: list[str] = []
    for number, tool in enumerate(tools):
        if tool["type"] in ("function", "custom"):
            inner = tool[tool["type"]] if is_chat else tool
            names.append(inner["name"])
            problems = _known(json.dumps(inner))
            found += [f"tools[{number}]: {text}" for text in problems]
    twice = {name for name in names if names.count(name) > 1}
    found += [f"tools: {name!r} is there twice" for name in sorted(twice)]
    return found + list(_choice(body.get("tool_choice"), names))


def _choice(choice: Any, names: list[str]) -> Iterator[str]:
    if isinstance(choice, str | None) or choice["type"] not in ("function", "custom"):
        return
    name = choice.get(choice["type"], choice)["name"]
    if name not in names:
        yield f"tool_choice: there is no tool {name!r}"


@cache
def _known(tool: str) -> tuple[str, ...]:
    """Look at a definition once, as every request of every test repeats it."""
    return tuple(_definition(json.loads(tool)))


def _definition(tool: Mapping[str, Any]) -> Iterator[str]:
    if not _NAME.fullmatch(tool["name"]):
        yield f"name {tool['name']!r} does not match {_NAME.pattern}"
    if len(tool.get("description") or "") > _DESCRIPTION_CHARS:
        yield f"the description has more than {_DESCRIPTION_CHARS} characters"
    parameters = tool.get("parameters")
    if parameters is None:
        if tool.get("strict"):
            yield "strict mode needs parameters"
        return
    try:
        Draft202012Validator.check_schema(parameters)
    except SchemaError as error:
        yield f"parameters{error.json_path[1:]}: {error.message}"
        return
    if parameters.get("type") != "object" or parameters.keys() & _NOT_AT_THE_TOP:
        yield "parameters: at the top only a plain object is taken"
    yield from _walk(parameters, "parameters", strict=bool(tool.get("strict")))


def _walk(schema: Schema, place: str, *, strict: bool, depth: int = 0) -> Iterator[str]:
    if "array" in _types(schema) and "items" not in schema:
        yield f"{place}: an array without `items`"
    if strict:
        yield from _strict(schema, place)
    if depth > _STRICT_DEPTH:
        yield f"{place}: nested deeper than {_STRICT_DEPTH} levels"
        return
    for inner, name in _below(schema):
        yield from _walk(inner, f"{place}.{name}", strict=strict, depth=depth + 1)


def _below(schema: Schema) -> Iterator[tuple[Schema, str]]:
    for key in ("properties", "$defs", "definitions"):
        for name, inner in schema.get(key, {}).items():
            yield inner, f"{key}.{name}"
    for number, inner in enumerate(schema.get("anyOf", ())):
        yield inner, f"anyOf[{number}]"
    if isinstance(schema.get("items"), dict):
        yield schema["items"], "items"


def _types(schema: Schema) -> list[str]:
    written = schema.get("type", [])
    return [written] if isinstance(written, str) else written


def _strict(schema: Schema, place: str) -> Iterator[str]:
    unknown = sorted(schema.keys() - _STRICT_KEYWORDS)
    if unknown:
        yield f"{place}: strict mode does not take {', '.join(unknown)}"
    if "$ref" in schema and len(schema) > 1:
        yield f"{place}: in strict mode `$ref` stands alone"
    if not schema.keys() & {"type", "anyOf", "enum", "const", "$ref"}:
        yield f"{place}: strict mode needs a `type`"
    if schema.get("format", "date") not in _STRICT_FORMATS:
        yield f"{place}: strict mode does not know the format {schema['format']!r}"
    if "object" in _types(schema):
        yield from _strict_object(schema, place)


def _strict_object(schema: Schema, place: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    if schema.get("additionalProperties") is not False:
        yield f"{place}: strict mode needs `additionalProperties: false`"
    if set(schema.get("required", ())) != set(properties):
        yield f"{place}: in strict mode every property is required, and only those"
    if len(properties) > _STRICT_PROPERTIES:
        yield f"{place}: more than {_STRICT_PROPERTIES} properties"
