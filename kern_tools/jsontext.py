"""Model-written JSON text: read as it stands, or with repairs that are stated."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Never, TypeGuard

from .fences import find_fence

CONTROL_CHARACTERS = "accepted raw line breaks or tabs inside a JSON string"
TRAILING_COMMAS = "dropped a trailing comma from the JSON"
FENCED_JSON = "took the JSON out of its markdown fence"

REPAIRED_MAX_CHARS = 2 << 20
"""Longer text is read only where it is JSON as it stands."""

_TRAILING_COMMA = re.compile(r",\s*+[}\]]")
_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|,(?=\s*+[}\]])', re.DOTALL)


class NotJson(ValueError):
    """The text is no JSON value; the message says why, in words for the model."""


def read_json(text: str) -> tuple[object, tuple[str, ...]]:
    """Read one JSON value from text that a model wrote.

    Args:
        text: The text, whole.

    Returns:
        The value, and each repair that was needed to read it.

    Raises:
        NotJson: No repair makes it JSON, or it says a thing twice.
    """
    try:
        return _decode(text)
    except NotJson:
        fence = find_fence(text) if len(text) <= REPAIRED_MAX_CHARS else None
        if fence is None or not fence.closed or fence.several:
            raise
        unfenced = fence.content
    value, repairs = _decode(unfenced)
    return value, (FENCED_JSON, *repairs)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Tell a JSON object from the other values."""
    return isinstance(value, dict)


def _decode(text: str) -> tuple[object, tuple[str, ...]]:
    try:
        return _parse(_STRICT, text), ()
    except json.JSONDecodeError as error:
        flaw = error
    if len(text) > REPAIRED_MAX_CHARS:
        raise NotJson(_words(flaw)) from flaw
    try:
        return _parse(_LENIENT, text), (CONTROL_CHARACTERS,)
    except json.JSONDecodeError as error:
        flaw = error
    if not _TRAILING_COMMA.search(text):
        raise NotJson(_words(flaw)) from flaw
    shorter = _STRING_OR_COMMA.sub(_without_comma, text)
    try:
        return _parse(_STRICT, shorter), (TRAILING_COMMAS,)
    except json.JSONDecodeError:
        pass
    try:
        return _parse(_LENIENT, shorter), (CONTROL_CHARACTERS, TRAILING_COMMAS)
    except json.JSONDecodeError:
        raise NotJson(_words(flaw)) from flaw


def _parse(decoder: json.JSONDecoder, text: str) -> object:
    try:
        return decoder.decode(text)
    except (json.JSONDecodeError, NotJson):
        raise
    except RecursionError as error:
        raise NotJson("they are nested too deeply") from error
    except ValueError as error:
        raise NotJson("they hold a number with too many digits") from error


def _without_comma(found: re.Match[str]) -> str:
    return "" if found[0] == "," else found[0]


def _words(flaw: json.JSONDecodeError) -> str:
    where = f"line {flaw.lineno}, character {flaw.colno}"
    said = f"{flaw.msg[0].lower()}{flaw.msg[1:].removesuffix(' at')} at {where}"
    cut = flaw.msg.startswith("Unterminated") or flaw.pos >= len(flaw.doc.rstrip())
    if flaw.doc.strip() and cut:
        return f"{said}; the text ends too early, after {len(flaw.doc):,} characters"
    return said


def _constant(name: str) -> Never:
    raise NotJson(f"{name} is not a JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise NotJson(f"{twice[:40]!r} is given twice")
    return built


_STRICT = json.JSONDecoder(parse_constant=_constant, object_pairs_hook=_object)
_LENIENT = json.JSONDecoder(
    parse_constant=_constant, object_pairs_hook=_object, strict=False
)
