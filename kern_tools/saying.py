"""What a reply shares its room with, and what it may advise; set around one call.

Lines are put above what a tool says: what was changed about its arguments, that it
failed as before. The tool leaves them room, so that the whole keeps within the budget.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .facts import SandboxFacts

if TYPE_CHECKING:
    from .config import Budget

_LEAST_CHARS = 256


@dataclass(frozen=True, slots=True)
class _Saying:
    above_chars: int = 0
    takes_limit: bool = True


_PLAIN = _Saying()
_SAYING: ContextVar[_Saying] = ContextVar("kern_saying", default=_PLAIN)


@contextmanager
def saying(above: Iterable[str] = (), *, takes_limit: bool = True) -> Generator[None]:
    """Say how the replies inside of it are put.

    Args:
        above: Lines, or their like in length, that are put above them.
        takes_limit: Whether the model could have asked for more time, by `timeout_s`.
    """
    around = _SAYING.get()
    chars = around.above_chars + sum(len(line) + 1 for line in above)
    token = _SAYING.set(_Saying(chars, takes_limit and around.takes_limit))
    try:
        yield
    finally:
        _SAYING.reset(token)


def room_left(budget: Budget) -> Budget:
    """Give what of a budget is left to a tool."""
    chars = _SAYING.get().above_chars
    if not chars:
        return budget
    return budget.replace(text_chars=max(budget.text_chars - chars, _LEAST_CHARS))


def advisable(facts: SandboxFacts) -> SandboxFacts:
    """Give the facts by which a model may be advised in this call."""
    return facts if _SAYING.get().takes_limit else without_limit(facts)


def without_limit(facts: SandboxFacts) -> SandboxFacts:
    """Give the facts for a call that cannot ask for more time."""
    return replace(facts, timeout_max_s=facts.timeout_s)
