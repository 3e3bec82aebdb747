"""One connection between the pool's process and an actor: messages, both ways.

The caller says what it wants; the actor answers, with as many messages as it takes. A
caller that hangs up has its call ended: the actor closes the connection once that is
done. What Ray offers for this costs milliseconds for each message.
"""

from __future__ import annotations

import asyncio
import pickle
import select
import socket
import ssl
import struct
import threading
import time
import weakref
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

_LENGTH = struct.Struct("!Q")
_PIECE_BYTES = 1 << 16
_MOST_PIECE_BYTES = 1 << 22
_LOOK_AGAIN_S = 1.0
"""How late a Ctrl-C is seen that came just before a wait of the main thread."""
_QUIET_S, _PROBES_EVERY_S, _PROBES = 60, 15, 8
"""A long call sends nothing: firewalls would forget the connection."""
_IN, _OUT = select.POLLIN, select.POLLOUT
_SAYS = _IN | select.POLLRDHUP


class HungUp(Exception):
    """The other end of a channel is gone, or says no more."""


class Channel:
    """Messages over one connection; one thread or task at a time reads.

    One that nobody refers to any more is hung up.

    Args:
        connection: Both ends know each other; it is the channel's from now on.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        for level, option, value in _OPTIONS:
            connection.setsockopt(level, option, value)
        self._connection = connection
        weakref.finalize(self, connection.close).atexit = False
        self._is_tls = isinstance(connection, ssl.SSLSocket)  # which reads ahead
        # OpenSSL has one thread at a time use a connection, be it to send or to read.
        self._in_turn: AbstractContextManager[object] = (
            threading.Lock() if self._is_tls else nullcontext()
        )
        self._polls = {wanted: self._poll(wanted) for wanted in (_IN, _OUT, _SAYS)}
        self._data = bytearray()
        self._reading = threading.Lock()
        self._areading = asyncio.Lock()

    def fileno(self) -> int:
        """Give the connection's descriptor."""
        return self._connection.fileno()

    @property
    def is_idle(self) -> bool:
        """It is connected, and the other end has nothing to say."""
        return not self._polls[_SAYS].poll(0)

    @property
    def is_hung_up(self) -> bool:
        """The other end will say no more."""
        return bool(self._poll(select.POLLRDHUP).poll(0))

    # -- blocking

    def send(self, message: object) -> None:
        """Send a message.

        Raises:
            HungUp: The other end is gone.
            Exception: It cannot be pickled; nothing was sent.
        """
        left = memoryview(_packed(message))
        while left:
            count, wanted = self._sent(left)
            left = left[count:]
            if wanted:
                self._wait(wanted, None)

    def receive(self) -> Any:
        """Wait for a message.

        Raises:
            HungUp: The other end is gone.
        """
        with self._reading:
            wanted = 0 if self._is_tls else _IN
            while not self._is_whole():
                if wanted:
                    self._wait(wanted, None)
                wanted = self._read()
            return self._taken()

    def wait_end(self, timeout_s: float) -> bool:
        """Wait until the other end has hung up; what it says meanwhile is dropped."""
        until_s = time.monotonic() + timeout_s
        with self._reading:
            while (left_s := until_s - time.monotonic()) > 0:
                try:
                    wanted = self._read()
                except HungUp:
                    return True
                self._data.clear()
                if wanted:
                    self._wait(wanted, left_s)
        return False

    def _wait(self, wanted: int, timeout_s: float | None) -> None:
        if threading.current_thread() is threading.main_thread():
            timeout_s = min(_LOOK_AGAIN_S, timeout_s or _LOOK_AGAIN_S)
        self._polls[wanted].poll(None if timeout_s is None else timeout_s * 1000)

    # -- on an event loop

    async def asend(self, message: object) -> None:
        """Do as `send`."""
        left = memoryview(_packed(message))
        while left:
            count, wanted = self._sent(left)
            left = left[count:]
            if wanted:
                await self._await(wanted)

    async def areceive(self) -> Any:
        """Do as `receive`."""
        async with self._areading:
            while not self._is_whole():
                if wanted := self._read():
                    await self._await(wanted)
            return self._taken()

    async def await_end(self, timeout_s: float) -> bool:
        """Do as `wait_end`."""
        try:
            async with asyncio.timeout(timeout_s), self._areading:
                while True:
                    wanted = self._read()
                    self._data.clear()
                    if wanted:
                        await self._await(wanted)
        except TimeoutError:
            return False
        except HungUp:
            return True

    async def _await(self, wanted: int) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        number = self.fileno()
        reads = wanted == _IN
        add, remove = (
            (loop.add_reader, loop.remove_reader)
            if reads
            else (loop.add_writer, loop.remove_writer)
        )
        add(number, _note, ready)
        try:
            await ready
        finally:
            remove(number)

    # -- the end

    def hang_up(self) -> None:
        """Say no more; the other end may still answer. May be called by any thread."""
        self._shut(socket.SHUT_WR)

    def cut(self) -> None:
        """Have whoever reads or writes here learn that the other end is gone."""
        self._shut(socket.SHUT_RDWR)

    def _shut(self, how: int) -> None:
        with suppress(OSError):  # it is gone already
            # Not TLS's own, which would change what another thread uses.
            socket.socket.shutdown(self._connection, how)

    def close(self) -> None:
        """Close the connection; doing so twice is fine."""
        self._connection.close()

    # -- pieces

    def _poll(self, wanted: int) -> select.poll:
        poll = select.poll()
        poll.register(self._connection, wanted)
        return poll

    def _sent(self, data: memoryview) -> tuple[int, int]:
        """Send what goes at once; tell how much, and what to wait for."""
        try:
            with self._in_turn:
                return self._connection.send(data), 0
        except (BlockingIOError, ssl.SSLWantWriteError):
            return 0, _OUT
        except ssl.SSLWantReadError:
            return 0, _IN
        except OSError as error:
            raise _hung_up(error) from error

    def _read(self) -> int:
        """Read what is there; tell what to wait for, 0 where there was something."""
        missing = self._length() - len(self._data)
        count = min(max(missing, _PIECE_BYTES), _MOST_PIECE_BYTES)
        try:
            with self._in_turn:
                piece = self._connection.recv(count)
        except (BlockingIOError, ssl.SSLWantReadError):
            return _IN
        except ssl.SSLWantWriteError:
            return _OUT
        except OSError as error:
            raise _hung_up(error) from error
        if not piece:
            raise HungUp("the other end has hung up")
        self._data += piece
        return 0

    def _length(self) -> int:
        if len(self._data) < _LENGTH.size:
            return _LENGTH.size
        (length,) = _LENGTH.unpack_from(self._data)
        return _LENGTH.size + int(length)

    def _is_whole(self) -> bool:
        return len(self._data) >= _LENGTH.size and len(self._data) >= self._length()

    def _taken(self) -> Any:
        length = self._length()
        with memoryview(self._data) as data, data[_LENGTH.size : length] as message:
            found = pickle.loads(message)  # of who knows the secret
        del self._data[:length]
        return found


_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _QUIET_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBES_EVERY_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES),
)


def _packed(message: object) -> bytes:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


def _hung_up(error: OSError) -> Exception:
    """Tell a connection's trouble from what a signal handler of the host raises."""
    return error if error.errno is None else HungUp(error.strerror or str(error))


def _note(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
