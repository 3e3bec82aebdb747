"""What was wrong with arguments, and what to send, in words for the model."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from .schema import plain_schema

QUOTED_MAX_CHARS = 60
_NUMBER = re.compile(r"\s*[+-]?\d{1,12}(\.\d{1,9})?\s*")
_JSON_NAMES = {"dict": "an object", "list": "an array", "tuple": "an array"}


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
    if kind is None:
        return f"{detail['msg']}."
    if detail["type"].endswith("_type") or detail["type"] == "literal_error":
        return f"`{name}` must be {_article(kind)}, not {quoted(detail['input'])}."
    said = detail["msg"].removeprefix("Input ").removeprefix("Value error, ")
    return f"`{name}` {said}, not {quoted(detail['input'])}."


def _kind(found: dict[str, Any]) -> str:
    if "enum" in found:
        return "one of " + ", ".join(f'"{value}"' for value in found["enum"])
    return str(found["type"])


def _article(kind: str) -> str:
    if kind.startswith("one of"):
        return kind
    return f"an {kind}" if kind[0] in "aeio" else f"a {kind}"
