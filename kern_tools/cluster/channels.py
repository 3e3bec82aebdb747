"""The channels of this process to one actor: those at rest, and new ones at need."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from collections import deque
from contextlib import suppress
from weakref import WeakSet

from kern_tools.faults import SandboxError

from .channel import Channel, HungUp
from .greeting import GREETING_S, Greeting, Stranger

Address = tuple[str, int]
"""Host and port."""

_AT_REST = 8
"""Channels that are kept for later calls; what runs at once may have more."""
_GONE = (ConnectionError, TimeoutError, ssl.SSLError)
_NOBODY = frozenset(
    {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ETIMEDOUT}
)


class Unanswered(HungUp):
    """Nobody takes channels at an actor's address, or it is somebody else."""


class Channels:
    """Each call, and whatever else is asked, has one to itself meanwhile.

    May be used from any thread.

    Args:
        address: Where the actor takes channels.
        secret: What opens them.
    """

    def __init__(self, address: Address, secret: bytes) -> None:
        self.address = address
        self._greeting = Greeting(secret, is_called=False)
        self._at_rest: deque[Channel] = deque()  # its methods are atomic
        self._all: WeakSet[Channel] = WeakSet()
        self._is_cut = False

    def at_rest(self) -> Channel | None:
        """Take one that is connected, where there is one."""
        with suppress(IndexError):
            while True:
                channel = self._at_rest.pop()
                if channel.is_idle:
                    return channel
                channel.close()  # cut by whatever is between the hosts
        return None

    def connect(self) -> Channel:
        """Make a new one; it may block for seconds.

        Raises:
            Unanswered: The actor is not there.
            SandboxError: This process cannot have another connection.
        """
        try:
            channel = Channel(self._connected())
        except OSError as error:
            raise _trouble(error, self.address) from error
        self._all.add(channel)
        if self._is_cut:
            channel.cut()
        return channel

    async def aconnect(self) -> Channel:
        """Do the same, without blocking the event loop."""
        connecting = asyncio.ensure_future(asyncio.to_thread(self.connect))
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(_drop)
            raise

    def _connected(self) -> socket.socket:
        connection = socket.create_connection(self.address, GREETING_S)
        return self._greeting.greet(connection, self.address[0])

    def put_back(self, channel: Channel) -> None:
        """Let the next one have it; its last answer was read."""
        if len(self._at_rest) < _AT_REST and not self._is_cut:
            self._at_rest.append(channel)
        else:
            channel.close()

    def cut(self) -> None:
        """Have whoever uses one learn that the actor is gone."""
        self._is_cut = True
        for channel in list(self._all):
            channel.cut()
        self.rest()

    def rest(self) -> None:
        """Close those that nobody uses."""
        with suppress(IndexError):
            while True:
                self._at_rest.pop().close()


def has_ended(channel: Channel, timeout_s: float) -> bool:
    """Hang up, and wait until the other end has, whatever interrupts the wait."""
    channel.hang_up()
    until_s = time.monotonic() + timeout_s
    while (left_s := until_s - time.monotonic()) > 0:
        with suppress(BaseException):  # a second Ctrl-C leaves no box behind
            return channel.wait_end(left_s)
    return False


async def ahas_ended(channel: Channel, timeout_s: float) -> bool:
    """Do the same, without blocking the event loop."""
    channel.hang_up()
    ending = asyncio.ensure_future(channel.await_end(timeout_s))
    while not ending.done():
        with suppress(asyncio.CancelledError):  # the box is being killed
            await asyncio.wait([ending])
    return ending.result()


def _drop(connecting: asyncio.Future[Channel]) -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()


def _trouble(error: OSError, address: Address) -> Exception:
    if isinstance(error, _GONE) or error.errno in _NOBODY:
        is_stranger = isinstance(error, Stranger)
        why = str(error) if is_stranger else error.strerror or "it takes too long"
        return Unanswered(f"{address[0]}:{address[1]}: {why}")
    return SandboxError(
        f"no connection to a node can be made: {error}. If this is about open files,"
        " raise `ulimit -n`",
        code="host",
    )
