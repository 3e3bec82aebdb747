"""What a prompt says of a sandbox is what a box of that sandbox does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from kern_tools import Sandbox, SandboxPool
from kern_tools.config import Budget
from tests.depth import partly

from .claim import Live
from .probing import Found, probe, to_probe
from .registered import CLAIMS, read

DEPS = """\
cd $KERN_DEPS && mkdir bin greet-1.2.dist-info && echo 'hello = 1' > greet.py &&
printf 'Name: greet\\nVersion: 1.2\\n' > greet-1.2.dist-info/METADATA &&
printf '#!/bin/sh\\necho hi\\n' > bin/hi && chmod +x bin/hi
"""
MOUNT = "import ctypes; ctypes.CDLL(None).mount(b'n', b'/tmp', b'tmpfs', 0, None)"
FILL = """\
import time; f = open('filled', 'wb')
while True: f.write(bytes(8 << 20)); f.flush(); time.sleep(0.05)
"""
OPTIONS: dict[str, dict[str, Any]] = {
    "charts": {
        "packages": ["matplotlib"],
        "prewarm": 0,  # A warm box would import matplotlib once more for every call.
        "timeout_max_s": 60,
        "budget": Budget(images=1),
    },
    "tight": {
        "memory_mb": 40,
        "workspace_max_bytes": 8 << 20,
        "tmpfs": {"/tmp": "2m", "/scratch": "1m"},
        "budget": Budget(images=0, text_chars=3000),
        "env": {"TOKEN": "c4n4ry", "OTHER": "x"},
    },
    "resident": {
        "mode": "resident",
        "network": True,
        "toolchain": True,
        "setup": DEPS,
        "deps_readonly": False,
    },
    "kernel": {
        "mode": "kernel",
        "egress_allow": [f"host-{number}.example.org" for number in range(40)],
        "packages": ["mdurl"],
    },
    "timed": {"timeout_s": 1, "timeout_max_s": 2},
}
"""Sandboxes that between them have every fact that a host image can have."""


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


@pytest.fixture(scope="module")
def lives(
    server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Live]]:
    """Give all sandboxes, open."""
    folder = tmp_path_factory.mktemp("mounts")
    for name in ("in", "out"):
        (folder / name).mkdir()
    mounts = {folder / "in": ("/data", "ro"), folder / "out": "/out"}
    OPTIONS["tight"]["mounts"] = mounts
    with ExitStack() as opened:
        lives: dict[str, Live] = {}
        for name, options in OPTIONS.items():
            sandbox = opened.enter_context(Sandbox(**options))
            facts = sandbox.describe().offering("coding")
            lives[name] = Live(sandbox, facts, server)
        pool = opened.enter_context(SandboxPool(setup=DEPS, packages=["mdurl"]))
        facts = pool.describe().offering("coding")
        lives["pool"] = Live(opened.enter_context(pool.lease("one")), facts, server)
        yield lives


@pytest.fixture(scope="module")
def found(lives: dict[str, Live]) -> Found:
    """Give what is probed in each sandbox."""
    return to_probe(lives)


@pytest.mark.parametrize(
    "name", partly([*OPTIONS, "pool"], lambda name: name != "charts")
)
def test_what_is_said_is_so(lives: dict[str, Live], found: Found, name: str) -> None:
    """Each claim of the system prompt and of every description, in a real box."""
    for claim, said in found[name]:
        probe(lives[name], claim, said)


MISSING = "import subprocess; subprocess.run(['git', '--version'])"
URL = "import urllib.request as u; u.urlopen('http://c.example/', timeout=5)"
WAIT_FOR_NETWORK = """\
import socket, sys, time
while True:
    try: socket.getaddrinfo('example.org', 80)
    except OSError as error: print(error, file=sys.stderr, flush=True); time.sleep(0.1)
"""
THREADS = 'raise RuntimeError("can\'t start new thread")'
REPLIES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("fault: timeout", "timed", {"code": "while True: pass"}),
    ("fault: escape_blocked", "charts", {"code": MOUNT}),
    ("fault: exec_failed", "charts", {"code": "1", "language": "node"}),
    ("fault: killed", "resident", {"code": "import os; os.kill(os.getpid(), 9)"}),
    ("fault: workspace_full", "tight", {"code": FILL}),
    ("hint: no_stdin", "charts", {"code": "input()"}),
    ("hint: no_stdin", "kernel", {"code": "input()"}),
    ("hint: no_module", "charts", {"code": "import polars"}),
    ("hint: no_module", "charts", {"code": "import matplotlib.nothing"}),
    ("hint: no_module", "tight", {"code": "import pandas"}),
    ("hint: no_module", "resident", {"code": "import polars"}),
    ("hint: no_name", "charts", {"code": "df.head()"}),
    ("hint: no_name", "resident", {"code": "df.head()"}),
    ("hint: cut_string", "charts", {"code": "print('a\nb')"}),
    ("hint: no_memory", "charts", {"code": "bytearray(1 << 60)"}),
    ("hint: read_only", "tight", {"code": "open('/usr/x', 'w')"}),
    ("hint: read_only", "charts", {"code": "echo x > /usr/x", "language": "bash"}),
    ("hint: no_space", "tight", {"code": "open('/tmp/x', 'wb').write(bytes(9 << 20))"}),
    ("hint: no_processes", "charts", {"code": THREADS}),
    ("hint: no_program", "charts", {"code": "git status", "language": "bash"}),
    ("hint: no_program", "charts", {"code": "git status", "language": "sh"}),
    ("hint: no_program", "resident", {"code": MISSING}),
    ("hint: no_file", "charts", {"code": "open('/mnt/data/x.csv')"}),
    ("hint: no_file", "kernel", {"code": "cat none", "language": "sh"}),
    ("hint: no_network", "charts", {"code": URL}),
    ("hint: no_network", "kernel", {"code": URL}),
    ("hint: no_network", "timed", {"code": WAIT_FOR_NETWORK}),
)
"""What makes each piece of advice, and in which sandbox."""


@pytest.mark.parametrize(
    ("text", "name", "arguments"), REPLIES, ids=lambda part: str(part)[:40]
)
def test_what_is_advised_is_so(
    lives: dict[str, Live], text: str, name: str, arguments: dict[str, Any]
) -> None:
    """A failure leads to its own advice, and what that says holds in the box."""
    live = lives[name]
    reply = live.call("run_code", **arguments)
    advice = reply.text.rpartition("\nnext: ")[2]
    claims = list(read(advice))
    assert {text} <= {source for claim, _ in claims for source in claim.sources}
    assert len(advice) <= 300
    for claim, said in claims:
        if claim.probe is not None and claim.where(live.facts):
            probe(live, claim, said)


def test_a_name_that_went_with_its_box_is_told(lives: dict[str, Live]) -> None:
    """A kernel that was lost is why a name is not known."""
    live = lives["kernel"]
    live.says("df = 1")
    live.sandbox.reset()
    advice = live.call("run_code", code="df").text.rpartition("\nnext: ")[2]
    ((claim, said),) = read(advice)
    assert "hint: no_name" in claim.sources
    probe(live, claim, said)


def test_every_claim_is_probed(lives: dict[str, Live], found: Found) -> None:
    """Here, but for what only other images and enforced caps can show."""
    here = {claim for each in found.values() for claim, _ in each}
    names = {text for text, _, _ in REPLIES}
    replied = {claim for claim in CLAIMS if names & set(claim.sources)}
    for claim in CLAIMS:
        shown = claim in here or claim in replied or claim.probe is None
        assert shown or claim.shown_by != "boxes", claim
