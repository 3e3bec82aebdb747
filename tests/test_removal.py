"""A workspace is removed, whatever the box left; and as which user that works."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable
from math import inf
from pathlib import Path

import pytest

from kern_tools import removal
from kern_tools.ownership import discard_folder, owned_folder
from kern_tools.prune import prune
from kern_tools.removal import wait_removed
from kern_tools.workspace import Workspace

from .hosts import BEGIN, ended

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


@pytest.fixture
def remains(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[], list[Path]]:
    """Have folders made in a place of one test's own; give what is left in it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return lambda: list(tmp_path.iterdir())


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every removal take longer than anybody waits for."""
    monkeypatch.setattr(removal, "AT_ONCE_S", 0.0)


def test_what_is_small_is_removed_by_who_closes(
    monkeypatch: pytest.MonkeyPatch, remains: Callable[[], list[Path]]
) -> None:
    """No thread is started, and nothing is left for later."""
    wait_removed()
    monkeypatch.setattr(removal, "AT_ONCE_S", 60.0)  # a busy disk is no matter here
    workspace = Workspace.create()
    workspace.write_file("a", "x")
    before = set(threading.enumerate())
    workspace.close()
    assert {t.name for t in set(threading.enumerate()) - before} == set()
    assert remains() == []


TREES = {
    "wide": "for n in range(2000): os.mknod(f'{n}')",
    "deep": "for n in range(100): os.mkdir('d'); os.chdir('d')",
    "locked": "for n in range(9): os.mkdir('d'); os.chdir('d'); os.chmod('.', 0)",
}


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("tree", TREES.values(), ids=list(TREES))
def test_what_takes_long_is_gone_at_once_and_removed_in_the_background(
    tree: str, remains: Callable[[], list[Path]]
) -> None:
    """Who closes does not wait, and others never see it half removed."""
    workspace = Workspace.create()
    made = [sys.executable, "-c", f"import os\n{tree}"]
    subprocess.run(made, cwd=workspace.root, check=True)
    workspace.close()
    assert not workspace.root.exists()
    wait_removed()
    assert remains() == []


@pytest.mark.usefixtures("slow")
def test_folders_are_removed_one_after_the_other(
    remains: Callable[[], list[Path]],
) -> None:
    """However many there are, one thread does it, and ends with the last."""
    folders = [owned_folder("deps") for _ in range(20)]
    for folder in folders:
        (folder / "file").write_text("x")
        discard_folder(folder)
        threads = [t for t in threading.enumerate() if t.name == "kern-tools-remove"]
        assert len(threads) <= 1
    assert not any(folder.exists() for folder in folders)
    wait_removed()
    assert remains() == []


@pytest.mark.usefixtures("slow")
def test_where_no_thread_can_be_had_the_next_one_removes_it_too(
    remains: Callable[[], list[Path]],
) -> None:
    """A folder waits aside until then, or for the end of the process."""
    wait_removed()
    first, second = (owned_folder("deps") for _ in range(2))
    for folder in (first, second):
        (folder / "file").write_text("x")
    usual = threading.stack_size(1 << 47)  # more than there is
    try:
        discard_folder(first)
    finally:
        threading.stack_size(usual)
    assert not first.exists()
    assert len(remains()) == 2
    discard_folder(second)
    wait_removed()
    assert remains() == []


LONG = (
    "from kern_tools import ownership, removal\n"
    "from kern_tools.workspace import Workspace\n"
    "removal.AT_ONCE_S = 0.0\n"
    "removal._Background._work = lambda _: None\n"
    "workspace = Workspace.create()\n"
    "for name in ('a/b', 'a/c', 'd'): workspace.write_file(name, 'x')\n"
    "workspace.close()\n"
    "say(workspace.root, workspace.root.exists())\n"
)
"""Closes what is not removed before the process ends: its thread never gets to it."""


@pytest.mark.usefixtures("fresh_cache")
def test_what_the_end_of_a_process_finds_is_removed_then() -> None:
    """Nothing is left of a process that ends in order."""
    (line,) = ended(LONG)
    root, still_there = line.split()
    assert still_there == "False"
    assert list(Path(root).parent.glob(f"*{Path(root).name[-25:]}")) == []
    assert prune(older_than_days=inf).processes == 0


UNDERWAY = (
    "from kern_tools import removal\n"
    "from kern_tools.workspace import Workspace\n"
    "removal.AT_ONCE_S = 0.0\n"
    "workspace = Workspace.create()\n"
    "os.chdir(workspace.root)\n"
    "for n in range(200): os.mkdir('d'); os.chdir('d')\n"
    "os.chdir('/')\n"
    "workspace.close()\n"
    "say(workspace.root)\n"
)
"""Ends while its thread is removing what it closed."""


@pytest.mark.usefixtures("fresh_cache")
def test_the_end_of_a_process_lets_the_background_finish() -> None:
    """Two who removed one tree would each move away what the other looks for."""
    command = [sys.executable, "-c", BEGIN + UNDERWAY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    root = Path(done.stdout.strip())
    assert list(root.parent.glob(f"*{root.name[-25:]}")) == []
    assert prune(older_than_days=inf).processes == 0


@pytest.mark.usefixtures("fresh_cache")
@pytest.mark.parametrize(
    "end",
    ["os.kill(os.getpid(), 9)\n", "ownership._AT_EXIT_S = 0.0\n"],
    ids=["killed", "in a hurry"],
)
def test_what_a_process_did_not_get_to_is_pruned(end: str) -> None:
    """Its name still says whose it was; a process that ends in order tells it too."""
    command = [sys.executable, "-c", BEGIN + LONG + end]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    path, still_there = done.stdout.split()
    root = Path(path)
    gone = root.with_name(root.name.replace("-ws-", "-gone-"))
    assert (still_there, gone.exists()) == ("False", True)
    assert "kill" in end or str(gone) in done.stderr
    assert prune(older_than_days=inf).folders == (gone,)
    assert not gone.exists()


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


def test_a_forked_child_holds_nothing_that_its_parent_removes() -> None:
    """What waits for the background is the parent's alone."""
    ordinary("""
        import threading
        from kern_tools import removal
        removal.AT_ONCE_S = 0.0
        threading.stack_size(1 << 47)  # no thread can be had
        workspace = Workspace.create()
        workspace.write_file("a", "x")
        workspace.close()
        def holds():
            held = [f"/proc/self/fd/{number}" for number in range(99)]
            names = [os.readlink(path) for path in held if os.path.exists(path)]
            return sum("kern-tools-gone-" in name for name in names)
        child = os.fork()
        if not child:
            os._exit(holds())
        assert (holds(), os.waitpid(child, 0)[1]) == (1, 0)
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
