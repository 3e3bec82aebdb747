"""The properties of a tool's arguments: what models call them, and what they take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from .schema import plain_schema

ALIASES: Mapping[str, tuple[str, ...]] = {
    "code": (
        *("script", "source", "source_code", "python_code", "python", "program"),
        *("snippet", "cmd", "command", "input"),
    ),
    "command": (
        *("cmd", "script", "code", "commands", "command_line", "shell_command"),
        *("bash", "shell", "input"),
    ),
    "language": ("lang",),
    "timeout_s": ("timeout", "timeout_seconds", "timeout_sec"),
    "path": (
        *("file", "filename", "file_name", "file_path", "filepath"),
        *("directory", "dir", "folder"),
    ),
    "content": ("contents", "text", "data", "body", "file_text"),
    "offset": ("start", "start_line"),
    "limit": ("lines", "max_lines"),
    "old": (
        *("old_string", "old_str", "old_text", "oldstring", "oldtext", "old_content"),
        *("search", "find", "original"),
    ),
    "new": (
        *("new_string", "new_str", "new_text", "newstring", "newtext", "new_content"),
        *("replace", "replacement", "replace_with"),
    ),
    "replace_all": ("replaceall", "all", "global", "multiple", "all_occurrences"),
    "pattern": ("regex", "regexp", "regular_expression", "query", "search", "text"),
    "glob": ("glob_pattern", "pattern", "globs", "query", "name", "file_pattern"),
}
"""A property, and its other names."""

_NAME_MAX_CHARS = 40
QUOTED_MAX_CHARS = 60
_NUMBER = re.compile(r"\s*[+-]?\d{1,12}(\.\d{1,9})?\s*")
_JSON_NAMES = {"dict": "an object", "list": "an array", "tuple": "an array"}


def property_meant(name: object, model: type[BaseModel]) -> str | None:
    """Find the property of `model` that a model called `name`.

    Args:
        name: A key of the arguments; it need not be text.
        model: The argument model.

    Returns:
        The property's own name, or None where nothing tells.
    """
    if not isinstance(name, str) or len(name) > _NAME_MAX_CHARS:
        return None
    if name in model.model_fields:
        return name
    return _names(model).get(name.strip().lower().replace("-", "_"))


@cache
def _names(model: type[BaseModel]) -> dict[str, str]:
    fields = model.model_fields
    other = {alias: field for field in fields for alias in ALIASES.get(field, ())}
    return other | {field: field for field in fields}


def quoted(value: object) -> str:
    """Name a value in few characters, whatever it is."""
    if isinstance(value, str):
        cut = "..." if len(value) > QUOTED_MAX_CHARS else ""
        return f"{value[:QUOTED_MAX_CHARS]!r}{cut}"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, int):
        return str(value) if value.bit_length() < 128 else "a huge integer"
    if isinstance(value, float):
        return repr(value)
    kind = type(value).__name__
    return _JSON_NAMES.get(kind, f"a value of type {kind}")


@cache
def kinds(model: type[BaseModel]) -> dict[str, str]:
    """Say for each property of `model` what it takes, as the model reads it."""
    return {
        name: _kind(found) for name, found in plain_schema(model)["properties"].items()
    }


@cache
def wanted(model: type[BaseModel]) -> str:
    """Say what to send to a tool that takes `model`."""
    fields = model.model_fields
    listed = ", ".join(
        f"`{name}` ({kind}, {'required' if fields[name].is_required() else 'optional'})"
        for name, kind in kinds(model).items()
    )
    return f"Send one JSON object with {listed} and nothing else."


def words(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Say what `error` found, one sentence for each property."""
    found = error.errors(include_url=False, include_context=False)
    names = dict.fromkeys(_name(detail) for detail in found)
    first = {name: next(d for d in found if _name(d) == name) for name in names}
    return [_sentence(name, detail, model) for name, detail in first.items()]


def put_right(
    error: ValidationError, values: dict[str, Any], model: type[BaseModel]
) -> tuple[dict[str, Any], list[str]]:
    """Turn numbers written as text, or as 5.0 for 5, into the numbers meant.

    Args:
        error: What validation said of `values`.
        values: The arguments.
        model: What they were validated against.

    Returns:
        The arguments with those numbers, and a clause for each one changed.
    """
    mended = dict(values)
    repairs: list[str] = []
    for name in dict.fromkeys(_name(detail) for detail in error.errors()):
        number = _number(values.get(name), kinds(model).get(name, ""))
        if number is not None:
            mended[name] = number
            repairs.append(f"read `{name}` {quoted(values[name])} as {number}")
    return mended, repairs


def _number(value: object, kind: str) -> int | float | None:
    if kind not in ("integer", "number"):
        return None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    elif not isinstance(value, float):
        return None
    if value.is_integer():
        return int(value)
    return value if kind == "number" else None


def _name(detail: ErrorDetails) -> str:
    return str(detail["loc"][0]) if detail["loc"] else ""


def _sentence(name: str, detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind = kinds(model).get(name)
    if detail["type"] == "missing":
        return f"`{name}` is missing."
    said = detail["msg"].removeprefix("Input ").removeprefix("Value error, ")
    if kind is None:
        return f"{said}."
    if detail["type"].endswith("_type") or detail["type"] == "literal_error":
        return f"`{name}` must be {_article(kind)}, not {quoted(detail['input'])}."
    return f"`{name}` {said}, not {quoted(detail['input'])}."


def _kind(found: dict[str, Any]) -> str:
    if "enum" in found:
        return "one of " + ", ".join(f'"{value}"' for value in found["enum"])
    return str(found["type"])


def _article(kind: str) -> str:
    if kind.startswith("one of"):
        return kind
    return f"an {kind}" if kind[0] in "aeio" else f"a {kind}"
