"""Who is told of calls: nobody, unless something like `telemetry` is asked to be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

if TYPE_CHECKING:
    from .reply import Reply
    from .result import ExecutionResult

Outcome: TypeAlias = "Reply | ExecutionResult"
"""What a call came to: of a tool a reply, of a sandbox a result."""
_T = TypeVar("_T", "Reply", "ExecutionResult")
_OBSERVED: ContextVar[bool] = ContextVar("kern_observed", default=False)
"""Whether an observed call is being made: what the sandbox does is a part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call as it was asked for.

    Attributes:
        name: The tool that was called, or the method of the sandbox.
        mode: Of the sandbox, or of the pool's.
        arguments: What the model wrote, or what the method was given.
        call_id: The framework's id of the call.
        describe: Gives what the model is told of the tool; None for a method.
        trace_context: What came with the call to continue a trace, as `traceparent`.
    """

    name: str
    mode: str
    arguments: object
    call_id: str | None
    describe: Callable[[], str] | None = None
    trace_context: Mapping[str, Any] | None = None


class Observation(Protocol):
    """One call as it is observed; it ends once, by `end` or by `fail`.

    As `with` it is what the calls inside it belong to, and fails by what is raised.
    """

    def end(self, outcome: Outcome) -> None:
        """Take what the call came to."""

    def fail(self, error: BaseException) -> None:
        """Take what ended the call instead, such as a cancellation."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


class Observer(Protocol):
    """What is told of calls, from any thread and event loop."""

    def begin(self, asked: Asked, /) -> Observation:
        """Take notice of a call that begins."""
        ...


class Observable:
    """A sandbox, or what has several.

    Attributes:
        observer: What is told of its calls.
    """

    observer: Observer | None = None

    def observe(self, observer: Observer | None) -> None:
        """Have an observer told of the calls from now on, in place of any other."""
        self.observer = observer


def around(observer: Observer | None, asked: Asked, make: Callable[[], _T]) -> _T:
    """Make a call, and tell of it where somebody observes and it is no part of one."""
    if observer is None or _OBSERVED.get():
        return make()
    inside = _OBSERVED.set(True)
    try:
        with observer.begin(asked) as seen:
            outcome = make()
            seen.end(outcome)
            return outcome
    finally:
        _OBSERVED.reset(inside)


async def aaround(
    observer: Observer | None, asked: Asked, make: Callable[[], Awaitable[_T]]
) -> _T:
    """Do as `around`, natively async."""
    if observer is None or _OBSERVED.get():
        return await make()
    _OBSERVED.set(True)
    try:
        with observer.begin(asked) as seen:
            outcome = await make()
            seen.end(outcome)
            return outcome
    finally:  # no token: a coroutine that nobody resumes is closed in any context
        _OBSERVED.set(False)


def begin(observer: Observer, asked: Asked) -> Observation | None:
    """Tell of a call that goes on after this, where it is no part of one."""
    return None if _OBSERVED.get() else observer.begin(asked)
