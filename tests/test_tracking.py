"""Files known from one call to the next are those that a walk would find."""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from kern_tools import Sandbox
from kern_tools import workspace as workspaces
from kern_tools.tracking import FEW_FILES
from kern_tools.watching import is_watched
from kern_tools.workspace import Workspace

from .depth import examples
from .hosts import ended

MANY = FEW_FILES + 8
NAMES = st.sampled_from(
    ["a", "b", "d", "d/a", "d/e", "d/e/a", "f/b", "\udcff", "g.kern"]
)
VERBS = st.sampled_from(
    [*("write", "append", "remove", "folder"), *("tree", "rename", "link", "mode")]
)
STEPS = st.lists(st.tuples(VERBS, NAMES, NAMES), min_size=1, max_size=12)


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    """Give a workspace in which the kernel is relied on."""
    workspace = Workspace.create()
    crowd(workspace.root)
    yield workspace
    workspace.close()


def crowd(root: Path) -> None:
    """Make more files than are walked through each time."""
    (root / "crowd").mkdir()
    for number in range(MANY):
        (root / "crowd" / str(number)).touch()


def told(workspace: Workspace, *steps: tuple[str, str, str]) -> list[tuple[str, str]]:
    """Do what the steps say; give what changed, told by the kernel and by a walk."""
    before, moment = workspace.scan(), workspace.now()
    for verb, name, other in steps:
        take(workspace.root, verb, name, other)
    by_kernel = workspace.changes_since(moment, limit=None)
    by_walk = workspace.changes(before, limit=None)
    workspace.forget(moment)
    assert by_kernel == by_walk
    assert (by_kernel.total, by_kernel.complete) == (by_walk.total, by_walk.complete)
    return [(file.path, str(file.change)) for file in by_kernel]


def take(root: Path, verb: str, name: str, other: str) -> None:
    """Change a tree as code might; what cannot be done is not."""
    path = root / name
    steps: dict[str, Callable[[], object]] = {
        "write": lambda: path.write_text("written"),
        "append": lambda: os.truncate(path, path.stat().st_size + 1),
        "remove": lambda: shutil.rmtree(path) if path.is_dir() else path.unlink(),
        "folder": lambda: path.mkdir(parents=True),
        "tree": lambda: plant(path / "x" / "y"),
        "rename": lambda: path.rename(root / other),
        "link": lambda: path.symlink_to(root / other),
        "mode": lambda: path.chmod(0o640),
    }
    with suppress(OSError):
        steps[verb]()


def plant(folder: Path) -> None:
    """Make a directory deep down with a file in it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "deep").write_text("deep")


@examples(40, 1000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=st.lists(STEPS, min_size=1, max_size=4))
def test_the_kernel_tells_what_a_walk_would_find(
    workspace: Workspace, rounds: list[list[tuple[str, str, str]]]
) -> None:
    """Whatever is made, changed, moved and removed, both ways give the same list."""
    for steps in rounds:
        told(workspace, *steps)


def test_a_file_in_a_new_tree_is_told(workspace: Workspace) -> None:
    """Directories made since the last look are looked into."""
    path = "new/x/y/deep"
    assert told(workspace, ("tree", "new", "")) == [(path, "created")]
    assert told(workspace, ("append", path, "")) == [(path, "modified")]


def test_more_changes_than_the_kernel_keeps_are_told(workspace: Workspace) -> None:
    """Where the queue runs over, the tree is walked."""
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    moment = workspace.now()
    one, other = (workspace.root / name for name in ("one", "other"))
    for number in range(most // 2 + 10):
        path = other if number % 2 else one
        path.write_bytes(b"")
    (workspace.root / "last").touch()
    changed = workspace.changes_since(moment)
    assert [file.path for file in changed] == ["last", "one", "other"]


def test_two_workspaces_on_one_folder_are_both_told(workspace: Workspace) -> None:
    """One directory has one watch, and every sandbox on it hears of changes."""
    second = Workspace.at(workspace.root)
    moments = workspace.now(), second.now()
    (workspace.root / "shared").touch()
    assert [f.path for f in workspace.changes_since(moments[0])] == ["shared"]
    assert [f.path for f in second.changes_since(moments[1])] == ["shared"]
    second.close()
    assert told(workspace, ("append", "shared", "")) == [("shared", "modified")]


def test_moments_that_overlap_each_tell_their_own(workspace: Workspace) -> None:
    """A call is told what changed since it began, not since another did."""
    first = workspace.now()
    (workspace.root / "one").touch()
    second = workspace.now()
    (workspace.root / "two").touch()
    assert [f.path for f in workspace.changes_since(second)] == ["two"]
    workspace.forget(second)
    assert [f.path for f in workspace.changes_since(first)] == ["one", "two"]


def test_a_link_put_in_a_folders_place_is_not_followed(
    workspace: Workspace, tmp_path: Path
) -> None:
    """What a planted link leads to is never listed."""
    (tmp_path / "secret").write_text("x")
    (workspace.root / "d").mkdir()
    moment = workspace.now()
    (workspace.root / "d" / "secret").touch()
    (workspace.root / "d").rename(workspace.root / "e")
    (workspace.root / "d").symlink_to(tmp_path)
    assert [f.path for f in workspace.changes_since(moment)] == ["e/secret"]


@pytest.mark.parametrize("files", [1, MANY])
def test_a_change_through_a_memory_map_is_told_once_it_is_closed(
    workspace: Workspace, files: int
) -> None:
    """Of few files it is told while the map is open, too."""
    root = workspace.root
    if files == 1:
        shutil.rmtree(root / "crowd")
    (root / "mapped").write_bytes(bytes(mmap.PAGESIZE))
    descriptor = os.open(root / "mapped", os.O_RDWR)
    view = mmap.mmap(descriptor, 0)
    moment = workspace.now()
    view[0] = 1
    view.flush()
    if files == 1:
        assert [f.path for f in workspace.changes_since(moment)] == ["mapped"]
    view.close()
    os.close(descriptor)
    assert [f.path for f in workspace.changes_since(moment)] == ["mapped"]


@pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
def test_a_call_in_a_crowded_workspace_lists_its_own_files(mode: str) -> None:
    """What a box writes is seen by the kernel of the host."""
    with Sandbox(mode=mode) as sandbox:
        crowd(sandbox.workspace.root)
        code = "import os; os.makedirs('new/er'); open('new/er/f', 'w').write('x')"
        result = sandbox.run_code(code)
        assert [(f.path, f.change) for f in result.files] == [("new/er/f", "created")]
        result = sandbox.run_code("open('new/er/f', 'a').write('y'); open('g', 'w')")
        changes = [(f.path, f.change) for f in result.files]
        assert changes == [("g", "created"), ("new/er/f", "modified")]
        assert sandbox.run_code("1").files == []


def test_a_change_through_one_name_of_a_file_is_one_of_every_name(
    workspace: Workspace,
) -> None:
    """The kernel tells the name that was used, and there may be others."""
    (workspace.root / "a").touch()
    (workspace.root / "d").mkdir()
    (workspace.root / "d" / "b").hardlink_to(workspace.root / "a")
    changed = told(workspace, ("append", "d/b", ""))
    assert changed == [("a", "modified"), ("d/b", "modified")]


UNWATCHED = """
import ctypes
from contextlib import closing
from pathlib import Path
from kern_tools.watching import directory_events
from kern_tools.workspace import Workspace

def allow(kind, most):
    Path(f"/proc/sys/user/max_inotify_{kind}").write_text(f"{most}")

def look():
    with closing(Workspace.create()) as workspace:
        for folder in "abc":
            (workspace.root / folder).mkdir()
            for number in range(30):
                (workspace.root / folder / str(number)).touch()
        for name in ("a/new", "c/new"):
            moment = workspace.now()
            (workspace.root / name).touch()
            changed = workspace.changes_since(moment)
            say(*(file.path for file in changed), changed.complete)
            workspace.forget(moment)
    say(directory_events() is not None)

assert ctypes.CDLL(None).unshare(0x10000000) == 0  # a user namespace of its own
allow("instances", 0)
look()
allow("instances", 1)
allow("watches", 2)
if not os.fork():
    look()
    os._exit(0)
os.wait()
"""


def test_where_the_kernel_watches_no_more_every_file_is_looked_at() -> None:
    """Nothing that changed is missed, and a forked child asks the kernel anew."""
    looks = ["a/new True", "c/new True"]
    assert ended(UNWATCHED) == [*looks, "False", *looks, "True"]


def test_more_files_than_are_looked_at_are_told_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The list is not complete, and says so."""
    monkeypatch.setattr(workspaces, "SCAN_LIMIT_ENTRIES", MANY + 4)
    with closing(Workspace.create()) as workspace:
        crowd(workspace.root)
        moment = workspace.now()
        (workspace.root / "one").touch()
        few = workspace.changes_since(moment)
        assert ([file.path for file in few], few.complete) == (["one"], True)
        for number in range(8):
            (workspace.root / f"more{number}").touch()
        assert not workspace.changes_since(moment).complete
        workspace.forget(moment)


def test_what_is_mounted_nowhere_is_watched_by_nobody() -> None:
    """Of a file system that is not listed, nothing is known."""
    reader, writer = os.pipe()
    try:
        assert not is_watched(reader)
    finally:
        os.close(reader)
        os.close(writer)
