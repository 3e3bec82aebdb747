"""The JSON schema of an artifact, for frameworks that publish one with a tool."""

from __future__ import annotations

from typing import Any, cast

from .result import ExecutionResult

_KEPT = ("type", "enum", "const", "description")
_NOTHING_RAN: dict[str, Any] = {
    "error": {
        "type": ["string", "null"],
        "description": "Why nothing was run, or what a file tool could not do.",
    },
    "tool": {"type": "string", "description": "The tool, where nothing was run."},
}


def artifact_schema(*, runs: bool) -> dict[str, Any]:
    """Describe what `Reply.artifact` is.

    Args:
        runs: Of a tool that runs something: an `ExecutionResult`, or `fault`, `error`
            and `tool` where nothing ran. Else of one that only looks at files.

    Returns:
        A new object schema without references, which many clients cannot follow, and
        without defaults: an artifact has all its fields.
    """
    whole = ExecutionResult.model_json_schema(mode="serialization")
    result = _inlined(whole["properties"], whole["$defs"])
    told = {"fault": result["fault"], **_NOTHING_RAN}
    schema = {"type": "object", "required": ["fault"]}
    if not runs:
        return {**schema, "properties": told}
    either = [{"required": list(result)}, {"required": list(_NOTHING_RAN)}]
    return {**schema, "properties": result | told, "anyOf": either}


def _inlined(properties: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain(found, named) for name, found in properties.items()}


def _plain(found: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """Put what a schema refers to in its place, and leave out what repeats its name."""
    if "$ref" in found:
        return _plain(named[found["$ref"].rpartition("/")[2]], named)
    plain = {key: found[key] for key in _KEPT if key in found}
    if "properties" in found:
        plain.pop("description", None)  # of the class, for those who read the source
        plain["properties"] = _inlined(found["properties"], named)
        plain["required"] = found["required"]
    for key in ("items", "additionalProperties"):
        if key in found:
            plain[key] = _plain(cast("dict[str, Any]", found[key]), named)
    if "anyOf" in found:
        plain["anyOf"] = [_plain(kind, named) for kind in found["anyOf"]]
    return plain
