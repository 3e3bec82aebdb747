"""A registry whose layers arrive slowly: a proxy in front of a real one."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Slow, but above the rate at which kern's own download gives up.
_PACE_S = 0.05
_PIECE_BYTES = 256
_LAYER_BYTES = 1 << 16
"""Larger than any manifest or configuration, smaller than any layer pushed here."""
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class SlowRegistry(ThreadingHTTPServer):
    """Hands layers out bit by bit until `release`, everything else at once.

    Attributes:
        upstream: The real registry's `localhost:PORT`.
        host: Ours, to use in its place.
        began: Set when a client was given the first piece of a layer.
        abandoned: Set when a client has gone away in the middle of a layer.
    """

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream
        self.host = f"localhost:{self.server_port}"
        self.began = threading.Event()
        self.abandoned = threading.Event()
        self.released = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self.release()
        self.shutdown()
        self._thread.join()
        self.server_close()

    def release(self) -> None:
        """Let layers through at full speed from now on."""
        self.released.set()


class _Handler(BaseHTTPRequestHandler):
    @property
    def _registry(self) -> SlowRegistry:
        assert isinstance(self.server, SlowRegistry)
        return self.server

    def do_GET(self) -> None:
        request = urllib.request.Request(
            f"http://{self._registry.upstream}{self.path}",
            headers={"Accept": self.headers.get("Accept", "*/*")},
        )
        try:
            with _OPENER.open(request) as answer:
                self._pass_on(answer.status, dict(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            with error:
                self._pass_on(error.code, dict(error.headers), error.read())

    def _pass_on(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self._write(body)
        except ConnectionError:
            self._registry.abandoned.set()

    def _write(self, body: bytes) -> None:
        sent = 0
        while len(body) > _LAYER_BYTES and sent < len(body):
            if self._registry.released.wait(_PACE_S):
                break
            self.wfile.write(body[sent : sent + _PIECE_BYTES])
            sent += _PIECE_BYTES
            self._registry.began.set()
        self.wfile.write(body[sent:])

    def log_message(self, format: str, *args: object) -> None:
        del format, args
