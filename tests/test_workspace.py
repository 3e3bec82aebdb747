"""The host side of a workspace: what is written, read, refused and kept."""

from __future__ import annotations

import os
import resource
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kern_tools.descriptors import read_at
from kern_tools.faults import SandboxClosed, WorkspaceError
from kern_tools.workspace import READ_LIMIT_BYTES, Workspace
from kern_tools.workspace_cap import CapWatch


def page(workspace: Workspace, path: str) -> bytes:
    """Read a file by opening it."""
    with workspace.open_file(path) as file:
        return file.read()


Operation = Callable[[Workspace, str], object]
READS: dict[str, Operation] = {
    "read_file": lambda ws, path: ws.read_file(path),
    "read_range": lambda ws, path: ws.read_range(path, offset_bytes=0, limit_bytes=99),
    "open_file": page,
}
FILES: dict[str, Operation] = {
    **READS,
    "write_file": lambda ws, path: ws.write_file(path, "written"),
}
EVERY: dict[str, Operation] = {
    **FILES,
    "list_files": lambda ws, path: ws.list_files(path),
}


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    """Yield an open workspace that is removed afterwards."""
    with closing(Workspace.create()) as made:
        yield made


def code_of(action: Callable[[], object]) -> str:
    """Return the code of the error that an action must raise."""
    with pytest.raises(WorkspaceError) as caught:
        action()
    assert str(caught.value).isprintable()
    return caught.value.code


@pytest.mark.parametrize("path", ["a.txt", "a/b/c.txt", "/workspace/a/b.txt", "x\ny"])
@pytest.mark.parametrize("data", ["", "ü\r\n\r\n", "a\rb", b"\xff\0\r\n", "x" * 99999])
def test_what_is_written_is_read_back(
    workspace: Workspace, path: str, data: str | bytes
) -> None:
    """Bytes and newlines are kept, parents are made, both spellings are one file."""
    workspace.write_file(path, data)
    expected = data if isinstance(data, bytes) else data.encode("utf-8")
    assert workspace.read_file(path) == expected
    inner = path.removeprefix("/workspace/")
    assert (workspace.root / inner).read_bytes() == expected
    assert [file.path for file in workspace.list_files()] == [inner]


def test_text_that_utf8_cannot_store_is_refused(workspace: Workspace) -> None:
    """A lone surrogate is named, and nothing is written."""
    assert code_of(lambda: workspace.write_file("a", "x\ud800")) == "bad_data"
    assert workspace.list_files() == []


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o444, 0o4755])
def test_writing_keeps_the_permissions_of_a_file(
    workspace: Workspace, mode: int
) -> None:
    """Read, write and execute bits stay; set-user-id does not."""
    workspace.write_file("run.sh", "old")
    (workspace.root / "run.sh").chmod(mode)
    workspace.write_file("run.sh", "new")
    assert stat.S_IMODE((workspace.root / "run.sh").stat().st_mode) == mode & 0o777
    assert workspace.read_file("run.sh") == b"new"


def test_writing_leaves_a_hard_link_alone(workspace: Workspace) -> None:
    """The name gets a new file; another name keeps the old content."""
    workspace.write_file("a", "old")
    os.link(workspace.root / "a", workspace.root / "b")
    workspace.write_file("a", "new")
    assert workspace.read_file("b") == b"old"


def test_a_reader_sees_the_old_or_the_new_file(workspace: Workspace) -> None:
    """A file that was opened before a write is complete and unchanged."""
    workspace.write_file("a", "old")
    with workspace.open_file("a") as file:
        workspace.write_file("a", "new and longer")
        assert file.read() == b"old"
    assert workspace.read_file("a") == b"new and longer"


def test_a_part_of_a_file_is_read(workspace: Workspace) -> None:
    """Ranges are cut at the end of the file and empty behind it."""
    workspace.write_file("a", "0123456789")
    ranges = {(0, 3): b"012", (8, 5): b"89", (10, 1): b"", (1 << 70, 1): b""}
    ranges |= {(2, 0): b"", (0, 1 << 70): b"0123456789"}
    for (offset, limit), expected in ranges.items():
        read = workspace.read_range("a", offset_bytes=offset, limit_bytes=limit)
        assert read == expected
    with pytest.raises(ValueError, match="cannot be negative"):
        workspace.read_range("a", offset_bytes=-1, limit_bytes=1)


def test_a_file_that_became_shorter_is_read_to_its_end(workspace: Workspace) -> None:
    """Code may cut it while its parts are read."""
    workspace.write_file("a", "0123")
    descriptor = os.open(workspace.root / "a", os.O_RDONLY)
    try:
        assert read_at(descriptor, 2, 100) == b"23"
        assert read_at(descriptor, 9, 100) == b""
    finally:
        os.close(descriptor)


def test_a_file_is_paged(workspace: Workspace) -> None:
    """An open file can be sought and is read-only."""
    workspace.write_file("a", "0123456789")
    with workspace.open_file("a") as file:
        assert file.seek(4) == 4
        assert file.read(3) == b"456"
        assert not file.writable()


def test_a_file_over_the_bound_is_refused(workspace: Workspace) -> None:
    """The bound is exact; without one, a huge sparse file cannot fill the memory."""
    workspace.write_file("a", "12345")
    assert workspace.read_file("a", max_bytes=5) == b"12345"
    assert code_of(lambda: workspace.read_file("a", max_bytes=4)) == "too_large"
    os.truncate(workspace.root / "a", READ_LIMIT_BYTES + 1)
    assert code_of(lambda: workspace.read_file("a")) == "too_large"
    assert workspace.read_range("a", offset_bytes=3, limit_bytes=4) == b"45\0\0"


@pytest.mark.parametrize("operation", READS.values(), ids=READS)
def test_a_missing_file_is_named(workspace: Workspace, operation: Operation) -> None:
    """The message quotes the path and says what to do."""
    with pytest.raises(WorkspaceError, match=r"'no/x\.csv'.*list_files\(\)") as caught:
        operation(workspace, "no/x.csv")
    assert (caught.value.code, caught.value.path) == ("not_found", "no/x.csv")


@pytest.mark.parametrize("operation", FILES.values(), ids=FILES)
def test_a_directory_is_not_a_file(workspace: Workspace, operation: Operation) -> None:
    """An existing directory is neither read nor replaced."""
    workspace.write_file("a/b", "x")
    assert code_of(lambda: operation(workspace, "a")) == "is_directory"
    assert workspace.read_file("a/b") == b"x"


def test_nothing_can_be_below_a_file(workspace: Workspace) -> None:
    """Reading finds nothing there; writing says that the name is taken."""
    workspace.write_file("a", "x")
    assert code_of(lambda: workspace.read_file("a/b")) == "not_found"
    assert code_of(lambda: workspace.list_files("a/b")) == "not_found"
    assert code_of(lambda: workspace.write_file("a/b", "y")) == "exists"


def test_a_given_directory_is_made_and_kept(tmp_path: Path) -> None:
    """A workspace of the developer's own is never removed."""
    workspace = Workspace.at(tmp_path / "made" / "here")
    workspace.write_file("a", "x")
    workspace.close()
    assert (tmp_path / "made" / "here" / "a").read_text() == "x"


def test_a_given_file_is_no_workspace(tmp_path: Path) -> None:
    """The developer is told that the path is a file."""
    (tmp_path / "file").write_text("x")
    assert code_of(lambda: Workspace.at(tmp_path / "file")) == "exists"
    assert code_of(lambda: Workspace.at(tmp_path / "file" / "x")) == "exists"


def test_a_closed_workspace_says_so(workspace: Workspace) -> None:
    """Every operation after close raises the same error; closing again is fine."""
    workspace.close()
    workspace.close()
    for operation in EVERY.values():
        with pytest.raises(SandboxClosed, match="open a new one"):
            operation(workspace, "a")
    with pytest.raises(SandboxClosed):
        workspace.scan()
    assert not workspace.root.exists()


def test_a_write_that_fails_keeps_the_old_file(workspace: Workspace) -> None:
    """Neither half a file nor a temporary one is left."""
    workspace.write_file("a", "old")
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, usual[1]))
    try:
        code = code_of(lambda: workspace.write_file("a", "x" * 10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert code == "no_space"
    assert workspace.read_file("a") == b"old"
    assert [path.name for path in workspace.root.iterdir()] == ["a"]


def test_a_workspace_says_where_it_is_and_whether_it_is_open(tmp_path: Path) -> None:
    """For who debugs what uses it."""
    with closing(Workspace.at(tmp_path)) as workspace:
        assert repr(workspace) == f"<Workspace {str(tmp_path)!r}, open>"
    assert repr(workspace) == f"<Workspace {str(tmp_path)!r}, closed>"


def test_a_watch_over_a_workspace_that_is_closed_ends(tmp_path: Path) -> None:
    """There is nothing to be full any more, and nobody is told that it is."""
    told = threading.Event()
    workspace = Workspace.at(tmp_path)
    watch = CapWatch(workspace, 1 << 30, told.set)
    (thread,) = (t for t in threading.enumerate() if t.name == "kern-tools-cap")
    workspace.close()
    thread.join(60)
    assert not thread.is_alive()
    watch.stop()
    assert not told.is_set()
