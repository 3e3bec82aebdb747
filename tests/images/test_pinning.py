"""A tag is whatever a registry says today; a digest is one image for good."""

from __future__ import annotations

from pathlib import Path

import pytest

from kern_tools import Sandbox

from .layers import busybox_layer
from .registry import Registry


def programs(reference: str) -> list[str]:
    """Give the names in `/bin` of an image."""
    with Sandbox(image=reference, prewarm=0) as sandbox:
        result = sandbox.run(["ls", "/bin"])
    assert result.success, (result.fault, result.code_stderr)
    return result.stdout.split()


def test_a_tag_moves_and_a_digest_does_not(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A machine that has the old one keeps it; a new machine gets the new one."""
    tagged = f"{registry.host}/moving:1"
    digest = registry.push("moving", busybox_layer(("ls", "cat")))
    pinned = f"{registry.host}/moving@{digest}"
    old = programs(tagged)
    registry.push("moving", busybox_layer(("ls", "echo")))
    assert programs(tagged) == programs(pinned) == old

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of another machine"))
    assert programs(tagged) != old
    assert programs(pinned) == old
