"""What sets of options share: refusing unknown names, copying with changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

from .faults import ConfigError

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class Options:
    """A frozen dataclass of named options, changed only by copying."""

    def __new__(cls, **options: object) -> Self:
        """Refuse unknown names, with what may have been meant."""
        known = [option.name for option in fields(cls) if option.init]
        for name in options:
            if name not in known:
                raise _unknown(name, known)
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


def _unknown(name: str, known: Sequence[str]) -> ConfigError:
    meant = near(name, known)
    if meant:
        remedy = f"did you mean {' or '.join(meant)}?"
    else:
        remedy = f"the options are {', '.join(known)}"
    return ConfigError(f"{name!r} is not an option; {remedy}", option=name)
