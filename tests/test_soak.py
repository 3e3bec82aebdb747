"""A bounded part of the load that `make soak` runs whole."""

from __future__ import annotations

from . import soak
from .depth import depth


def test_mixed_calls_leave_nothing() -> None:
    """No box, thread, descriptor or folder is left of calls of every kind."""
    soak.mixed_calls(depth(18, 300))


def test_many_conversations_at_once_keep_apart() -> None:
    """Every conversation finds its own output and its own file."""
    soak.conversations(depth(6, 48))


def test_processes_left_behind_are_gone() -> None:
    """None outlives its sandbox, whatever the mode."""
    soak.background_processes(depth(6, 60))


def test_nothing_happens_after_a_cancel() -> None:
    """At any moment of the call, in every mode."""
    soak.cancels(1)


def test_timeouts_side_by_side() -> None:
    """Every call is stopped, and told so."""
    soak.timeouts(depth(2, 8))
