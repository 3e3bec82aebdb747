"""What this process says to one actor, and whether the actor is still there."""

# Ray leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import itertools
import time
import warnings
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

import ray
from ray.exceptions import (
    ObjectStoreFullError,
    OutOfDiskError,
    RayError,
    RayTaskError,
)

from .told import Told
from .trouble import ClusterError, NodeLost, aside

_TOKENS = itertools.count(1)
_CLOSING_S = 60.0
"""How long an actor may take to end its boxes before it is killed."""
_SETTLING_S = 30.0
"""How long a call that was told to stop may take, before its actor is given up."""


class Link:
    """One actor, from its first answer until it is closed or lost.

    May be used from any thread and event loop.

    Attributes:
        node: The node's name, for messages.
        lost: What became of the actor, once it is gone without our doing.
    """

    def __init__(self, actor: Any, node: str) -> None:
        self.node = node
        self.lost: str | None = None
        self._actor = actor
        self._closed = False
        self._busy = 0
        self._quiet_since_s = time.monotonic()
        self._kill = weakref.finalize(self, _abandon, actor)
        self._kill.atexit = False
        staying: Future[None] = actor.stay.remote().future()
        staying.add_done_callback(_gone(weakref.ref(self)))

    @property
    def quiet_since_s(self) -> float | None:
        """When this process last asked something; None while it waits for it."""
        return None if self._busy else self._quiet_since_s

    @contextmanager
    def using(self) -> Generator[None]:
        """Count as in use during a block."""
        self._busy += 1
        try:
            yield
        finally:
            self._quiet_since_s = time.monotonic()
            self._busy -= 1

    def note_lost(self, error: BaseException) -> None:
        """Take the actor for gone, and make sure that it is."""
        if self.lost is None and not self._closed:
            kind = type(error).__name__
            self.lost = f"node {self.node!r} or its process was lost ({kind})"
            self._end_actor()

    # -- asking

    def ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Ask, and wait for the answer.

        Raises:
            NodeLost: The actor is gone.
            ClusterError: `too_large`.
            BaseException: What was raised on the node.
        """
        with self.using():
            return self.look(method, *arguments, **options)

    def look(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Do as `ask`, without counting as in use."""
        return self.read(self.send(method, *arguments, **options).result)

    def send(self, method: str, *arguments: Any, **options: Any) -> Future[Told]:
        """Ask, without waiting for the answer.

        Raises:
            NodeLost: The actor is known to be gone.
            ClusterError: `too_large`.
        """
        if self.lost is not None:
            raise NodeLost(self.lost)
        asked = getattr(self._actor, method)
        with _fitting():
            answer: Future[Told] = asked.remote(*arguments, **options).future()
        return answer

    def open_stream(self, method: str, *arguments: Any, ahead: int) -> Any:
        """Ask for a stream of answers, of which some may be sent ahead."""
        if self.lost is not None:
            raise NodeLost(self.lost)
        asked = getattr(self._actor, method).options(
            num_returns="streaming", _generator_backpressure_num_objects=ahead
        )
        with _fitting():
            return asked.remote(*arguments)

    def read(self, wait: Callable[[], Told]) -> Any:
        """Read an answer, which `wait` gives.

        Raises:
            NodeLost: The actor is gone.
            BaseException: What was raised on the node.
        """
        return self.received(wait).opened()

    def received(self, wait: Callable[[], Any]) -> Any:
        """Give what `wait` gives; what is Ray's own trouble is told as ours.

        Raises:
            NodeLost: The actor is gone.
            ClusterError: `too_large`.
        """
        with self.noticing():
            return wait()

    @contextmanager
    def noticing(self) -> Generator[None]:
        """Tell what is Ray's own trouble in a block as ours; raises as `received`."""
        try:
            with _fitting():
                yield
        except RayTaskError:  # a fault of ours, or of what crosses the network
            raise
        except RayError as error:
            self.note_lost(error)
            raise NodeLost(self.lost or "it was closed") from error

    # -- calls

    @staticmethod
    def new_token() -> int:
        """Make up a name for a call."""
        return next(_TOKENS)

    def wait(self, future: Future[Told], token: int) -> Any:
        """Wait for a call; whatever interrupts the wait ends the box first."""
        try:
            return self.read(future.result)
        finally:
            if not future.done():
                self.stop(token)
                self._settle(future)

    async def wait_async(self, future: Future[Told], token: int) -> Any:
        """Do the same, without blocking the event loop."""
        waited = asyncio.wrap_future(future)
        try:
            await asyncio.wait([waited])
        except asyncio.CancelledError:
            self.stop(token)
            await self._asettle(waited)
            raise
        return self.read(waited.result)

    def stop(self, token: int) -> None:
        """Have a call end; its own answer tells when it has."""
        if self.lost is None:
            self._actor.stop.remote(token)

    def _settle(self, future: Future[Told]) -> None:
        deadline_s = time.monotonic() + _SETTLING_S
        while not future.done():
            with suppress(BaseException):  # a second Ctrl-C leaves no box behind
                future.exception(max(0.0, deadline_s - time.monotonic()))
            if time.monotonic() > deadline_s:
                self.note_lost(TimeoutError())
                return

    async def _asettle(self, waited: asyncio.Future[Told]) -> None:
        deadline_s = time.monotonic() + _SETTLING_S
        while not waited.done() and time.monotonic() < deadline_s:
            with suppress(asyncio.CancelledError):
                await asyncio.wait([waited], timeout=deadline_s - time.monotonic())
        if waited.done():
            waited.exception()
        else:
            self.note_lost(TimeoutError())

    # -- its end

    def close(self) -> None:
        """End the sandbox, wait until its boxes are gone, and let the node have room.

        An actor that does not answer is killed, and its boxes with it.
        """
        if self._closed:
            return
        self._closed = True
        if self.lost is None:
            with suppress(RayError, TimeoutError):
                self._actor.close.remote().future().result(_CLOSING_S)
        self._end_actor()

    def _end_actor(self) -> None:
        if self._kill.detach() is not None:
            actor = self._actor
            aside(lambda: kill(actor))  # the head may not answer


@contextmanager
def _fitting() -> Generator[None]:
    try:
        yield
    except (ObjectStoreFullError, OutOfDiskError) as error:
        message = (
            "what was sent does not fit into Ray's object store: send less at once, or"
            " give the nodes a larger `object_store_memory`"
        )
        raise ClusterError(message, code="too_large") from error


def _gone(link: weakref.ref[Link]) -> Callable[[Future[None]], None]:
    def note(staying: Future[None]) -> None:
        found = link()
        if found is not None:
            found.note_lost(staying.exception() or RuntimeError())

    return note


def kill(actor: Any) -> None:
    """End an actor at once, if it and Ray are still there."""
    with suppress(Exception):  # Ray was shut down
        ray.kill(actor)


def _abandon(actor: Any) -> None:
    """End an actor whose sandbox was lost without `close`."""
    aside(lambda: kill(actor))
    message = "unclosed sandbox on a cluster: use `with`, or `close()`"
    warnings.warn(message, ResourceWarning, 2)
