"""JSON schemas of argument models: strict, for servers that enforce it, and plain."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

_KEPT = ("type", "enum", "items", "description")


def strict_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Describe `model` in the subset that strict function calling accepts.

    Args:
        model: A flat argument model with attribute docstrings.

    Returns:
        An object schema: every property required, optional ones nullable, no default,
        no title, no bounds, nothing else allowed.

    Raises:
        TypeError: A property is nested or has more than one type.

    Source:
        https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    """
    properties = {
        name: _nullable(kept) if is_nullable else kept
        for name, (kept, is_nullable) in _properties(model).items()
    }
    return _object(properties, required=list(properties))


def plain_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Describe `model` for servers without strict mode.

    Args:
        model: A flat argument model with attribute docstrings.

    Returns:
        An object schema in which optional properties are simply not required.

    Raises:
        TypeError: A property is nested or has more than one type.
    """
    properties = {name: kept for name, (kept, _) in _properties(model).items()}
    fields = model.model_fields
    return _object(properties, [name for name in fields if fields[name].is_required()])


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _properties(model: type[BaseModel]) -> dict[str, tuple[dict[str, Any], bool]]:
    """Give each property's schema without null, and whether it may be null."""
    return {
        name: _property(f"{model.__name__}.{name}", found)
        for name, found in model.model_json_schema()["properties"].items()
    }


def _property(name: str, found: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    kinds = found.get("anyOf", [found])
    typed = [kind for kind in kinds if kind.get("type") != "null"]
    if len(typed) != 1 or typed[0].get("type") in (None, "object"):
        message = f"{name} is not one plain type; give it one, or several properties"
        raise TypeError(message)
    merged = typed[0] | found
    kept = {key: merged[key] for key in _KEPT if key in merged}
    return kept, len(kinds) > len(typed)


def _nullable(kept: dict[str, Any]) -> dict[str, Any]:
    nullable = kept | {"type": [kept["type"], "null"]}
    if "enum" in kept:
        nullable["enum"] = [*kept["enum"], None]
    return nullable
