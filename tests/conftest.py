"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kern_tools.image import ensure_image

# The contracts ship in the package; without this their asserts would show no values.
pytest.register_assert_rewrite(
    "kern_tools.testing",
    "kern_tools.contract_calls",
    "kern_tools.contract_ending",
    "kern_tools.contract_place",
)


@pytest.fixture
def fresh_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give one test a cache of its own, with the images that are there already."""
    ensure_image()
    old = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "kern").symlink_to(Path(old) / "kern")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return cache / "kern-tools"
