"""Files of a workspace on the host: which, under what names, and never by a link."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kern_tools import Sandbox
from kern_tools.export import export_files
from kern_tools.faults import WorkspaceError
from kern_tools.names import DEPTH_LIMIT
from kern_tools.workspace import Workspace

from .depth import examples

NOBODY = 65534


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


def found(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_everything_is_copied_to_a_new_folder(
    workspace: Workspace, tmp_path: Path
) -> None:
    """Regular files alone; what is ours or leads elsewhere stays behind."""
    (tmp_path / "host").write_text("host")
    workspace.write_file("a.txt", "1\r\n")
    workspace.write_file("d/e/b.png", b"\x89PNG")
    workspace.write_file(".kern/out-1.txt", "ours")
    (workspace.root / "link").symlink_to(tmp_path / "host")
    os.mkfifo(workspace.root / "d" / "pipe")
    folder = tmp_path / "new" / "results"
    written = export_files(workspace, folder)
    assert written == [folder / "a.txt", folder / "d/e/b.png"]
    assert found(folder) == {"a.txt": b"1\r\n", "d/e/b.png": b"\x89PNG"}


def test_files_and_directories_are_chosen(workspace: Workspace, tmp_path: Path) -> None:
    """In the order given, each once; paths of the box are understood."""
    for path in ("a", "b", "d/x", "d/y"):
        workspace.write_file(path, path)
    paths = ["d", "/workspace/b", "d/x"]
    written = export_files(workspace, tmp_path, paths)
    assert [str(path.relative_to(tmp_path)) for path in written] == ["d/x", "d/y", "b"]


def test_a_kept_output_is_copied_by_name(workspace: Workspace, tmp_path: Path) -> None:
    """Outputs of calls are not listed, but can be asked for."""
    path = workspace.spill("c1", "output")
    assert export_files(workspace, tmp_path, [path]) == [tmp_path / path]
    assert found(tmp_path) == {path: b"output"}


def test_copies_are_not_executable(workspace: Workspace, tmp_path: Path) -> None:
    """Code chose the permissions in the workspace, not on the host."""
    workspace.write_file("run", "#!/bin/sh\n")
    (workspace.root / "run").chmod(0o4777)
    export_files(workspace, tmp_path)
    assert not stat.S_IMODE((tmp_path / "run").stat().st_mode) & 0o7111


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("missing", "not_found"),
        ("../x", "outside"),
        ("/etc/passwd", "outside"),
        ("link", "not_regular"),
        ("folder", "not_regular"),
        ("folder/host", "not_regular"),
        ("pipe", "not_regular"),
        (".kern", "is_directory"),
    ],
)
def test_a_path_that_is_no_file_is_refused(
    workspace: Workspace, tmp_path: Path, path: str, code: str
) -> None:
    """Nothing outside is reached by name, link or pipe."""
    (tmp_path / "host").write_text("host")
    workspace.write_file("a", "x")
    (workspace.root / ".kern").mkdir()
    (workspace.root / "link").symlink_to(tmp_path / "host")
    (workspace.root / "folder").symlink_to(tmp_path)
    os.mkfifo(workspace.root / "pipe")
    folder = tmp_path / "results"
    assert code_of(lambda: export_files(workspace, folder, [path])) == code
    assert not folder.exists() or found(folder) == {}


def test_what_is_there_is_kept_unless_overwritten(
    workspace: Workspace, tmp_path: Path
) -> None:
    """Any name that is taken refuses all, before the first is copied."""
    workspace.write_file("a", "new")
    workspace.write_file("b", "new")
    (tmp_path / "b").write_text("old")
    assert code_of(lambda: export_files(workspace, tmp_path)) == "exists"
    assert found(tmp_path) == {"b": b"old"}
    export_files(workspace, tmp_path, overwrite=True)
    assert found(tmp_path) == {"a": b"new", "b": b"new"}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("path", ["link", "dangling", "folder/a", "directory", "pipe"])
def test_no_link_of_the_host_is_followed(
    workspace: Workspace, tmp_path: Path, path: str, overwrite: bool
) -> None:
    """What is no regular file stays as it is, also when overwriting."""
    outside, folder = tmp_path / "outside", tmp_path / "results"
    outside.mkdir()
    (outside / "a").write_text("host")
    (folder / "directory").mkdir(parents=True)
    (folder / "link").symlink_to(outside / "a")
    (folder / "dangling").symlink_to(outside / "b")
    (folder / "folder").symlink_to(outside)
    os.mkfifo(folder / "pipe")
    workspace.write_file(path, "new")
    code = code_of(lambda: export_files(workspace, folder, overwrite=overwrite))
    assert code in {"not_regular", "is_directory"}
    assert found(outside) == {"a": b"host"}


def test_a_file_in_the_place_of_a_directory_is_named(
    workspace: Workspace, tmp_path: Path
) -> None:
    """A copy needs a directory of which the host has a file."""
    workspace.write_file("d/a", "x")
    (tmp_path / "d").write_text("x")
    assert code_of(lambda: export_files(workspace, tmp_path)) == "exists"


def test_a_workspace_is_not_exported_into_itself(workspace: Workspace) -> None:
    """Code in a box could swap the folder."""
    assert code_of(lambda: export_files(workspace, workspace.root / "d")) == "outside"


def test_too_much_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    """A sparse file would fill the host's disk."""
    with (workspace.root / "huge").open("wb") as file:
        file.truncate(1 << 40)
    assert code_of(lambda: export_files(workspace, tmp_path)) == "too_large"
    assert found(tmp_path) == {}


def test_a_kept_output_that_is_too_much_is_refused(
    workspace: Workspace, tmp_path: Path
) -> None:
    """What no listing tells the size of is measured once it is open."""
    path = workspace.spill("c1", "x" * 100)
    few = partial(export_files, workspace, tmp_path, [path], max_bytes=99)
    assert code_of(few) == "too_large"
    assert found(tmp_path) == {}


def test_a_tree_that_no_listing_tells_whole_is_refused(
    workspace: Workspace, tmp_path: Path
) -> None:
    """Half of it would be taken for all; a part of it can be named."""
    workspace.write_file("a", "x")
    deep = f"import os\nfor _ in range({DEPTH_LIMIT + 2}): os.mkdir('d'); os.chdir('d')"
    subprocess.run([sys.executable, "-c", deep], cwd=workspace.root, check=True)
    assert code_of(lambda: export_files(workspace, tmp_path)) == "too_large"
    assert export_files(workspace, tmp_path, ["a"]) == [tmp_path / "a"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_nothing_half_written_is_left(
    workspace: Workspace, tmp_path: Path, overwrite: bool
) -> None:
    """What does not fit is said, and what stood there stays."""
    workspace.write_file("a", bytes(1 << 20))
    if overwrite:
        (tmp_path / "a").write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, hard))
    try:
        code = code_of(lambda: export_files(workspace, tmp_path, overwrite=overwrite))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert code == "no_space"
    assert found(tmp_path) == ({"a": b"old"} if overwrite else {})


OTHERS_FILE = f"""
import os, sys
from kern_tools.export import export_files
from kern_tools.faults import WorkspaceError
from kern_tools.result import FileInfo
from kern_tools.workspace import Workspace

FileInfo(path="built", size=0)
folder = sys.argv[1]
if os.geteuid() == 0:  # privileges go after the imports
    os.setgroups([])
    os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
    os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
workspace = Workspace.at(folder + "/workspace")
workspace.write_file("a", "new")
try:
    export_files(workspace, folder + "/results", overwrite=True)
except WorkspaceError as error:
    print(error.code)
workspace.close()
"""


def test_a_file_of_another_user_is_not_replaced() -> None:
    """Also where both may write to the folder, as to that for temporary files."""
    with tempfile.TemporaryDirectory() as name:
        top, results = Path(name), Path(name, "results")
        results.mkdir()
        (results / "a").write_text("old")
        top.chmod(0o777)
        results.chmod(0o1777 if os.geteuid() == 0 else 0o555)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", OTHERS_FILE, name],
            capture_output=True,
            text=True,
            check=False,
        )
        results.chmod(0o755)
        assert (done.stdout, done.stderr) == ("permission\n", "")
        assert found(results) == {"a": b"old"}


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b"a\nb.txt", "a\\x0ab.txt"),
        (b"caf\xe9.txt", "caf\\xe9.txt"),
        (b"\x1b[31m", "\\x1b[31m"),
        ("\u202egpj.exe".encode(), "\\u202egpj.exe"),
        ("größe.txt".encode(), "größe.txt"),
    ],
)
def test_odd_names_become_printable(
    workspace: Workspace, tmp_path: Path, raw: bytes, name: str
) -> None:
    """A listing of the folder shows them on one line, in one direction."""
    (workspace.root / os.fsdecode(raw)).write_text("x")
    assert export_files(workspace, tmp_path) == [tmp_path / name]
    assert found(tmp_path) == {name: b"x"}


def test_names_that_became_too_long_stay_apart(
    workspace: Workspace, tmp_path: Path
) -> None:
    """Escapes lengthen a name; it is cut, keeps its ending, and is told apart."""
    for last in (b"1", b"2"):
        raw = b"\xff" * 200 + last + b".csv"
        (workspace.root / os.fsdecode(raw)).write_bytes(last)
    written = export_files(workspace, tmp_path)
    assert sorted(found(tmp_path).values()) == [b"1", b"2"]
    assert {path.suffix for path in written} == {".csv"}


NAMES = st.binary(min_size=1, max_size=255).filter(
    lambda raw: not {0, ord("/")} & {*raw} and raw[:5] != b".kern"
)


@examples(25, 500)
@given(names=st.sets(NAMES.filter(lambda raw: raw not in {b".", b".."}), max_size=5))
def test_any_names_are_copied(names: set[bytes]) -> None:
    """Different files stay different, under names that can be printed."""
    with (
        closing(Workspace.create()) as workspace,
        tempfile.TemporaryDirectory() as folder,
    ):
        for name in names:
            (workspace.root / os.fsdecode(name)).write_bytes(name)
        written = export_files(workspace, folder)
        assert {path.read_bytes() for path in written} == names
        assert all(len(os.fsencode(path.name)) <= 255 for path in written)


def test_the_permissions_of_the_host_are_left_alone(
    workspace: Workspace, tmp_path: Path
) -> None:
    """A directory that cannot be written is not made writable."""
    workspace.write_file("d/a", "x")
    (tmp_path / "d").mkdir(mode=0o555)
    if os.geteuid() != 0:
        assert code_of(lambda: export_files(workspace, tmp_path)) == "permission"
    else:
        export_files(workspace, tmp_path)
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o555


def test_a_sandbox_exports_what_its_code_made(tmp_path: Path) -> None:
    """The files of a call are copied by the paths that its result tells."""
    with Sandbox(prewarm=0) as sandbox:
        result = sandbox.run_code("open('plot.svg', 'w').write('<svg/>')")
        written = sandbox.export(tmp_path, *(file.path for file in result.files))
    assert written == [tmp_path / "plot.svg"]
    assert found(tmp_path) == {"plot.svg": b"<svg/>"}
