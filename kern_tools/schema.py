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
    properties, _ = _properties(model)
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
    properties, required = _properties(model)
    return _object({name: _not_null(p) for name, p in properties.items()}, required)


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _properties(model: type[BaseModel]) -> tuple[dict[str, Any], list[str]]:
    schema = model.model_json_schema()
    properties = {
        name: _property(f"{model.__name__}.{name}", found)
        for name, found in schema["properties"].items()
    }
    return properties, schema.get("required", [])


def _property(name: str, found: dict[str, Any]) -> dict[str, Any]:
    kinds = found.get("anyOf", [found])
    typed = [kind for kind in kinds if kind.get("type") != "null"]
    if len(typed) != 1 or typed[0].get("type") in (None, "object"):
        message = f"{name} is not one plain type; give it one, or several properties"
        raise TypeError(message)
    merged = typed[0] | found
    kept = {key: merged[key] for key in _KEPT if key in merged}
    return _nullable(kept) if len(kinds) > len(typed) else kept


def _nullable(kept: dict[str, Any]) -> dict[str, Any]:
    nullable = kept | {"type": [kept["type"], "null"]}
    if "enum" in kept:
        nullable["enum"] = [*kept["enum"], None]
    return nullable


def _not_null(kept: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(kept["type"], list):
        return kept
    plain: dict[str, Any] = kept | {"type": kept["type"][0]}
    if "enum" in kept:
        plain["enum"] = [value for value in kept["enum"] if value is not None]
    return plain
