"""What an image would start by itself has no part in a call."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kern_tools import Sandbox
from kern_tools.binary import find_kern
from tests.debian import unpacked
from tests.depth import partly

WRAPPER = """\
#!/bin/sh
# As in the official image of Node: what is no program is a script for node.
echo wrapped
if [ -z "$(command -v "$1")" ]; then set -- node "$@"; fi
exec "$@"
"""
ENTRYPOINTS = partly(
    ['["wrapper.sh"]', '["node"]', '["/nothing"]', '["/bin/sh", "-c"]'],
    lambda entrypoint: entrypoint.startswith('["/'),
)


@pytest.fixture
def starting(node: str, tmp_path: Path) -> Callable[[str], str]:
    """Give what builds an image of Node with a shell and an entrypoint."""
    busybox = unpacked("busybox-static") / "bin/busybox"
    shutil.copy(busybox, tmp_path / "sh")
    (tmp_path / "wrapper.sh").write_text(WRAPPER)
    (tmp_path / "wrapper.sh").chmod(0o755)

    def build(entrypoint: str) -> str:
        lines = [
            f"FROM {node}",
            "COPY sh /bin/sh",
            "COPY wrapper.sh /usr/local/bin/wrapper.sh",
            f"ENTRYPOINT {entrypoint}",
            'CMD ["--version"]',
        ]
        (tmp_path / "Dockerfile").write_text("\n".join(lines) + "\n")
        tag = "localhost/starting:1"
        command = [str(find_kern()), "build", "-t", tag, str(tmp_path)]
        subprocess.run(command, check=True, capture_output=True)
        return tag

    return build


@pytest.mark.parametrize("entrypoint", ENTRYPOINTS)
def test_what_an_image_starts_with_is_not_run(
    starting: Callable[[str], str], entrypoint: str
) -> None:
    """A cell, a shell and a program are what they are, and nothing is in front."""
    with Sandbox(image=starting(entrypoint), prewarm=0) as sandbox:
        cell = sandbox.run_code("console.log([1, 2, 3].map(x => x * x))", "node")
        shell = sandbox.run_code("echo $((6 * 7))", "sh")
        program = sandbox.run(["node", "-p", "1 + 1"])

    assert (cell.stdout, cell.fault) == ("[ 1, 4, 9 ]\n", None)
    assert (shell.stdout, shell.fault) == ("42\n", None)
    assert (program.stdout, program.fault) == ("2\n", None)


@pytest.mark.parametrize("entrypoint", ENTRYPOINTS)
def test_a_missing_program_is_still_told(
    starting: Callable[[str], str], entrypoint: str
) -> None:
    """No entrypoint makes a script of the name of a program."""
    with Sandbox(image=starting(entrypoint), prewarm=0) as sandbox:
        python = sandbox.run_code("print(1)")
        other = sandbox.run(["nosuch"])

    assert (python.fault_type, python.exit_code) == ("exec_failed", 127)
    assert (other.fault_type, other.exit_code) == ("exec_failed", 127)
