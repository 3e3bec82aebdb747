"""How the two ends of a channel prove that they know its secret, and are not overheard.

Nothing that a stranger sends is read as more than bytes: each end sends a nonce, and
proves the secret over both nonces with HMAC, before anything is unpickled. Where Ray
encrypts what its processes say, channels do too, with the same certificates.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
import ssl
import time

SECRET_BYTES = 32
GREETING_S = 10.0
"""How long a greeting may take."""
_NONCE_BYTES = 32
_PROOF_BYTES = hashlib.sha256().digest_size


class Stranger(ConnectionError):
    """The other end does not know the secret."""


class Greeting:
    """One end's part of the greetings, with certificates as they are at its making.

    Args:
        secret: What both ends know.
        is_called: This end is connected to; else it connects.
    """

    def __init__(self, secret: bytes, *, is_called: bool) -> None:
        self._secret = secret
        self._is_called = is_called
        self._tls = _tls(is_called=is_called)

    def greet(self, connection: socket.socket, host: str) -> socket.socket:
        """Greet the other end; a connection that fails is closed.

        Args:
            connection: The connection.
            host: Whose certificate it has to be that was connected to.

        Returns:
            The connection to go on with.

        Raises:
            Stranger: The other end does not know the secret.
            OSError: It was not quick enough, or went away.
        """
        until_s = time.monotonic() + GREETING_S
        connection.settimeout(GREETING_S)
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(
                    connection,
                    server_side=self._is_called,
                    server_hostname=None if self._is_called else host,
                )
            greet = _called if self._is_called else _calling
            greet(connection, self._secret, until_s)
        except BaseException:
            connection.close()
            raise
        return connection


def _called(connection: socket.socket, secret: bytes, until_s: float) -> None:
    ours = secrets.token_bytes(_NONCE_BYTES)
    connection.sendall(ours)
    theirs = _exactly(connection, _NONCE_BYTES, until_s)
    _expect(connection, _proof(secret, b"caller", ours, theirs), until_s)
    connection.sendall(_proof(secret, b"called", ours, theirs))


def _calling(connection: socket.socket, secret: bytes, until_s: float) -> None:
    theirs = _exactly(connection, _NONCE_BYTES, until_s)
    ours = secrets.token_bytes(_NONCE_BYTES)
    connection.sendall(ours + _proof(secret, b"caller", theirs, ours))
    _expect(connection, _proof(secret, b"called", theirs, ours), until_s)


def _proof(secret: bytes, whose: bytes, first: bytes, second: bytes) -> bytes:
    return hmac.digest(secret, whose + first + second, "sha256")


def _expect(connection: socket.socket, proof: bytes, until_s: float) -> None:
    given = _exactly(connection, _PROOF_BYTES, until_s)
    if not hmac.compare_digest(given, proof):
        raise Stranger("the other end of a channel does not know its secret")


def _exactly(connection: socket.socket, count: int, until_s: float) -> bytes:
    data = b""
    while len(data) < count:
        connection.settimeout(max(0.001, until_s - time.monotonic()))
        piece = connection.recv(count - len(data))
        if not piece:
            raise Stranger("the other end of a channel hung up during the greeting")
        data += piece
    return data


def _tls(*, is_called: bool) -> ssl.SSLContext | None:
    """Give what encrypts as Ray does, where it does.

    Source: https://docs.ray.io/en/latest/ray-core/configure.html#tls-authentication
    """
    if os.environ.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        return None
    kind = ssl.PROTOCOL_TLS_SERVER if is_called else ssl.PROTOCOL_TLS_CLIENT
    context = ssl.SSLContext(kind)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(
        os.environ["RAY_TLS_SERVER_CERT"], os.environ["RAY_TLS_SERVER_KEY"]
    )
    context.load_verify_locations(os.environ["RAY_TLS_CA_CERT"])
    if is_called:
        context.num_tickets = 0  # an idle channel has nothing to say
    return context
