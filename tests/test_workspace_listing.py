"""What a workspace holds, what changed in it, and how much disk it takes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kern_tools import walking
from kern_tools.listing import Scan, marks_of
from kern_tools.names import DEPTH_LIMIT, shown_name
from kern_tools.walking import Found, Walk
from kern_tools.workspace import Workspace

from .depth import examples

ODD_NAMES = [b"caf\xe9", b"a\nb", b"\\x80", b"\\x5c", b"\xe2\x80\xae", b" ", b"-rf"]


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    """Yield an open workspace that is removed afterwards."""
    with closing(Workspace.create()) as made:
        yield made


def nest(top: Path, depth: int, *, beside: bool) -> None:
    """Make directories in each other, deeper than a path can say."""
    held = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        # Whichever order a file system lists them in, one is walked after the depth.
        for name in ("before", "deeper", "after") if beside else ("deeper",):
            os.mkdir(name, dir_fd=held)
            if beside:
                file = os.open(f"{name}/f", os.O_CREAT | os.O_WRONLY, dir_fd=held)
                os.close(file)
        below = os.open("deeper", os.O_RDONLY, dir_fd=held)
        os.close(held)
        held = below
    os.close(held)


def test_a_listing_is_sorted_and_recursive(workspace: Workspace) -> None:
    """Files of all levels come in one order, with their sizes."""
    for path in ("b.txt", "a/z.txt", "a/b/c.txt", ".hidden", "a.txt"):
        workspace.write_file(path, path)
    (workspace.root / "empty").mkdir()
    files = workspace.list_files()
    expected = [".hidden", "a.txt", "a/b/c.txt", "a/z.txt", "b.txt"]
    assert [(file.path, file.size) for file in files] == [(p, len(p)) for p in expected]
    assert {file.change for file in files} == {"created"}
    assert (files.total, files.complete) == (5, True)


def test_a_listing_can_start_below_the_top(workspace: Workspace) -> None:
    """Paths stay relative to the workspace; a file is listed alone."""
    for path in ("a/x", "a/b/y", "c"):
        workspace.write_file(path, "1")
    for spelled in ("a", "a/", "./a", "/workspace/a"):
        assert [f.path for f in workspace.list_files(spelled)] == ["a/b/y", "a/x"]
    assert [f.path for f in workspace.list_files("a/x")] == ["a/x"]
    whole = workspace.list_files("/workspace")
    assert [file.path for file in whole] == ["a/b/y", "a/x", "c"]


def test_a_long_listing_is_cut_and_counted(workspace: Workspace) -> None:
    """The first files by path are given, the count is of all."""
    for number in range(120):
        workspace.write_file(f"f{number:03}", "x")
    files = workspace.list_files(limit=3)
    assert [file.path for file in files] == ["f000", "f001", "f002"]
    assert files.total == 120


def test_our_own_files_are_in_no_listing(workspace: Workspace) -> None:
    """`.kern` is hidden at the top, where it can be read, and nowhere deeper."""
    before = workspace.scan()
    path = workspace.spill("c7", "all of it")
    (workspace.root / ".kern-tmp-0123").write_text("half")
    workspace.write_file("d/.kern/x", "1")
    shown = ["d/.kern/x"]
    assert [file.path for file in workspace.list_files()] == shown
    assert [file.path for file in workspace.changes(before)] == shown
    assert workspace.list_files(".kern") == []
    assert workspace.read_file(path) == b"all of it"
    assert workspace.usage_bytes() > 0


@pytest.mark.parametrize("raw", ODD_NAMES)
def test_an_odd_name_is_listed_and_read_by_what_was_listed(
    workspace: Workspace, raw: bytes
) -> None:
    """The listed path is UTF-8, and it or its shown form opens the same file."""
    for place in (workspace.root, workspace.root / "d"):
        place.mkdir(exist_ok=True)
        (place / os.fsdecode(raw)).write_bytes(raw)
    for file in workspace.list_files():
        file.path.encode("utf-8")
        assert workspace.read_file(file.path) == raw
        assert workspace.read_file(shown_name(file.path)) == raw
        workspace.write_file(file.path, b"again")
    assert {path.name for path in workspace.root.iterdir()} == {os.fsdecode(raw), "d"}


@examples(25, 500)
@given(st.sets(st.binary(min_size=1, max_size=30), max_size=8))
def test_different_names_are_listed_as_different_paths(names: set[bytes]) -> None:
    """Every file on disk has a path of its own that leads back to it."""
    usable = {n.replace(b"/", b"_").replace(b"\0", b"_") for n in names} - {b".", b".."}
    with closing(Workspace.create()) as workspace:
        for raw in usable:
            (workspace.root / os.fsdecode(raw)).write_bytes(raw)
        files = workspace.list_files()
        assert {workspace.read_file(file.path) for file in files} == usable
        assert len(files) == len(usable)


def test_changes_tell_created_from_modified(workspace: Workspace) -> None:
    """Untouched and removed files are not told; the order is by path."""
    for path in ("same", "grown", "removed", "d/edited"):
        workspace.write_file(path, "12")
    before = workspace.scan()
    (workspace.root / "grown").write_text("123")
    (workspace.root / "removed").unlink()
    workspace.write_file("d/edited", "21")
    workspace.write_file("d/new", "")
    (workspace.root / "d" / "edited").rename(workspace.root / "a moved")
    told = [(f.path, f.change, f.size) for f in workspace.changes(before)]
    expected = [("a moved", "created", 2), ("d/new", "created", 0)]
    assert told == [*expected, ("grown", "modified", 3)]
    assert workspace.changes(workspace.scan()) == []


def test_an_edit_that_hides_its_time_and_size_is_seen(workspace: Workspace) -> None:
    """Code can set the time of a write back, but not the time of that change."""
    workspace.write_file("a", "12")
    before = workspace.scan()
    found = (workspace.root / "a").stat()
    with (workspace.root / "a").open("r+") as file:
        file.write("21")
    os.utime(workspace.root / "a", ns=(found.st_atime_ns, found.st_mtime_ns))
    assert [file.change for file in workspace.changes(before)] == ["modified"]


def test_many_changes_are_cut_and_counted(workspace: Workspace) -> None:
    """A call that made too many files says how many."""
    before = workspace.scan()
    for number in range(50):
        (workspace.root / f"f{number:02}").touch()
    changes = workspace.changes(before, limit=4)
    assert [file.path for file in changes] == ["f00", "f01", "f02", "f03"]
    assert (changes.total, changes.complete) == (50, True)


def test_an_incomplete_scan_calls_nothing_created(workspace: Workspace) -> None:
    """What an earlier scan left out may have been there; what differs is modified."""
    workspace.write_file("a", "1")
    before = Scan(workspace.scan().entries, complete=False)
    workspace.write_file("a", "2")
    workspace.write_file("b", "2")
    changes = workspace.changes(before)
    assert [(file.path, file.change) for file in changes] == [("a", "modified")]
    assert not changes.complete


def test_entries_may_vanish_under_the_walk(workspace: Workspace) -> None:
    """A tree that is built and removed all the time is walked without an error."""
    workspace.write_file("kept/file", "x")
    stopped = threading.Event()

    def churn() -> None:
        while not stopped.is_set():
            for path in ("t/u/v/f", "t/u/g", "t/h"):
                with suppress(OSError):
                    place = workspace.root / path
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_text("x")
            (workspace.root / "t").rename(workspace.root / "gone")
            for path in ("gone/u/v/f", "gone/u/g", "gone/h"):
                (workspace.root / path).unlink(missing_ok=True)
            for path in ("gone/u/v", "gone/u", "gone"):
                (workspace.root / path).rmdir()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(200):
            assert "kept/file" in workspace.scan().entries
            workspace.usage_bytes()
    finally:
        stopped.set()
        thread.join()


def test_what_was_swapped_since_it_was_listed_is_no_file(workspace: Workspace) -> None:
    """It is gone, or something else now, when its turn comes."""
    for name in ("gone", "kept", "link"):
        workspace.write_file(name, "x")
    root = os.open(workspace.root, os.O_RDONLY)

    def swapped(walk: Walk) -> Iterator[Found]:
        for found in walk:
            (workspace.root / "gone").unlink()
            (workspace.root / "link").unlink()
            (workspace.root / "link").symlink_to("kept")
            yield found

    with closing(Walk(root, limit=9)) as walk:
        assert list(marks_of(swapped(walk))) == ["kept"]
    os.close(root)


def test_a_directory_counts_once_however_many_entries_it_has(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read in pieces, and its own blocks are those of one directory."""
    for number in range(20):
        workspace.write_file(f"d/{number}", "x" * 5000)
    whole = workspace.usage_bytes()
    monkeypatch.setattr(walking, "_CHUNK_ENTRIES", 3)
    assert workspace.usage_bytes() == whole


def test_a_deep_tree_is_walked_with_few_descriptors(workspace: Workspace) -> None:
    """Depth costs neither recursion nor open directories, and no file is missed."""
    nest(workspace.root, 300, beside=True)
    root = os.open(workspace.root, os.O_RDONLY)
    before = most = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    found = 0
    with closing(Walk(root, limit=10_000)) as walk:
        for _, _, entries, _ in walk:
            found += len(entries)
            most = max(most, len(os.listdir("/proc/self/fd")))  # noqa: PTH208
    os.close(root)
    assert found == 900
    assert most - before <= 12
    files = workspace.list_files()
    assert (files.total, files.complete) == (900, True)
    deepest = max(files, key=lambda file: len(file.path))
    assert len(deepest.path) > 1024
    assert workspace.read_file(deepest.path) == b""


@pytest.mark.parametrize("limit", range(9))
def test_a_walk_ends_however_much_there_is(workspace: Workspace, limit: int) -> None:
    """Of more entries than the limit, that many are looked at, and this is told."""
    for path in ("a/x", "a/b/y", "c/d/z"):
        workspace.write_file(path, "1")
    root = os.open(workspace.root, os.O_RDONLY)
    with closing(Walk(root, limit=limit)) as walk:
        found = [entry.name for _, _, entries, _ in walk for entry in entries]
        assert walk.complete is (limit >= 7)
    os.close(root)
    assert len(found) <= min(limit, 3)
    assert sorted(found) == ["x", "y", "z"] or limit < 7


def test_a_tree_too_deep_for_any_path_is_told(workspace: Workspace) -> None:
    """A listing says that it is not complete, and a measure counts as over."""
    workspace.write_file("a", "x")
    nest(workspace.root, DEPTH_LIMIT + 10, beside=False)
    files = workspace.list_files()
    assert [file.path for file in files] == ["a"]
    assert not files.complete
    limit = 1 << 40
    assert workspace.usage_bytes(limit) > limit
    assert workspace.usage_bytes() < limit
    root = workspace.root
    workspace.close()
    assert not root.exists()


def test_usage_counts_blocks_once(workspace: Workspace) -> None:
    """Hard links share their blocks, holes take none, our own files count."""
    empty = workspace.usage_bytes()
    (workspace.root / "data").write_bytes(b"x" * 1_000_000)
    one = workspace.usage_bytes()
    assert one - empty >= 1_000_000
    os.link(workspace.root / "data", workspace.root / "again")
    (workspace.root / "sparse").touch()
    os.truncate(workspace.root / "sparse", 1 << 40)
    assert workspace.usage_bytes() - one < 100_000
    workspace.spill("c1", "y" * 1_000_000)
    assert workspace.usage_bytes() - one >= 1_000_000


def test_usage_stops_when_it_is_over(workspace: Workspace) -> None:
    """More than the bound is found without counting all."""
    for number in range(20):
        (workspace.root / f"f{number}").write_bytes(b"x" * 100_000)
    exact = workspace.usage_bytes()
    assert workspace.usage_bytes(exact) == exact
    assert workspace.usage_bytes(500_000) > 500_000
