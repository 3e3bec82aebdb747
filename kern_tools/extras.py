"""Which extra brings a missing framework or library."""

from __future__ import annotations

from typing import NoReturn


def missing(extra: str, cause: ImportError, *, user: str = "This adapter") -> NoReturn:
    """Raise `cause` again with the command that mends it.

    Args:
        extra: Name of an extra of this distribution, such as `langchain`.
        cause: What the import of the framework raised.
        user: Who needs it, as the beginning of a sentence.

    Raises:
        ImportError: Always, chained to `cause`; its text ends with the pip command.
    """
    raise ImportError(
        f"{user} could not import {cause.name or str(cause)!r}; "
        f"install what it needs: pip install 'kern-tools[{extra}]'",
        name=cause.name,
    ) from cause
