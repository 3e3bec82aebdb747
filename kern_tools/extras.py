"""Which extra brings a missing framework or library."""

from __future__ import annotations

from typing import NoReturn


def missing(
    extra: str,
    cause: ImportError,
    *,
    user: str = "This adapter",
    package: str | None = None,
) -> NoReturn:
    """Raise `cause` again with the command that mends it.

    Args:
        extra: Name of an extra of this distribution, such as `langchain`.
        cause: What the import of the framework raised.
        user: Who needs it, as the beginning of a sentence.
        package: What to install where no extra brings it.

    Raises:
        ImportError: Always, chained to `cause`; its text ends with the pip command.
    """
    wanted = f"'kern-tools[{extra}]'" if package is None else package
    raise ImportError(
        f"{user} could not import {cause.name or str(cause)!r}; "
        f"install what it needs: pip install {wanted}",
        name=cause.name,
    ) from cause
