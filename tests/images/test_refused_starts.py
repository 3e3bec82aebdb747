"""Boxes without our driver, whose network kern could not filter at first."""

from __future__ import annotations

from pathlib import Path

import pytest

from kern_tools import Sandbox
from tests.refusals import FILTERED, Refusals

ECHO = ["echo", "out"]
NODE = ["node", "-e", "console.log('out')"]


@pytest.mark.parametrize(("image", "command"), [("busybox", ECHO), ("node", NODE)])
def test_a_command_that_was_refused_is_run_once(
    request: pytest.FixtureRequest,
    image: str,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Its streams are those of the box that took the place of the first."""
    refusals = Refusals(tmp_path)
    monkeypatch.setenv("KERN_BIN", str(refusals.program))
    with Sandbox(image=request.getfixturevalue(image), **FILTERED) as sandbox:
        refusals.plan(1)
        result = sandbox.run(command)
        assert (result.stdout, result.fault, refusals.starts) == ("out\n", None, 2)
        assert result.code_stderr == ""
        refusals.plan(2)
        result = sandbox.run(command)
        assert result.fault is not None
        assert (result.fault.type, result.stdout) == ("startup_failed", "")
        assert refusals.starts == 2
