"""What sets of options share: unknown names refused, and what one option may be.

A check takes a value as given and returns it as kept, or raises.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar, cast

from .faults import ConfigError

Check = Callable[[str, object], object]
"""Takes an option's name and value; returns the value to keep."""

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class Options:
    """A frozen dataclass of named options, changed only by copying."""

    def __new__(cls, **options: object) -> Self:
        """Refuse unknown names, with what may have been meant."""
        check_names(options, [option.name for option in fields(cls) if option.init])
        return super().__new__(cls)

    def replace(self, **changes: Any) -> Self:
        """Copy with some options changed; the copy is checked as a whole again.

        Args:
            **changes: Options by name, with their new values.

        Raises:
            ConfigError: An option is unknown, or the new whole cannot be used.
        """
        names = [option.name for option in fields(self) if option.init]
        return type(self)(**{name: getattr(self, name) for name in names} | changes)

    def _keep(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


class FrozenMap(Mapping[Key, Value]):
    """A mapping that cannot change, and that can be pickled and hashed."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[Key, Value]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: Key) -> Value:
        return self._items[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


def near(name: str, known: Sequence[str]) -> list[str]:
    """Find the known names that a mistyped one, also in camelCase, may have meant."""
    from difflib import get_close_matches

    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
    return get_close_matches(snake, known, n=2)


def check_names(options: Mapping[str, object], known: Sequence[str]) -> None:
    """Refuse options of unknown names, with what may have been meant.

    Raises:
        ConfigError: One is not known; `option` is its name.
    """
    for name, value in options.items():
        if name in known:
            continue
        meant = near(name, known)
        remedy = f"the options are {', '.join(known)}"
        if meant:
            remedy = f"did you mean {' or '.join(meant)}?"
        # What it holds may be a secret under a mistyped name; a number is none.
        shown = f"={value!r}" if isinstance(value, int | float) else ""
        raise ConfigError(f"{name}{shown} is not an option; {remedy}", option=name)


def refusal(option: str, value: object, why: str, remedy: str) -> ConfigError:
    """Make the error for one option; the value is quoted, cut at 80 characters."""
    shown = repr(value)
    if len(shown) > 80:
        shown = f"{shown[:77]}..."
    name = option.partition("[")[0]
    return ConfigError(f"{option}={shown} {why}; {remedy}", option=name)


def optional(check: Check) -> Check:
    """Let None through, and give the rest to `check`."""
    return lambda option, value: None if value is None else check(option, value)


def flag(option: str, value: object) -> bool:
    """Take True or False and nothing that only looks like them."""
    if not isinstance(value, bool):
        raise refusal(option, value, "is not a bool", "write True or False")
    return value


def whole(low: int, high: int, unit: str) -> Check:
    """Take an int of a range; no bool, no float, no text."""

    def check(option: str, value: object) -> int:
        remedy = f"write the {unit} as an int from {low} to {high}"
        if isinstance(value, bool) or not isinstance(value, int):
            raise refusal(option, value, "is not an int", remedy)
        if not low <= value <= high:
            raise refusal(option, value, "is out of range", remedy)
        return value

    return check


def number(low: float, high: float, unit: str) -> Check:
    """Take a finite int or float of a range."""

    def check(option: str, value: object) -> float:
        remedy = f"write the {unit} as a number from {low:g} to {high:g}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise refusal(option, value, "is not a number", remedy)
        if not math.isfinite(value):
            raise refusal(option, value, "is not finite", remedy)
        if not low <= value <= high:
            raise refusal(option, value, "is out of range", remedy)
        return value

    return check


def text(pattern: str, remedy: str) -> Check:
    """Take a str that a regular expression matches as a whole."""

    def check(option: str, value: object) -> str:
        if not isinstance(value, str):
            raise refusal(option, value, "is not a str", remedy)
        if not re.fullmatch(pattern, value):
            raise refusal(option, value, "cannot be used", remedy)
        return value

    return check


def each(check: Check) -> Check:
    """Take a list or tuple whose items all pass `check`; a lone str is refused."""

    def check_all(option: str, value: object) -> tuple[object, ...]:
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            why = "is not a list or tuple"
            raise refusal(option, value, why, f"write {option}=[...], or [] for none")
        items = cast("Sequence[object]", value)
        return tuple(
            check(f"{option}[{index}]", item) for index, item in enumerate(items)
        )

    return check_all


def one_of(*choices: str) -> Check:
    """Take one of a few words."""

    def check(option: str, value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            words = " or ".join(map(repr, choices))
            raise refusal(option, value, "is not known", f"write {words}")
        return value

    return check


def callback(option: str, value: object) -> Callable[[str], object]:
    """Take something that can be called with pieces of a stream."""
    if not callable(value):
        remedy = "pass a function of one argument, a piece of text"
        raise refusal(option, value, "is not callable", remedy)
    return cast("Callable[[str], object]", value)
