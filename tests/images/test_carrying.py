"""An image reaches a machine without a registry as a file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kern_tools import Sandbox
from kern_tools.binary import find_kern


def kern(*words: str | Path) -> None:
    """Run kern as an operator does."""
    subprocess.run([find_kern(), *words], check=True, capture_output=True)


def test_an_image_can_be_carried_to_another_machine(
    busybox: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Saved by kern on one, loaded on the other, it is there without any pull.

    Source: https://github.com/simstudioai/sim/issues/1528
    """
    with Sandbox(image=busybox) as sandbox:
        sandbox.run(["echo"])
    kern("save", busybox, "-o", tmp_path / "image.tar")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of another machine"))
    kern("load", "-i", tmp_path / "image.tar")
    with Sandbox(image=busybox, offline=True) as sandbox:
        assert sandbox.run(["echo", "arrived"]).stdout == "arrived\n"
