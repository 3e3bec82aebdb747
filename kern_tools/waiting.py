"""Waiting for a call: whatever interrupts the wait ends the box first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from .call import Call
from .verdict import Evidence

if TYPE_CHECKING:
    import asyncio

_LOOK_AGAIN_S = 1.0
"""How late a Ctrl-C is seen that came just before a wait."""


def wait_for(call: Call, cancel: Callable[[], None]) -> Evidence:
    """Block until the call has ended.

    Args:
        call: A submitted call.
        cancel: Ends it; asked for when the wait is interrupted.

    Raises:
        BaseException: What interrupted the wait, once the box is gone.
    """
    try:
        while True:
            try:
                return call.done.result(_LOOK_AGAIN_S)
            except TimeoutError:
                if call.done.done():
                    return call.done.result()
    except BaseException:  # also what a signal handler of the host raises
        if not call.done.done():
            cancel()
            settle(call)
        raise


def settle(call: Call) -> None:
    """Block until a call that was ended is over, whatever interrupts the wait."""
    while not call.done.done():
        with suppress(BaseException):  # a second Ctrl-C does not leave the box behind
            call.done.exception()


async def await_for(call: Call, cancel: Callable[[], None]) -> Evidence:
    """Await the call's end without blocking the event loop; the rest is as above."""
    import asyncio  # as costly to import as the rest of the package together

    waited = asyncio.wrap_future(call.done)
    try:
        return await asyncio.shield(waited)
    except asyncio.CancelledError:
        cancel()
        await _asettle(waited)
        raise


async def asettle(call: Call) -> None:
    """Await the same."""
    import asyncio

    await _asettle(asyncio.wrap_future(call.done))


async def _asettle(waited: asyncio.Future[Evidence]) -> None:
    import asyncio

    while not waited.done():
        try:
            await asyncio.wait([waited])
        except asyncio.CancelledError:  # the box is being killed: this takes no time
            continue
    waited.exception()
