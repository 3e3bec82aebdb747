"""Where an actor takes the channels of the pool's process, and answers."""

from __future__ import annotations

import errno
import random
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .channel import Channel, HungUp
from .greeting import SECRET_BYTES, Greeting
from .told import Told
from .trouble import ClusterError

Ports = tuple[int, int]
"""The first and the last that may be used."""
Answer = Callable[[Any, Channel], Told]
"""Does what is asked; it may send messages of its own before its last one."""

_STRANGERS = 64
"""Connections that may be greeted at once."""
_BACKLOG = 128
_AGAIN_S = 0.1
"""How soon it is tried again to take a connection."""


class Serving:
    """Answers each channel on a thread of its own.

    Attributes:
        address: Host and port to connect to.
        secret: What a caller has to know.

    Args:
        host: This node's address, by which the others know it.
        ports: Where to listen; None takes any free port.
        answer: Answers.

    Raises:
        ClusterError: `no_port`.
    """

    def __init__(self, host: str, ports: Ports | None, answer: Answer) -> None:
        self.secret = secrets.token_bytes(SECRET_BYTES)
        self._answer = answer
        self._listener = _listening(host, ports)
        self.address: tuple[str, int] = (host, self._listener.getsockname()[1])
        self._greeting = Greeting(self.secret, is_called=True)
        self._strangers = threading.BoundedSemaphore(_STRANGERS)
        self._answering = 0
        self._moved = threading.Condition()
        self._start(self._accept)

    def _start(self, do: Callable[..., None], *arguments: Any) -> None:
        name = "kern-tools-cluster-channel"
        threading.Thread(target=do, args=arguments, name=name, daemon=True).start()

    def wait_quiet(self, timeout_s: float) -> bool:
        """Wait until every caller has an answer."""
        with self._moved:
            return self._moved.wait_for(lambda: self._answering == 0, timeout_s)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # no descriptor is free: whoever waits is taken later
                time.sleep(_AGAIN_S)
                continue
            if self._strangers.acquire(blocking=False):
                self._start(self._serve, connection)
            else:
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, HungUp):  # the caller is gone, or is none of ours
            channel = self._greeted(connection)
            try:
                while True:
                    self._serve_once(channel)
            finally:
                channel.close()

    def _greeted(self, connection: socket.socket) -> Channel:
        try:
            return Channel(self._greeting.greet(connection, self.address[0]))
        finally:
            self._strangers.release()

    def _serve_once(self, channel: Channel) -> None:
        asked = channel.receive()
        self._count(1)
        try:
            _say(channel, self._answer(asked, channel))
        finally:
            self._count(-1)

    def _count(self, much: int) -> None:
        with self._moved:
            self._answering += much
            self._moved.notify_all()


def _say(channel: Channel, told: Told) -> None:
    try:
        channel.send(told)
    except HungUp:
        raise
    except Exception as error:  # it has no form in which it could be sent
        channel.send(Told.of(RuntimeError(f"the answer cannot be sent: {error!r}")))


def _listening(host: str, ports: Ports | None) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    candidates = [0] if ports is None else list(range(ports[0], ports[1] + 1))
    random.shuffle(candidates)
    for port in candidates:
        try:
            return socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise _no_port(host, ports, error) from error
    raise _no_port(host, ports, OSError(errno.EADDRINUSE, "all are in use"))


def _no_port(host: str, ports: Ports | None, error: OSError) -> ClusterError:
    where = (
        "any free port" if ports is None else f"a port from {ports[0]} to {ports[1]}"
    )
    return ClusterError(
        f"a sandbox cannot take calls at {where} of {host} ({error.strerror}): change"
        " call_ports=..., or the node's --node-ip-address",
        code="no_port",
    )
