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
        clauses = {
            name
            for base in cls.__mro__[1:]
            if base.__module__.startswith("kern_tools.")
            for name in vars(base)
            if name.startswith("test_")
        }
        if changed := sorted(clauses & vars(cls).keys()):
            raise TypeError(
                f"{cls.__name__} changes {', '.join(changed)} of a contract: make what "
                "is tested hold it, or do not inherit the contract"
            )


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
