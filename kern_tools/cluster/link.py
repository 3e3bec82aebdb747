"""What this process says to one actor, and whether the actor is still there."""

# Ray leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import time
import warnings
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ray.exceptions import RayError, RayTaskError

from kern_tools.faults import SandboxClosed

from .channel import Channel, HungUp
from .channels import Channels, Unanswered, ahas_ended, has_ended
from .cluster import kill
from .told import RemoteAsk, RemoteCall, Told, Whose
from .trouble import NodeLost, aside, closed_port

if TYPE_CHECKING:
    from kern_tools.config import SandboxConfig

    from .actor import Arrived
    from .opening import RemoteOpening

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

    def __init__(self, actor: Any, arrived: Arrived) -> None:
        self.node = arrived.node.host
        self.lost: str | None = None
        self._actor = actor
        self._channels = Channels(arrived.address, arrived.secret)
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
            self._channels.cut()
            self._end_actor()

    @contextmanager
    def noticing(self) -> Generator[None]:
        """Tell a connection's trouble in a block as what it means.

        Raises:
            NodeLost: The actor is gone.
            SandboxClosed: The sandbox was closed meanwhile.
        """
        try:
            yield
        except HungUp as error:
            self.note_lost(error)
            if self.lost is None:
                message = "the sandbox was closed during the call"
                raise SandboxClosed(message) from error
            raise NodeLost(self.lost) from error

    # -- opening, by Ray

    def open(
        self, config: SandboxConfig, *, limits_enforced: bool | None = None
    ) -> Future[Told]:
        """Have the actor open its sandbox, told as `Furnished`.

        Args:
            config: Its options.
            limits_enforced: What another sandbox on its node said of the caps.
        """
        bare = config.replace(on_stdout=None, on_stderr=None)
        opened: Future[Told] = self._actor.open.remote(bare, limits_enforced).future()
        return opened

    def read(self, answer: Future[Told], opening: RemoteOpening) -> Any:
        """Read what Ray brings, unless the opening is cut short.

        Raises:
            NodeLost: The actor is gone.
            SandboxClosed: It was cut short.
            BaseException: What was raised on the node.
        """
        try:
            return opening.wait(answer, None).opened()
        except RayTaskError:  # a fault of ours, or of what crosses the network
            raise
        except RayError as error:
            self.note_lost(error)
            raise NodeLost(self.lost or "it was closed") from error

    def reach(self) -> None:
        """Connect for the first time.

        Raises:
            ClusterError: `unreachable`: the actor is there, and its port is not.
        """
        try:
            self.end(self._channels.connect())
        except Unanswered as error:
            raise closed_port(self.node, str(error)) from error

    # -- asking

    def ask(self, of: Whose, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of what the actor has, and wait for its answer.

        Raises:
            NodeLost: The actor is gone.
            BaseException: What was raised on the node.
        """
        with self.using():
            return self.look(of, method, *arguments, **options)

    def look(self, of: Whose, method: str, *arguments: Any, **options: Any) -> Any:
        """Do as `ask`, without counting as in use."""
        asked = RemoteAsk(of, method, arguments, options)
        with self.noticing():
            channel = self.begin(asked)
            try:
                told: Told = channel.receive()
            except BaseException:
                channel.close()
                raise
        self.end(channel)
        return told.opened()

    def leave(self, of: Whose, method: str, *arguments: Any) -> None:
        """Do as `look` some time soon; whether it works is of no matter."""

        def ask() -> None:
            with suppress(Exception):
                self.look(of, method, *arguments)

        if self.lost is None and not self._closed:
            aside(ask)

    # -- calls

    def call(self, asked: RemoteCall) -> Told:
        """Make a call; whatever interrupts it ends the box first.

        Raises:
            NodeLost: The actor is gone.
        """
        with self.using(), self.noticing():
            channel = self.begin(asked)
            try:
                told: Told = channel.receive()
            except BaseException:
                self.settle(channel)
                raise
        self.end(channel)
        return told

    async def acall(self, asked: RemoteCall) -> Told:
        """Do the same, without blocking the event loop."""
        with self.using(), self.noticing():
            channel = await self.abegin(asked)
            try:
                told: Told = await channel.areceive()
            except asyncio.CancelledError:
                await self.asettle(channel)
                raise
            except BaseException:
                channel.close()
                raise
        self.end(channel)
        return told

    # -- channels

    def begin(self, asked: RemoteCall | RemoteAsk) -> Channel:
        """Ask something; its answers are to be read from the channel.

        Raises:
            NodeLost: The actor is known to be gone.
            HungUp: It is gone.
        """
        self._check()
        channel = self._channels.at_rest() or self._channels.connect()
        try:
            channel.send(asked)
        except BaseException:
            channel.close()
            raise
        return channel

    async def abegin(self, asked: RemoteCall | RemoteAsk) -> Channel:
        """Do the same, without blocking the event loop."""
        self._check()
        await asyncio.sleep(0)  # of a task that is cancelled at once nothing is sent
        channel = self._channels.at_rest() or await self._channels.aconnect()
        try:
            await channel.asend(asked)
        except BaseException:
            channel.close()
            raise
        return channel

    def _check(self) -> None:
        if self.lost is not None:
            raise NodeLost(self.lost)

    def end(self, channel: Channel) -> None:
        """Let others use a channel whose last answer was read."""
        self._channels.put_back(channel)
        if self._closed:
            self._channels.rest()

    def settle(self, channel: Channel) -> None:
        """End a call, and wait until its box is gone, whatever interrupts the wait."""
        self._settled(channel, has_ended(channel, _SETTLING_S))

    async def asettle(self, channel: Channel) -> None:
        """Do the same, without blocking the event loop."""
        self._settled(channel, await ahas_ended(channel, _SETTLING_S))

    def _settled(self, channel: Channel, is_over: bool) -> None:
        channel.close()
        if not is_over:
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
        self._channels.rest()
        self._end_actor()

    def _end_actor(self) -> None:
        if self._kill.detach() is not None:
            actor = self._actor
            aside(lambda: kill(actor))  # the head may not answer


def _gone(link: weakref.ref[Link]) -> Callable[[Future[None]], None]:
    def note(staying: Future[None]) -> None:
        found = link()
        if found is not None:
            found.note_lost(staying.exception() or RuntimeError())

    return note


def _abandon(actor: Any) -> None:
    """End an actor whose sandbox was lost without `close`."""
    aside(lambda: kill(actor))
    message = "unclosed sandbox on a cluster: use `with`, or `close()`"
    warnings.warn(message, ResourceWarning, 2)
