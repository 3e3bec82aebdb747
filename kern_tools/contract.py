"""What our contracts have in common: a subclass cannot change a clause."""

from __future__ import annotations

from typing import Any


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
