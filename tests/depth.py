"""How much of a search, a load or a table a test takes on.

`make test` takes a part, the same one each time; `make verify` takes the whole: it sets
`HYPOTHESIS_PROFILE=verify` and runs what is marked `verify` as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import pytest
from hypothesis import settings

T = TypeVar("T")

IS_WHOLE = os.environ.get("HYPOTHESIS_PROFILE") == "verify"


def depth(part: int, whole: int) -> int:
    """Say how often something is done.

    Args:
        part: In `make test`.
        whole: In `make verify`.
    """
    return whole if IS_WHOLE else part


def examples(part: int, whole: int, **more: Any) -> settings:
    """Give the settings of a property: few known examples, or many new ones."""
    return settings(
        max_examples=depth(part, whole), derandomize=not IS_WHOLE, deadline=None, **more
    )


def partly(values: Iterable[T], in_part: Callable[[T], bool]) -> list[Any]:
    """Mark the values of a table that only `make verify` takes."""
    return [
        value if in_part(value) else pytest.param(*_each(value), marks=_WHOLE)
        for value in values
    ]


def in_part(is_taken: Callable[[pytest.Function], bool]) -> pytest.MarkDecorator:
    """Leave to `make verify` the tests of a class or function that are not taken.

    For clauses that are inherited, whose own parameters cannot be marked.

    Args:
        is_taken: Says of each test whether `make test` takes it.
    """
    return pytest.mark.part.with_args(is_taken)


def crossed(every: int = 2) -> pytest.MarkDecorator:
    """Take a part of each table with several axes: each value, and not each pair.

    Of two axes every second pair is taken, of three and more every pair of two; each
    axis needs two values at least. What has one axis is taken whole.

    Args:
        every: One cell in how many.
    """
    return in_part(lambda test: _steps(test) % every == 0)


def leave_the_rest(items: Iterable[pytest.Item]) -> None:
    """Mark what `in_part` left out."""
    for item in items:
        if not all(mark.args[0](item) for mark in item.iter_markers("part")):
            item.add_marker(_WHOLE)


_WHOLE = pytest.mark.verify


def _steps(test: pytest.Function) -> int:
    """Say how far a test is from the first of its table, along all axes together."""
    place = test.callspec.indices if hasattr(test, "callspec") else {}
    marks = test.iter_markers("parametrize")
    together = [_names(mark.args[0]) for mark in marks]
    for _, *others in together:
        place = {name: at for name, at in place.items() if name not in others}
    return sum(place.values()) if len(place) > 1 else 0


def _names(axis: str | Sequence[str]) -> list[str]:
    return [n.strip() for n in axis.split(",")] if isinstance(axis, str) else [*axis]


def _each(value: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", value) if type(value) is tuple else (value,)
