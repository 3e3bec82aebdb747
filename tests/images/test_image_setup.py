"""`setup` and `toolchain` in images without Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from kern_tools import Sandbox, SandboxError

TOOL = "#!/bin/sh\necho the tool of $HOME\n"


def test_a_setup_needs_no_more_than_a_shell(busybox: str, tmp_path: Path) -> None:
    """What it puts into `bin` is found by name."""
    (tmp_path / "tool").write_text(TOOL)
    (tmp_path / "tool").chmod(0o755)
    line = "cat /tools/tool > tool; echo $PATH > path"
    options = {"setup": line, "mounts": {tmp_path: "/tools"}}
    with Sandbox(image=busybox, toolchain=True, **options) as sandbox:
        tool = sandbox.run(["sh", "-c", ". $KERN_DEPS/tool"])
        path = sandbox.run(["sh", "-c", "cat $KERN_DEPS/path; echo $PATH"])
    assert tool.stdout == "the tool of /workspace/.kern/home\n"
    assert all(line.startswith("/opt/kern-deps/bin:") for line in path.stdout.split())


def test_a_setup_without_a_shell_is_an_error_that_says_so(shell_less: str) -> None:
    """The line is for the image's own shell."""
    with pytest.raises(SandboxError, match="/bin/sh") as caught:
        Sandbox(image=shell_less, setup="echo").open()
    assert caught.value.code == "setup"
