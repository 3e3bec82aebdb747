"""What models call a property when they do not read the schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from pydantic import BaseModel

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
