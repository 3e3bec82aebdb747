"""Parts of what a framework hands over, as an object or as the dict it became."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def member(holder: object, name: str, default: object = None) -> Any:
    """Read a part by its key or by its attribute.

    Args:
        holder: A mapping, or any other object.
        name: The part's name.
        default: What to give where it is not there.

    Returns:
        The part, or `default`.
    """
    if isinstance(holder, Mapping):
        return cast("Mapping[str, Any]", holder).get(name, default)
    return getattr(holder, name, default)
