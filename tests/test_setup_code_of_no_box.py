"""`setup_code` where no box starts: the box is at fault, not the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from kern_tools import Sandbox, SandboxError


def test_a_box_that_does_not_start_is_not_blamed_on_its_setup_code() -> None:
    """The error is about what kern was asked for, and quotes no code."""
    sandbox = Sandbox(mode="kernel", setup_code="x = 1", apparmor="no-such-profile")
    with pytest.raises(SandboxError) as refused:
        sandbox.open()
    fault = refused.value.fault
    assert fault is not None
    assert (fault.type, fault.reason) == ("startup_failed", "host")
    assert "apparmor='no-such-profile'" in str(refused.value)


def test_a_kernel_that_cannot_be_replaced_says_why(tmp_path: Path) -> None:
    """Also later, when a new box is needed and a mount is gone."""
    folder = tmp_path / "data"
    folder.mkdir()
    mounts = {folder: "/data"}
    with Sandbox(mode="kernel", setup_code="x = 1", mounts=mounts) as sandbox:
        assert sandbox.run_code("x").results[0].text == "1"
        sandbox.reset()
        folder.rmdir()
        result = sandbox.run_code("x")
        assert result.fault is not None
        assert (result.fault.type, result.fault.reason) == ("startup_failed", "mount")
        folder.mkdir()
        assert sandbox.run_code("x").results[0].text == "1"


async def test_setup_code_that_fails_in_a_later_box_is_told_to_async_callers_too(
    tmp_path: Path,
) -> None:
    """What it needs was there when the sandbox opened, and is gone."""
    (tmp_path / "data").touch()
    with Sandbox(
        mode="kernel", setup_code="x = open('data').read()", workspace=tmp_path
    ) as sandbox:
        sandbox.reset()
        (tmp_path / "data").unlink()
        result = await sandbox.arun_code("x")
        assert result.fault is not None
        assert (result.fault.type, result.fault.reason) == (
            "startup_failed",
            "setup_code",
        )
        assert "No such file or directory: 'data'" in result.fault.message
