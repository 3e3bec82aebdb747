"""Closing a sandbox while its image is being pulled."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kern_tools import Sandbox, SandboxClosed

from .trickle import SlowRegistry


@pytest.mark.usefixtures("empty_cache")
def test_closing_ends_a_pull(slow_registry: SlowRegistry) -> None:
    """Kern and its download are gone, and `open` says that the sandbox was closed."""
    sandbox = Sandbox(image=f"{slow_registry.host}/busybox:1")
    with ThreadPoolExecutor(1) as threads:
        opening = threads.submit(sandbox.open)
        while not slow_registry.began.is_set():
            time.sleep(0)
        sandbox.close()
        assert isinstance(opening.exception(60), SandboxClosed)
    assert slow_registry.abandoned.wait(60)
    assert pulling(slow_registry.host) == []


def pulling(host: str) -> list[bytes]:
    """Give the command lines that pull from one registry."""
    found: list[bytes] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes()
        except OSError:
            continue
        if b"\0pull\0" in line and host.encode() in line:
            found.append(line)
    return found
