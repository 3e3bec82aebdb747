"""Definitions of tools, from one way of the OpenAI API to the other.

Chat Completions nests what Responses has flat: a function under `function`, a custom
tool under `custom`, and its grammar under `grammar`. A function is strict where it says
so; Responses has to be told where it is not. Other types are the server's own and stay
as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_NESTED = ("function", "custom")


def for_chat(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Write a definition as Chat Completions takes it."""
    kind, body = _taken_apart(definition)
    if kind not in _NESTED:
        return dict(definition)
    form = body.get("format")
    if isinstance(form, Mapping) and "syntax" in form:
        grammar = dict(cast("Mapping[str, Any]", form))
        body["format"] = {"type": grammar.pop("type"), "grammar": grammar}
    if kind == "function":
        # Servers without strict mode may refuse the key, and null is nowhere taken.
        absent = [name for name in ("strict", "parameters") if not body.get(name)]
        body = {name: body[name] for name in body if name not in absent}
    return {"type": kind, kind: body}


def for_responses(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Write a definition as Responses takes it."""
    kind, body = _taken_apart(definition)
    if kind not in _NESTED:
        return dict(definition)
    form = body.get("format")
    if isinstance(form, Mapping) and "grammar" in form:
        body["format"] = {"type": form["type"], **form["grammar"]}
    if kind == "function":
        body = {"parameters": None, "strict": False, **body}
    return {"type": kind, **body}


def _taken_apart(definition: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    kind = str(definition.get("type"))
    nested = definition.get(kind)
    if isinstance(nested, Mapping):
        return kind, dict(cast("Mapping[str, Any]", nested))
    return kind, {name: definition[name] for name in definition if name != "type"}
