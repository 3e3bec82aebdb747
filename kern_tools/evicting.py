"""What a pool's `on_evict` may ask of that pool: it runs while seats wait for it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from .faults import SandboxError
from .sandbox import Sandbox

if TYPE_CHECKING:
    from .seats import Seat

_leaving: ContextVar[tuple[Seat, ...]] = ContextVar("kern_tools_leaving", default=())
_entering: ContextVar[tuple[Seat, ...]] = ContextVar("kern_tools_entering", default=())


@contextmanager
def evicting(leaving: Seat, entering: Seat | None) -> Generator[None]:
    """Mark what the block runs, its tasks and `asyncio.to_thread` included.

    Args:
        leaving: The seat whose sandbox is to be closed after the block.
        entering: The seat that this makes room for.
    """
    coming = () if entering is None else (entering,)
    left = _leaving.set((*_leaving.get(), leaving))
    entered = _entering.set((*_entering.get(), *coming))
    try:
        yield
    finally:
        _leaving.reset(left)
        _entering.reset(entered)


def evicted_here(seat: Seat | None) -> Sandbox | None:
    """Give the sandbox of a seat whose `on_evict` this is: open until that returns.

    Raises:
        SandboxError: The seat is the one that waits for this `on_evict`.
    """
    if seat in _entering.get():
        raise _refusal(
            "on_evict asks for the conversation that it makes room for, which waits for"
            " it to return"
        )
    return seat.sandbox if seat is not None and seat in _leaving.get() else None


def check_may_part(seats: Sequence[Seat]) -> None:
    """Refuse to wait, in `on_evict`, for the end of what waits for `on_evict`.

    Raises:
        SandboxError: One of the seats does.
    """
    if any(seat in _leaving.get() or seat in _entering.get() for seat in seats):
        raise _refusal(
            "on_evict drops or closes what waits for it to return; it is closed after"
            " that, unless on_evict raises"
        )


def _refusal(message: str) -> SandboxError:
    remedy = "ask after on_evict has returned, from outside of it"
    return SandboxError(f"{message}; {remedy}", code="evicting")
