"""A workspace as one file: what is kept, what is refused, what a failure leaves."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, cast

import fsspec  # pyright: ignore[reportMissingTypeStubs]
import pytest
from fsspec.implementations.memory import (  # pyright: ignore[reportMissingTypeStubs]
    MemoryFileSystem,
)
from hypothesis import given
from hypothesis import strategies as st

from kern_tools import Sandbox, SandboxConfig, SandboxError, snapshot
from kern_tools.archive import CHUNK_BYTES, Writer
from kern_tools.contents import LIMIT_ENTRIES, Refusal, Tally
from kern_tools.faults import SnapshotError, WorkspaceError
from kern_tools.image import ImageRef
from kern_tools.snapshot import (
    _judged,
    _Packing,
    _pieces,
    _unpack,
    remove_snapshot,
    restore_snapshot,
    save_snapshot,
)
from kern_tools.workspace import Workspace

from .depth import examples

INFO = ".kern/snapshot.json"
SECRET = "a-secret-value"


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    """Yield an open workspace that is removed afterwards."""
    with closing(Workspace.create()) as made:
        yield made


@pytest.fixture
def other() -> Iterator[Workspace]:
    """Yield another one, to restore into."""
    with closing(Workspace.create()) as made:
        yield made


def tree(workspace: Workspace) -> dict[str, tuple[int, int, bytes | None]]:
    """Return mode, time in seconds and content of all that lies in a workspace."""
    found: dict[str, tuple[int, int, bytes | None]] = {}
    for path in sorted(workspace.root.rglob("*")):
        name = os.fsencode(path.relative_to(workspace.root)).decode("latin-1")
        if name.partition("/")[0] == ".kern":
            continue
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
        found[name] = stat.S_IMODE(status.st_mode), int(status.st_mtime), content
    return found


def code_of(action: Callable[[], object]) -> str:
    """Return the code of the error that an action must raise."""
    with pytest.raises((SnapshotError, WorkspaceError)) as caught:
        action()
    assert str(caught.value).isprintable()
    return caught.value.code


# What is kept


def test_files_and_directories_come_back(
    workspace: Workspace, other: Workspace, tmp_path: Path
) -> None:
    """Content, permissions and times are as they were, empty directories too."""
    workspace.write_file("data/x.csv", "a,b\r\n")
    workspace.write_file("run.sh", "#!/bin/sh\n")
    (workspace.root / "run.sh").chmod(0o755)
    (workspace.root / "empty" / "inner").mkdir(parents=True)
    (workspace.root / "data").chmod(0o750)
    for path in (*workspace.root.rglob("*"),):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    saved = save_snapshot(workspace, tmp_path / "s.tar.gz")
    restored = restore_snapshot(other, str(tmp_path / "s.tar.gz"))
    assert tree(other) == tree(workspace)
    assert (saved.files, saved.bytes, saved.left_out) == (2, 15, 0)
    assert saved.archive_bytes == (tmp_path / "s.tar.gz").stat().st_size
    assert (restored.files, restored.bytes, restored.notes) == (2, 15, ())
    assert os.listdir(other.root / ".kern") == []  # noqa: PTH208


def test_a_file_larger_than_a_piece_comes_back(
    workspace: Workspace, other: Workspace, tmp_path: Path
) -> None:
    """Large files go through in pieces."""
    content = os.urandom(1 << 20) * 2 + b"end"
    workspace.write_file("large", content)
    save_snapshot(workspace, tmp_path / "s")
    restore_snapshot(other, tmp_path / "s")
    assert other.read_file("large") == content


def test_a_directory_without_write_permission_comes_back(
    workspace: Workspace, other: Workspace, tmp_path: Path
) -> None:
    """Permissions are set last, so that they are not in the way."""
    workspace.write_file("fixed/inner/a", "x")
    for path in ("fixed/inner", "fixed"):
        (workspace.root / path).chmod(0o555)
    save_snapshot(workspace, tmp_path / "s")
    restore_snapshot(other, tmp_path / "s")
    assert tree(other) == tree(workspace)


AS_ANYBODY = """
    import os, tempfile
    from contextlib import closing
    from pathlib import Path
    from kern_tools.snapshot import restore_snapshot, save_snapshot
    from kern_tools.workspace import Workspace

    # Privileges go after the imports: where Python is installed may be private.
    with tempfile.TemporaryDirectory() as top:
        with closing(Workspace.at(f"{top}/first")) as first:
            save_snapshot(first, f"{top}/s")
            restore_snapshot(first, f"{top}/s")
    with tempfile.TemporaryDirectory() as top:
        if os.geteuid() == 0:
            os.chown(top, 65534, 65534)
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
        old, new = Workspace.at(f"{top}/old"), Workspace.at(f"{top}/new")
        old.write_file("fixed/inner/a", "x")
        old.write_file("locked/a", "x")
        (old.root / "locked" / "a").chmod(0)
        (old.root / "fixed" / "inner").chmod(0o555)
        (old.root / "fixed").chmod(0o555)
        for _ in range(2):
            report = save_snapshot(old, f"{top}/s")
            restore_snapshot(new, f"{top}/s")
        assert report.files == 2
        assert (new.root / "fixed").stat().st_mode & 0o777 == 0o555
        assert new.read_file("fixed/inner/a") == b"x"
        for path in ("old/fixed", "old/fixed/inner", "new/fixed", "new/fixed/inner"):
            (Path(top) / path).chmod(0o755)
        old.close(), new.close()
"""


def test_locked_files_are_saved_and_restored_without_privileges() -> None:
    """What code made unreadable or read-only is in the way of no ordinary user."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(AS_ANYBODY)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_any_tar_program_reads_a_snapshot(workspace: Workspace, tmp_path: Path) -> None:
    """The format is a plain .tar.gz whose first member tells where it comes from."""
    workspace.write_file("a/b", "x")
    save_snapshot(workspace, tmp_path / "s.tar.gz")
    with tarfile.open(tmp_path / "s.tar.gz") as archive:
        assert archive.getnames() == [INFO, "a", "a/b"]
        told = archive.extractfile(INFO)
        assert told is not None
        assert json.load(told)["format"] == 1


def test_what_is_no_file_is_left_out_and_counted(
    workspace: Workspace, other: Workspace, tmp_path: Path
) -> None:
    """Links, pipes and sockets are not followed, not waited for, not saved."""
    (tmp_path / "host").write_text("host")
    workspace.write_file("a", "x")
    workspace.write_file(".kern/out-1.txt", "ours")
    (workspace.root / "link").symlink_to(tmp_path / "host")
    (workspace.root / "folder").symlink_to(tmp_path)
    os.mkfifo(workspace.root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(workspace.root / "socket"))
    report = save_snapshot(workspace, tmp_path / "s")
    assert (report.files, report.left_out) == (1, 4)
    restore_snapshot(other, tmp_path / "s")
    assert list(tree(other)) == ["a"]


def test_a_restore_merges_over_what_is_there(
    workspace: Workspace, other: Workspace, tmp_path: Path
) -> None:
    """Files of the same name are replaced, a planted link too; others stay."""
    (tmp_path / "host").write_text("host")
    workspace.write_file("d/same", "new")
    workspace.write_file("d/link", "new")
    workspace.write_file("d/deep/er", "new")
    other.write_file("d/same", "old")
    other.write_file("d/stays", "old")
    (other.root / "d" / "link").symlink_to(tmp_path / "host")
    save_snapshot(workspace, tmp_path / "s")
    restore_snapshot(other, tmp_path / "s")
    contents = {name: entry[2] for name, entry in tree(other).items() if entry[2]}
    assert contents == {
        "d/deep/er": b"new",
        "d/link": b"new",
        "d/same": b"new",
        "d/stays": b"old",
    }
    assert (tmp_path / "host").read_text() == "host"


def plant_file(at: Path) -> None:
    """Leave a file."""
    at.write_text("x")


def plant_link(at: Path) -> None:
    """Leave a link to a directory."""
    at.symlink_to(at.parent.parent)


def plant_directory(at: Path) -> None:
    """Leave a directory where the snapshot has a file."""
    (at / "file").mkdir(parents=True)


@pytest.mark.parametrize(
    ("plant", "code"),
    [
        (plant_file, "exists"),
        (plant_link, "exists"),
        (plant_directory, "is_directory"),
    ],
    ids=["a file", "a link", "a directory for a file"],
)
def test_a_file_never_takes_the_place_of_a_directory(
    workspace: Workspace,
    other: Workspace,
    tmp_path: Path,
    plant: Callable[[Path], object],
    code: str,
) -> None:
    """What cannot be merged is refused before anything moves."""
    workspace.write_file("a", "x")
    workspace.write_file("name/file", "x")
    save_snapshot(workspace, tmp_path / "s")
    plant(other.root / "name")
    before = tree(other)
    assert code_of(lambda: restore_snapshot(other, tmp_path / "s")) == code
    assert tree(other) == before


NAMES = st.binary(min_size=1, max_size=255).filter(
    lambda raw: not {0, ord("/")} & {*raw} and raw not in {b".", b".."}
)


@examples(25, 500)
@given(names=st.lists(NAMES, min_size=1, max_size=4), content=st.binary(max_size=1500))
def test_any_name_comes_back(names: list[bytes], content: bytes) -> None:
    """Names are bytes: newlines, broken encodings and backslashes are kept."""
    with (
        closing(Workspace.create()) as workspace,
        closing(Workspace.create()) as other,
        tempfile.TemporaryDirectory() as kept,
    ):
        top = names[0] if not names[0].startswith(b".kern") else b"x" + names[0][:-1]
        place = os.fsencode(workspace.root) + b"/" + top
        for name in names[1:]:
            os.makedirs(place, exist_ok=True)  # noqa: PTH103
            place += b"/" + (name if not name.startswith(b".kern") else b"x")
        Path(os.fsdecode(place)).write_bytes(content)
        save_snapshot(workspace, Path(kept) / "s")
        restore_snapshot(other, Path(kept) / "s")
        assert tree(other) == tree(workspace)


def test_a_very_deep_file_comes_back(
    workspace: Workspace, other: Workspace, tmp_path: Path
) -> None:
    """A path longer than the kernel takes in one piece is walked."""
    path = "/".join(["d" * 200] * 40)
    workspace.write_file(f"{path}/file", "x")
    save_snapshot(workspace, tmp_path / "s")
    restore_snapshot(other, tmp_path / "s")
    assert other.read_file(f"{path}/file") == b"x"


# What is refused


def info(**changes: object) -> bytes:
    """Return what a snapshot says about itself, changed."""
    told = {
        "format": 1,
        "kern_tools": "0.1.0",
        "created": "2026-01-01T00:00:00Z",
        "machine": "x86_64",
    }
    return json.dumps(told | changes).encode()


Entry = tuple[str, bytes, dict[str, Any]]


def entry(name: str, content: bytes = b"", **fields: Any) -> Entry:
    """Describe a member: fields are those of `TarInfo`."""
    return name, content, fields


def archive(*entries: Entry, told: bytes | None = None) -> bytes:
    """Return an archive of good files around the entries, compressed."""
    first = entry(INFO, info() if told is None else told)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as made:
        for name, content, fields in (first, entry("good", b"x"), *entries):
            head = tarfile.TarInfo(name)
            head.size = len(content)
            for field, value in fields.items():
                setattr(head, field, value)
            made.addfile(head, io.BytesIO(content))
    return packed.getvalue()


def raw_archive(*pieces: bytes) -> bytes:
    """Return a compressed file of raw pieces."""
    return gzip.compress(b"".join(pieces))


def head(name: str, **fields: Any) -> bytes:
    """Return one header."""
    made = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(made, field, value)
    return made.tobuf(tarfile.USTAR_FORMAT)


def extended(record: bytes) -> bytes:
    """Return an archive whose file has one extended header."""
    return raw_archive(
        good_info(),
        head("x", type=tarfile.XHDTYPE, size=len(record)),
        record.ljust(512, b"\0"),
        head("a"),
        bytes(1024),
    )


def timed(name: str, mtime_s: int) -> bytes:
    """Return one header of a time that the common form cannot hold."""
    made = tarfile.TarInfo(name)
    made.mtime = mtime_s
    return made.tobuf(tarfile.GNU_FORMAT)


def good_info() -> bytes:
    """Return the first member of a snapshot, uncompressed."""
    told = info()
    return head(INFO, size=len(told)) + told + bytes(-len(told) % 512)


LINK: dict[str, Any] = {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}
HOSTILE: dict[str, bytes] = {
    "absolute": archive(entry("/etc/x", b"x")),
    "leading out": archive(entry("../x", b"x")),
    "leading out in the middle": archive(entry("a/../../x", b"x")),
    "a dot": archive(entry("./x", b"x")),
    "an empty part": archive(entry("a//x", b"x")),
    "a file ending in a slash": archive(entry("a//", b"x")),
    "a symbolic link": archive(entry("a", **LINK)),
    "through a link": archive(entry("a", **LINK), entry("a/x", b"x")),
    "a hard link": archive(entry("a", type=tarfile.LNKTYPE, linkname="good")),
    "a device": archive(entry("a", type=tarfile.CHRTYPE, devmajor=1, devminor=3)),
    "a disk": archive(entry("a", type=tarfile.BLKTYPE, devmajor=8)),
    "a pipe": archive(entry("a", type=tarfile.FIFOTYPE)),
    "a sparse file": archive(entry("a", type=tarfile.GNUTYPE_SPARSE)),
    "an unknown type": archive(entry("a", type=b"Z")),
    "the same file twice": archive(entry("a", b"x"), entry("a", b"y")),
    "the same directory twice": archive(
        entry("a", type=tarfile.DIRTYPE), entry("a", type=tarfile.DIRTYPE)
    ),
    "a file and a directory": archive(
        entry("a", b"x"), entry("a", type=tarfile.DIRTYPE)
    ),
    "a file as a directory": archive(entry("a", b"x"), entry("a/b", b"x")),
    "a directory as a file": archive(entry("a/b", b"x"), entry("a", b"x")),
    "our own directory": archive(entry(".kern/out-1.txt", b"x")),
    "our own file": archive(entry("a/.kern-tmp-1", b"x")),
    "a second description": archive(entry(INFO, info())),
    "too long a name": archive(entry("n" * 256, b"x")),
    "too deep": archive(entry("d/" * 3000 + "x", b"x")),
    "a global header": archive(entry("a", type=tarfile.XGLTYPE)),
    "no description": gzip.compress(bytes(10240)),
    "another first member": raw_archive(head("a", size=0), good_info()),
    "a description that is a link": raw_archive(head(INFO, **LINK)),
    "a broken description": archive(told=b"{"),
    "a description without a version": archive(told=b"{}"),
    "a description nested without end": archive(told=b"[" * 100_000),
    "format zero": archive(told=info(format=0)),
    "no archive": b"not a .tar.gz",
    "nothing": b"",
    "another compression": b"BZh91AY&SY" + bytes(100),
    "a header cut off": raw_archive(good_info(), head("a")[:100]),
    "no ending": raw_archive(good_info()),
    "a file cut off": raw_archive(good_info(), head("a", size=9999), b"x"),
    "cut off": archive()[:-20],
    "a wrong checksum of all": archive()[:-8] + bytes(8),
    "a broken header": raw_archive(good_info(), b"x" * 512, bytes(1024)),
    "more after the end": raw_archive(good_info(), bytes(1024), b"more"),
    "another archive after the end": archive() + archive(),
    "a huge extended header": raw_archive(
        good_info(), head("x", type=tarfile.XHDTYPE, size=2 << 20), bytes(2 << 20)
    ),
    "an extended header without an end": raw_archive(
        good_info(), head("x", type=tarfile.XHDTYPE, size=512), b"0 " * 256
    ),
    "only extended headers": raw_archive(
        good_info(), head("x", type=tarfile.XHDTYPE, size=0) * 2, bytes(1024)
    ),
    "a negative size": extended(b"11 size=-5\n"),
    "a size that is no number": extended(b"10 size=x\n"),
    "an extended header of nothing": raw_archive(
        good_info(), head("x", type=tarfile.XHDTYPE, size=0), bytes(1024)
    ),
    "a time before 1970": raw_archive(good_info(), timed("a", -1), bytes(1024)),
    "a time in a million years": raw_archive(
        good_info(), timed("a", 1 << 45), bytes(1024)
    ),
    "a sparse file of the other kind": archive(
        entry("a", pax_headers={"GNU.sparse.realsize": "9" * 15})
    ),
    "a directory with content": raw_archive(
        good_info(), head("a/", type=tarfile.DIRTYPE, size=1), bytes(1536)
    ),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_snapshot_is_refused_before_anything_is_written(
    workspace: Workspace, tmp_path: Path, hostile: bytes
) -> None:
    """One bad member spoils the whole: not even the good ones are restored."""
    (tmp_path / "s").write_bytes(hostile)
    code = code_of(lambda: restore_snapshot(workspace, tmp_path / "s"))
    assert code == "bad_snapshot"
    assert list(workspace.root.iterdir()) == []


def test_the_archives_of_the_table_are_bad_for_what_they_add(
    workspace: Workspace, tmp_path: Path
) -> None:
    """Without the bad member, an archive made in the same way is restored."""
    (tmp_path / "s").write_bytes(archive(entry("d/a", b"x"), entry("d", type=b"5")))
    assert restore_snapshot(workspace, tmp_path / "s").files == 2


def test_a_newer_format_is_named(workspace: Workspace, tmp_path: Path) -> None:
    """What a later version wrote is not guessed at."""
    told = b'{"format": 2, "kern_tools": "9.1"}'
    (tmp_path / "s").write_bytes(archive(told=told))
    with pytest.raises(SnapshotError, match=r"'9\.1'") as caught:
        restore_snapshot(workspace, tmp_path / "s")
    assert caught.value.code == "newer_format"


def test_a_bomb_is_refused_by_what_it_unpacks_to(
    workspace: Workspace, tmp_path: Path
) -> None:
    """The limit is on the files, however small the archive."""
    (tmp_path / "s").write_bytes(archive(entry("zeros", bytes(8 << 20))))
    assert (tmp_path / "s").stat().st_size < 100_000
    restore = partial(restore_snapshot, workspace, tmp_path / "s", max_bytes=1 << 20)
    assert code_of(restore) == "too_large"
    assert list(workspace.root.iterdir()) == []


@pytest.mark.parametrize("names", [(1, LIMIT_ENTRIES), (1 << 20, 64)], ids=["n", "l"])
def test_names_alone_cannot_fill_the_host(names: tuple[int, int]) -> None:
    """There is a limit to their number and to their length, which is the last to go."""
    length, count = names
    tally = Tally(max_bytes=0)
    for _ in range(count):
        tally.add(length, 0)
    with pytest.raises(Refusal) as refused:
        tally.add(length, 0)
    assert refused.value.code == "too_large"


def test_a_workspace_over_the_limit_is_not_saved(
    workspace: Workspace, tmp_path: Path
) -> None:
    """A sparse file of a terabyte is not read to its end."""
    with (workspace.root / "huge").open("wb") as file:
        file.truncate(1 << 40)
    assert code_of(lambda: save_snapshot(workspace, tmp_path / "s")) == "too_large"
    assert list(tmp_path.iterdir()) == []


def test_a_workspace_of_too_many_files_is_not_saved(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of it would look like the whole, and the remedy is told."""
    for name in "abcd":
        workspace.write_file(name, "x")
    monkeypatch.setattr(snapshot, "LIMIT_ENTRIES", 4)
    assert save_snapshot(workspace, tmp_path / "s").files == 4
    workspace.write_file("e", "x")
    with pytest.raises(SnapshotError, match=r"more than 4 files and dir.*remove some"):
        save_snapshot(workspace, tmp_path / "s")
    assert code_of(partial(save_snapshot, workspace, tmp_path / "s")) == "too_large"


def test_files_that_change_while_they_are_saved_are_told_or_left_out(
    workspace: Workspace,
) -> None:
    """What vanished is not there, what is no file any more is counted."""
    for name in ("gone", "kept", "link"):
        workspace.write_file(name, "x")
    packing = _Packing(Writer(io.BytesIO(), b"{}"), max_bytes=9)
    with workspace.lent() as root, os.scandir(root) as entries:
        found = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
        (workspace.root / "gone").unlink()
        (workspace.root / "link").unlink()
        (workspace.root / "link").symlink_to("kept")
        for entry in found:
            packing._pack_entry(root, "", entry)
    assert (packing.files, packing.bytes, packing.left_out) == (1, 1, 1)


def test_a_file_that_became_shorter_is_no_part_of_a_snapshot(tmp_path: Path) -> None:
    """Its size was told before it was read, and what to do is said."""
    (tmp_path / "log").write_bytes(bytes(CHUNK_BYTES + 1))
    file = os.open(tmp_path / "log", os.O_RDONLY)
    try:
        with pytest.raises(Refusal, match="'log' became shorter meanwhile; try betw"):
            list(_pieces(file, CHUNK_BYTES + 2, "log"))
        assert sum(map(len, _pieces(file, CHUNK_BYTES + 1, "log"))) == CHUNK_BYTES + 1
    finally:
        os.close(file)


def test_a_snapshot_that_changes_after_it_was_judged_is_refused(tmp_path: Path) -> None:
    """What is unpacked is what was looked at, by names, sizes and modes."""
    _, judged = _judged(io.BytesIO(archive(entry("a", b"1"))), 99)

    def unpack(number: int, other: Entry) -> None:
        (tmp_path / str(number)).mkdir()
        stage = os.open(tmp_path / str(number), os.O_RDONLY)
        try:
            _unpack(io.BytesIO(archive(other)), stage, judged, 99)
        finally:
            os.close(stage)

    others = (entry("b", b"1"), entry("a", b"12"), entry("a", b"1", mode=0o700))
    for number, other in enumerate(others):
        with pytest.raises(Refusal) as refused:
            unpack(number, other)
        assert refused.value.code == "changed"
    unpack(9, entry("a", b"2"))
    assert (tmp_path / "9" / "a").read_bytes() == b"2"


@examples(50, 1000)
@given(data=st.data())
def test_a_damaged_snapshot_never_does_anything_odd(data: st.DataObject) -> None:
    """Any change of the tar is refused, or restored below the workspace."""
    content = bytearray(gzip.decompress(archive(entry("d/a", b"x" * 600))))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    with (
        closing(Workspace.create()) as workspace,
        tempfile.TemporaryDirectory() as kept,
    ):
        (Path(kept) / "s").write_bytes(gzip.compress(bytes(content), 1))
        try:
            restore_snapshot(workspace, Path(kept) / "s")
        except SnapshotError:
            assert list(workspace.root.iterdir()) == []
        assert [path.name for path in Path(kept).iterdir()] == ["s"]


# Where it goes


def test_a_save_that_fails_keeps_the_old_snapshot(
    workspace: Workspace, tmp_path: Path
) -> None:
    """Nothing half written is left, neither under the name nor beside it."""
    target = tmp_path / "s.tar.gz"
    workspace.write_file("a", "x")
    save_snapshot(workspace, target)
    before = target.read_bytes()
    workspace.write_file("b", os.urandom(3 << 20))
    failing = partial(save_snapshot, workspace, target, max_bytes=2 << 20)
    assert code_of(failing) == "too_large"
    assert target.read_bytes() == before
    assert list(tmp_path.iterdir()) == [target]


def test_a_snapshot_is_private_and_its_directories_are_made(
    workspace: Workspace, tmp_path: Path
) -> None:
    """What an agent worked on is not for every account of the host."""
    target = tmp_path / "new" / "folder" / "s.tar.gz"
    save_snapshot(workspace, target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_bad_locations_have_codes(workspace: Workspace, tmp_path: Path) -> None:
    """Each says what is wrong with it; none is waited for."""
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    save: dict[str, str] = {
        str(tmp_path): "is_directory",
        str(tmp_path / "pipe"): "not_regular",
        str(tmp_path / "file" / "s"): "exists",
        str(workspace.root / "s"): "bad_location",
        f"local://{workspace.root}/s": "bad_location",
        f"file://{workspace.root}/s": "bad_location",
        "no-such-thing://a/b": "bad_location",
    }
    for target, code in save.items():
        assert code_of(partial(save_snapshot, workspace, target)) == code
    load = {
        str(tmp_path): "is_directory",
        str(tmp_path / "pipe"): "not_regular",
        str(tmp_path / "missing"): "not_found",
        "memory://missing": "not_found",
    }
    for source, code in load.items():
        assert code_of(partial(restore_snapshot, workspace, source)) == code


def test_a_snapshot_goes_to_any_url(workspace: Workspace, other: Workspace) -> None:
    """It is whole when it gets its name, and nothing else is left there."""
    url = "memory://kern-tools-tests/deep/s.tar.gz"
    workspace.write_file("a", "first")
    save_snapshot(workspace, url)
    workspace.write_file("a", "second")
    save_snapshot(workspace, url)
    restored = restore_snapshot(other, url)
    assert (other.read_file("a"), restored.origin.format) == (b"second", 1)
    kept = (
        cast("Any", fsspec)
        .filesystem("memory")
        .ls("/kern-tools-tests/deep", detail=False)
    )
    assert kept == ["/kern-tools-tests/deep/s.tar.gz"]
    assert [remove_snapshot(url), remove_snapshot(url)] == [True, False]


def test_a_store_that_has_directories_gets_them(
    workspace: Workspace, other: Workspace, tmp_path: Path
) -> None:
    """Other than object stores, it takes no name in a directory that is not there."""
    url = f"dir://new/folder/s.tar.gz::file://{tmp_path}"
    workspace.write_file("a", "1")
    save_snapshot(workspace, url)
    restore_snapshot(other, url)
    assert other.read_file("a") == b"1"
    kept = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert kept == ["s.tar.gz"]


def test_a_download_ends_at_the_limit(workspace: Workspace, tmp_path: Path) -> None:
    """Whatever the store gives, which need not be a snapshot."""
    with (tmp_path / "s").open("wb") as file:
        file.truncate(80 << 20)
    url = f"dir://s::file://{tmp_path}"
    restore = partial(restore_snapshot, workspace, url, max_bytes=1)
    assert code_of(restore) == "too_large"


class FullStore(MemoryFileSystem):
    """A store of fsspec on which there is no room for another object."""

    protocol = "kern-full"
    store: dict[str, Any] = {}  # noqa: RUF012 - as the parent has it.
    full = False

    def mv(
        self,
        path1: Any,
        path2: Any,
        recursive: Any = False,
        maxdepth: Any = None,
        **kwargs: Any,
    ) -> None:
        """Move, where there is room."""
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        cast("Any", super()).mv(path1, path2)


def test_an_upload_that_fails_keeps_the_old_snapshot(
    workspace: Workspace, other: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary object goes, and the error has a code."""
    cast("Any", fsspec).register_implementation("kern-full", FullStore, clobber=True)
    workspace.write_file("a", "old")
    save_snapshot(workspace, "kern-full://s.tar.gz")
    monkeypatch.setattr(FullStore, "full", True)
    workspace.write_file("a", "new")
    failing = partial(save_snapshot, workspace, "kern-full://s.tar.gz")
    assert code_of(failing) == "no_space"
    restore_snapshot(other, "kern-full://s.tar.gz")
    assert other.read_file("a") == b"old"
    assert len(FullStore.store) == 1


def test_the_secrets_of_a_url_are_in_no_error(workspace: Workspace) -> None:
    """User, password and query are left out of messages."""
    url = "no-such-thing://me:pass@host/s.tar.gz?token=hidden"
    with pytest.raises(SnapshotError) as caught:
        save_snapshot(workspace, url)
    told = f"{caught.value} {caught.value.location}"
    assert "no-such-thing://...@host/s.tar.gz?..." in told
    assert "hidden" not in told
    assert "pass" not in told


# Where it comes from


def test_what_made_a_snapshot_is_told_without_secrets(
    workspace: Workspace, other: Workspace, tmp_path: Path
) -> None:
    """The options are there, the values of `env` are not."""
    config = SandboxConfig(memory_mb=640, env={"TOKEN": SECRET})
    image = ImageRef("localhost/one:1", host_python=True)
    save_snapshot(workspace, tmp_path / "s", config=config, image=image)
    origin = restore_snapshot(other, tmp_path / "s").origin
    assert origin.config["memory_mb"] == 640
    assert origin.config["env"] == ["TOKEN"]
    assert origin.image == "localhost/one:1"
    assert SECRET.encode() not in gzip.decompress((tmp_path / "s").read_bytes())


def test_a_restore_says_what_is_other_here(
    workspace: Workspace, tmp_path: Path
) -> None:
    """Another Python, image, machine, mode, package or variable is noted."""
    told = info(
        python="3.9.1",
        machine="riscv64",
        image="old:1",
        config={"mode": "kernel", "packages": ["numpy"], "env": ["TOKEN"]},
    )
    (tmp_path / "s").write_bytes(archive(told=told))
    image = ImageRef("new:2", host_python=True)
    report = restore_snapshot(
        workspace, tmp_path / "s", config=SandboxConfig(), image=image
    )
    words = ("3.9.1", "riscv64", "old:1", "kernel", "numpy", "TOKEN")
    assert len(report.notes) == len(words)
    for word, note in zip(words, report.notes, strict=True):
        assert note.startswith("made ")
        assert word in note


def test_a_restore_into_what_is_the_same_says_nothing(
    workspace: Workspace, tmp_path: Path
) -> None:
    """The same mode, packages and variables, whatever their values are."""
    saved = SandboxConfig(env={"TOKEN": SECRET}, packages=["pydantic"])
    here = SandboxConfig(env={"TOKEN": "other"}, packages=["pydantic"])
    image = ImageRef("new:2", host_python=True)
    save_snapshot(workspace, tmp_path / "s", config=saved, image=image)
    restored = restore_snapshot(workspace, tmp_path / "s", config=here, image=image)
    assert restored.notes == ()


def test_what_a_snapshot_says_is_bounded_in_notes(
    workspace: Workspace, tmp_path: Path
) -> None:
    """A file cannot fill a log, nor write an escape sequence to it."""
    names = ["\x1b[31m" + "x" * 1_000] * 500
    told = info(python="\n" * 10_000, config={"packages": names, "mode": {"a": 1}})
    (tmp_path / "s").write_bytes(archive(told=told))
    config, image = SandboxConfig(), ImageRef("a", host_python=True)
    report = restore_snapshot(workspace, tmp_path / "s", config=config, image=image)
    assert all(note.isprintable() for note in report.notes)
    assert sum(map(len, report.notes)) < 100_000


# Through a sandbox


def test_a_sandbox_goes_on_from_a_snapshot(tmp_path: Path) -> None:
    """What one sandbox wrote, code in the next one reads."""
    target = tmp_path / "s.tar.gz"
    with Sandbox(prewarm=0, env={"TOKEN": SECRET}) as first:
        made = first.run_code("open('a.txt', 'w').write('kept')")
        assert made.success
        assert first.snapshot(target).files == 1
    with Sandbox(prewarm=0) as second:
        report = second.restore(target)
        assert second.run_code("print(open('a.txt').read())").stdout == "kept\n"
    assert [note for note in report.notes if "TOKEN" in note] == list(report.notes)


async def test_a_snapshot_does_not_block_the_loop(tmp_path: Path) -> None:
    """The async twins do the same on a thread."""
    target = tmp_path / "s.tar.gz"
    async with Sandbox(prewarm=0) as sandbox:
        sandbox.write_file("a", "x")
        assert (await sandbox.asnapshot(target)).files == 1
        sandbox.write_file("a", "y")
        assert (await sandbox.arestore(target)).files == 1
        assert sandbox.read_file("a") == b"x"


def test_a_closed_sandbox_has_no_snapshot(tmp_path: Path) -> None:
    """It is told as for any other use."""
    with pytest.raises(SandboxError) as caught:
        Sandbox().snapshot(tmp_path / "s")
    assert caught.value.code == "closed"
