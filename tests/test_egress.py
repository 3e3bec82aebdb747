"""`egress_allow`: a few domains over HTTP, and no other way out, in every mode."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from kern_tools import Sandbox

DOMAIN = "allowed.example"  # reserved by RFC 2606, so that nothing is ever there
FETCH = """\
import urllib.error, urllib.request
def fetch(url):
    try:
        return urllib.request.urlopen(url, timeout=30).read().decode()
    except urllib.error.HTTPError as error:
        return error.code
    except urllib.error.URLError as error:
        return str(error.reason)
"""
RAW = """\
import socket
try: socket.create_connection(("192.0.2.1", 80), 30)
except OSError as error: print(error.strerror)
try: socket.getaddrinfo("{domain}", 80)
except OSError as error: print(type(error).__name__)
"""


class Handler(BaseHTTPRequestHandler):
    """Answers every request, and says nothing on stderr."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"served")

    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Give the address of a server on the loopback of this machine."""
    with HTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture(scope="module", params=["fresh", "resident", "kernel"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Give a sandbox with one domain allowed, in each mode."""
    with Sandbox(mode=request.param, egress_allow=[DOMAIN]) as opened:
        yield opened


def said(sandbox: Sandbox, expression: str) -> str:
    """Give what an expression comes to in the box."""
    result = sandbox.run_code(f"{FETCH}print({expression})")
    assert result.exit_code == 0, result.code_stderr
    return result.stdout.strip()


def test_programs_find_the_proxy(sandbox: Sandbox) -> None:
    """HTTP clients read variables, which kern sets."""
    shown = sandbox.run(["sh", "-c", "echo $http_proxy $HTTPS_PROXY"]).stdout.split()
    assert [url.startswith("http://127.0.0.1:") for url in shown] == [True, True]


def test_another_domain_is_refused_by_the_proxy(sandbox: Sandbox) -> None:
    """Over HTTP it is status 403, over HTTPS the tunnel's refusal."""
    assert said(sandbox, "fetch('http://other.example/')") == "403"
    assert "403 Forbidden" in said(sandbox, "fetch('https://other.example/')")


def test_the_allowed_domain_is_not_refused(sandbox: Sandbox) -> None:
    """The proxy tries it, and cannot find this one."""
    assert said(sandbox, f"fetch('http://{DOMAIN}/')") not in ("", "403")


def test_the_loopback_of_the_host_is_refused(sandbox: Sandbox, server: str) -> None:
    """By address, and by name."""
    port = server.partition(":")[2]
    assert said(sandbox, f"fetch('http://{server}/')") == "403"
    assert said(sandbox, f"fetch('http://localhost:{port}/')") == "403"


def test_there_is_no_route_around_the_proxy(sandbox: Sandbox) -> None:
    """A client that takes no notice of the variables has no network at all."""
    result = sandbox.run_code(RAW.format(domain=DOMAIN))
    assert result.stdout == "Network is unreachable\ngaierror\n"


def test_full_network_reaches_the_loopback_of_the_host(server: str) -> None:
    """What `network=True` says it relaxes."""
    with Sandbox(network=True, prewarm=0) as sandbox:
        assert said(sandbox, f"fetch('http://{server}/')") == "served"
