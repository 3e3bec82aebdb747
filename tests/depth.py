"""How much of a search, a load or a table a test takes on.

`make test` takes a part, the same one each time; `make verify` takes the whole: it sets
`HYPOTHESIS_PROFILE=verify` and runs what is marked `verify` as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
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


_WHOLE = pytest.mark.verify


def _each(value: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", value) if type(value) is tuple else (value,)
