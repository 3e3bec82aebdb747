"""Images that exist only in a registry of these tests' own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.debian import program

from .layers import busybox_layer, node_layer
from .registry import Registry
from .trickle import SlowRegistry


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Give a running registry that holds nothing yet, and kern what it pulls with."""
    program("curl", package="curl")
    with Registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="session")
def image_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the directory where all tests of images keep what they pull."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, image_cache: Path) -> None:
    """Keep pulled images out of the user's cache, and loopback away from proxies."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(image_cache))
    monkeypatch.setenv("no_proxy", "localhost")


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give one test a cache in which no image is present."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return cache


@pytest.fixture(scope="session")
def busybox_digest(registry: Registry) -> str:
    """Push an image with busybox as its shell, and nothing else; give its digest."""
    applets = ("sh", "echo", "cat", "sleep", "ls")
    return registry.push("busybox", busybox_layer(applets))


@pytest.fixture(scope="session")
def busybox(registry: Registry, busybox_digest: str) -> str:
    """Give the reference of the busybox image by its tag."""
    assert busybox_digest
    return f"{registry.host}/busybox:1"


@pytest.fixture(scope="session")
def shell_less(registry: Registry) -> str:
    """Push an image with three static programs and no shell; give its reference."""
    registry.push("shell-less", busybox_layer(("echo", "cat", "sleep")))
    return f"{registry.host}/shell-less:1"


@pytest.fixture(scope="session")
def node(registry: Registry) -> str:
    """Push an image with Node and no Python; give its reference."""
    registry.push("node", node_layer())
    return f"{registry.host}/node:1"


@pytest.fixture
def slow_registry(registry: Registry, busybox: str) -> Iterator[SlowRegistry]:
    """Give the registry behind a proxy that hands layers out bit by bit."""
    assert busybox
    with SlowRegistry(registry.host) as slow:
        yield slow
