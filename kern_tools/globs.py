"""Glob patterns over paths, matched in time linear in the path whatever both hold."""

from __future__ import annotations

import re
from fnmatch import translate
from itertools import product

from .names import BOX_ROOT

GLOB_MAX_CHARS = 500
ALTERNATIVES_MAX = 64

_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_OUTSIDE = "'..' leads out of the workspace; begin at its top, as in 'src/**/*.py'"


class BadGlob(ValueError):
    """A pattern that cannot be used; the message says why."""


class Glob:
    """One pattern: `*`, `?`, `[a-z]` inside a name, `**` for any directories, `{a,b}`.

    Names that begin with a dot are matched like others, except `.git`, which only a
    pattern that names it enters.

    Args:
        pattern: Relative to the workspace, or below `/workspace`.

    Raises:
        BadGlob: It is empty, too long, leads outside, or stands for too many.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > GLOB_MAX_CHARS:
            why = f"has {len(pattern):,} characters, more than {GLOB_MAX_CHARS:,}"
            raise BadGlob(f"{why}; give a shorter one")
        self._paths = [_Path(each) for each in _alternatives(pattern)]

    def matches(self, path: str) -> bool:
        """Tell whether a path, relative to the workspace, is meant."""
        names = path.split("/")
        return any(each.matches(names) for each in self._paths)


class _Path:
    """A pattern without braces, as a machine that is in many states at once.

    Bit n of a state is set where the first n parts match the names so far.
    """

    def __init__(self, pattern: str) -> None:
        parts = _parts(pattern)
        self._any = sum(1 << n for n, part in enumerate(parts) if part == "**")
        self._end = 1 << len(parts)
        self._parts = [
            (1 << n, re.compile(translate(part)))
            for n, part in enumerate(parts)
            if part != "**"
        ]
        self._git = ".git" in parts
        self._steps: dict[str, int] = {}

    def matches(self, names: list[str]) -> bool:
        if not self._git and ".git" in names:
            return False
        state = self._widened(1)
        for name in names:
            state = self._widened((state & self._step(name)) << 1 | state & self._any)
            if not state:
                return False
        return bool(state & self._end)

    def _widened(self, state: int) -> int:
        """Add what `**` reaches by standing for no directory at all."""
        return state | (state & self._any) << 1

    def _step(self, name: str) -> int:
        """Give the parts that a name matches."""
        if name not in self._steps:
            found = sum(bit for bit, part in self._parts if part.match(name))
            self._steps[name] = found
        return self._steps[name]


def _alternatives(pattern: str) -> list[str]:
    """Write out the braces, which do not nest."""
    pieces = _BRACES.split(pattern)
    choices = [
        piece.split(",") if position % 2 else [piece]
        for position, piece in enumerate(pieces)
    ]
    number = 1
    for choice in choices:
        number *= len(choice)
    if number > ALTERNATIVES_MAX:
        raise BadGlob(f"stands for more than {ALTERNATIVES_MAX} patterns; use fewer")
    return ["".join(chosen) for chosen in product(*choices)]


def _parts(pattern: str) -> list[str]:
    if pattern.startswith("/"):
        inside = pattern.removeprefix(BOX_ROOT)
        if inside == pattern or not inside.startswith("/"):
            raise BadGlob(f"is outside {BOX_ROOT}; leave the first '/' out")
        pattern = inside
    parts: list[str] = []
    for part in pattern.split("/"):
        if part == "..":
            raise BadGlob(f"cannot be used: {_OUTSIDE}")
        # Two in a row mean no more than one.
        if part not in ("", ".") and [*parts[-1:], part] != ["**", "**"]:
            parts.append(part)
    if not parts:
        raise BadGlob("names nothing; '**' stands for all files, '*.py' for some")
    if pattern.endswith("/") and parts[-1] != "**":
        parts.append("**")
    # At the end it stands for files below, never for the directory's own name.
    return [*parts, "*"] if parts[-1] == "**" else parts
