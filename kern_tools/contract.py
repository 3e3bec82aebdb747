"""What contracts are made of: clauses to inherit, and sandboxes to hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, ClassVar

import pytest

from .sandbox import Sandbox

Make = Callable[..., Sandbox]


class Contract:
    """Refuses subclasses that change a clause."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        changed = [name for name in _clauses(cls) if not _is_ours(_giver(cls, name))]
        if changed:
            raise TypeError(
                f"{cls.__name__} changes {', '.join(changed)} of a contract: make what "
                "is tested hold it, or do not inherit the contract"
            )


def _clauses(cls: type) -> list[str]:
    """Name the clauses that a class has of contracts of ours."""
    ours = (base for base in cls.__mro__[1:] if _is_ours(base))
    return sorted({n for base in ours for n in vars(base) if n.startswith("test_")})


def _giver(cls: type, name: str) -> type:
    """Say which class an attribute is of: also one that is mixed in before ours."""
    return next(base for base in cls.__mro__ if name in vars(base))


def _is_ours(base: type) -> bool:
    return base.__module__.startswith("kern_tools.")


class SandboxClauses(Contract):
    """Some promises of `Sandbox`, for the options that a subclass sets."""

    options: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture
    def make(self) -> Iterator[Make]:
        """Open sandboxes that are closed after the test."""
        with ExitStack() as opened:

            def make(**options: Any) -> Sandbox:
                chosen = {"timeout_s": 30, **self.options, **options}
                return opened.enter_context(Sandbox(**chosen))

            yield make
