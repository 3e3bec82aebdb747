"""What all tests share."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from kern_tools import engine
from kern_tools.image import ensure_image
from tests.depth import examples, leave_the_rest
from tests.hosts import wait_until

# For properties that say nothing themselves.
settings.register_profile("part", examples(60, 1000))
settings.load_profile("part")

# The contracts ship in the package; without this their asserts would show no values.
pytest.register_assert_rewrite(
    "kern_tools.contract_adapter",
    "kern_tools.contract_backend",
    "kern_tools.contract_calls",
    "kern_tools.contract_ending",
    "kern_tools.contract_limits",
    "kern_tools.contract_place",
    "kern_tools.contract_walls",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what only `make verify` takes before it is looked for; long files first."""
    leave_the_rest(items)
    items.sort(key=lambda item: item.path.stem not in LONG)


LONG = {
    *("test_cli", "test_conformance", "test_cookbooks", "test_deepagents"),
    *("test_demo", "test_environments", "test_host_states", "test_image"),
    *("test_in_boxes", "test_inventory", "test_mcp_stdio", "test_packaging"),
    *("test_prune", "test_sandbox", "test_setup", "test_soak"),
}
"""Files that take long: begun last, one of them would have the other workers wait."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import everything without a collector: none of it is garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keep what frameworks made at their import out of every later collection.

    With all of them in one process a `gc.collect()` takes a third of a second.
    """
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def engine_at_rest() -> Generator[None]:
    """Demand that the engine waits after the tests of each module.

    A descriptor of a box that is gone would keep it busy for ever.
    """
    yield
    if engine._engine is not None:
        poll = engine._engine._poll
        wait_until(lambda: not poll.poll(0))


@pytest.fixture
def fresh_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give one test a cache of its own, with the images that are there already."""
    cache = cache_in(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return cache / "kern-tools"


def cache_in(folder: Path) -> Path:
    """Make a cache with the images that are there already, and nothing else."""
    ensure_image()
    old = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = folder / "cache"
    cache.mkdir()
    (cache / "kern").symlink_to(Path(old) / "kern")
    return cache
