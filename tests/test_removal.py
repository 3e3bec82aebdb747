"""A workspace is removed, whatever the box left; and as which user that works."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kern_tools.workspace import Workspace

NOBODY = 65534


PREAMBLE = f"""
import atexit, os, shutil, stat, tempfile
from kern_tools.faults import WorkspaceError
from kern_tools.result import FileInfo
from kern_tools.workspace import Workspace

FileInfo(path="built", size=0)
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
    os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"])
"""


def ordinary(script: str) -> None:
    """Run Python code as a user without privileges; it must not fail."""
    # Privileges go after the imports: where Python is installed may be private.
    code = PREAMBLE + textwrap.dedent(script)
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr == ""


def test_a_private_workspace_is_made_and_removed() -> None:
    """Only its owner may enter it, its name tells whose it is, and it goes at close."""
    workspace = Workspace.create()
    assert workspace.root.name.startswith("kern-tools-ws-")
    assert stat.S_IMODE(workspace.root.stat().st_mode) == 0o700
    workspace.write_file("a/b/c", "x")
    workspace.close()
    assert not workspace.root.exists()


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    """What links in a workspace point to stays."""
    (tmp_path / "kept").write_text("kept")
    workspace = Workspace.create()
    (workspace.root / "d").mkdir()
    for place in (workspace.root, workspace.root / "d"):
        (place / "link").symlink_to(tmp_path)
        (place / "file").symlink_to(tmp_path / "kept")
        os.mkfifo(place / "pipe")
    workspace.close()
    assert not workspace.root.exists()
    assert (tmp_path / "kept").read_text() == "kept"


def test_odd_names_and_many_files_are_removed() -> None:
    """Broken bytes, newlines and names like our own are no obstacle."""
    workspace = Workspace.create()
    for raw in (b"caf\xe9", b"a\nb", b"-rf", b".kern", b".kern-tmp-x", b"n" * 255):
        inner = workspace.root / os.fsdecode(raw)
        (inner / os.fsdecode(raw)).mkdir(parents=True)
        for number in range(100):
            (inner / f"{number}").touch()
    workspace.close()
    assert not workspace.root.exists()


def test_a_directory_that_is_gone_is_no_error() -> None:
    """Somebody else may have cleaned up before."""
    workspace = Workspace.create()
    workspace.root.rmdir()
    workspace.close()


def test_what_cannot_be_removed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Close does not raise; the log names the directory."""
    workspace = Workspace.create()
    moved = workspace.root.with_name(f"{workspace.root.name}-moved")
    workspace.root.rename(moved)
    workspace.root.write_text("not a directory")
    with caplog.at_level(logging.WARNING):
        workspace.close()
    assert str(workspace.root) in caplog.text
    workspace.root.unlink()
    moved.rmdir()


def test_a_forked_child_removes_nothing() -> None:
    """Only the process that made a workspace takes it away."""
    ordinary("""
        workspace = Workspace.create()
        workspace.write_file("a", "x")
        child = os.fork()
        if not child:
            workspace.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert workspace.read_file("a") == b"x"
        workspace.close()
        assert not workspace.root.exists()
    """)


def test_locked_files_and_directories_are_used_without_privileges() -> None:
    """What the box locked is ours: reading, writing, listing and measuring go on."""
    ordinary("""
        workspace = Workspace.create()
        workspace.write_file("d/e/f", "locked")
        workspace.write_file("d/g", "x")

        def lock(*paths):
            for path in paths:
                os.chmod(workspace.root / path, 0)

        every = ("d/e/f", "d/e", "d", "")
        lock(*every)
        assert workspace.read_file("d/e/f") == b"locked"
        lock(*every)
        assert [f.path for f in workspace.list_files()] == ["d/e/f", "d/g"]
        lock(*every)
        assert [f.path for f in workspace.list_files("d/e")] == ["d/e/f"]
        lock(*every)
        assert sorted(workspace.scan().entries) == ["d/e/f", "d/g"]
        lock(*every)
        assert workspace.usage_bytes(1 << 30) < 1 << 30
        lock(*every)
        workspace.write_file("d/e/f", "again")
        workspace.write_file("d/e/new/x", "new")
        assert stat.S_IMODE(os.stat(workspace.root / "d/e/f").st_mode) == 0
        assert workspace.read_file("d/e/f") == b"again"
        os.chmod(workspace.root / "d", 0o400)
        assert len(workspace.list_files()) == 3
        os.chmod(workspace.root / "d", 0o500)
        workspace.write_file("d/h", "x")
        path = workspace.spill("c1", "x")
        lock(path, ".kern", "")
        assert workspace.read_file(path) == b"x"
        lock(path, ".kern", "")
        workspace.spill("c1", "y")
        os.rename(workspace.root / ".kern", workspace.root / "moved")
        (workspace.root / ".kern").write_text("in the way")
        os.chmod(workspace.root, 0o500)
        workspace.spill("c1", "z")
        lock(*every)
        workspace.close()
        assert not workspace.root.exists()
    """)


def test_locked_trees_are_removed_without_privileges() -> None:
    """Directories of any mode, nested in each other, are unlocked and removed."""
    ordinary("""
        workspace = Workspace.create()
        place = workspace.root
        for mode in (0o000, 0o100, 0o200, 0o400, 0o500, 0o700):
            place = place / f"d{mode}"
            (place / "inner" / "more").mkdir(parents=True)
            (place / "file").write_text("x")
        for folder, _, _ in os.walk(workspace.root, topdown=False):
            if os.path.basename(folder).startswith("d"):
                os.chmod(folder, int(os.path.basename(folder)[1:]))
            else:
                os.chmod(folder, 0)
        workspace.close()
        assert not workspace.root.exists()
    """)


def test_what_belongs_to_others_is_told_without_privileges() -> None:
    """A file of another user is `permission`, and a scan says it is not complete."""
    ordinary("""
        workspace = Workspace.at("/")
        for action in (
            lambda: workspace.read_file("etc/shadow"),
            lambda: workspace.write_file("etc/new", "x"),
            lambda: workspace.write_file("etc/hostname", "x"),
        ):
            try:
                action()
            except WorkspaceError as error:
                assert error.code == "permission", error
            else:
                raise AssertionError("nothing was refused")
        workspace.close()
    """)
