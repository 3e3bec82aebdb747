"""Which modules a cell imports, read from its text."""

from __future__ import annotations

import os
import re
from importlib.machinery import all_suffixes
from pathlib import Path

MOST_MODULES = 16
READ_CHARS = 1 << 16
_NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_STATEMENT = re.compile(
    rf"^(?:from[ \t]+({_NAME})[ \t]+import\b|import[ \t]+([^#;\n]+))", re.MULTILINE
)
_MODULE = re.compile(rf"[ \t]*({_NAME})[ \t]*(?:as[ \t]+\w+[ \t]*)?")


def imported_modules(code: str) -> tuple[str, ...]:
    """Give the modules that a cell imports outside of any block, the first ones.

    Args:
        code: Python, perhaps broken; a line in a string that looks like an import
            counts as one.

    Returns:
        Their dotted names, in order, each once.
    """
    names: dict[str, None] = {}
    for source, listed in _STATEMENT.findall(code[:READ_CHARS]):
        for part in [source] if source else listed.split(","):
            if (found := _MODULE.fullmatch(part)) is not None:
                names[found[1]] = None
    return tuple(names)[:MOST_MODULES]


def module_at(folder: Path, name: str) -> bool:
    """Tell whether a folder on the path of this very Python has a module.

    Args:
        folder: The folder; links in it are not followed.
        name: A dotted name, of which the first part is looked for.
    """
    base = f"{folder}/{name.partition('.')[0]}"
    return any(os.path.lexists(base + suffix) for suffix in ("", *all_suffixes()))
