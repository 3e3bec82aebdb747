"""What hostile code leaves in a workspace, or swaps in during a call."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import stat
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kern_tools import descriptors
from kern_tools.faults import WorkspaceError
from kern_tools.workspace import Workspace
from tests.depth import crossed

from .depth import examples

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

SECRET = b"the host's secret"
ROUNDS = 400


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a directory of the host with a secret in it."""
    place = tmp_path / "outside"
    place.mkdir()
    (place / "secret.txt").write_bytes(SECRET)
    return place


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    """Yield an open workspace that is removed afterwards."""
    with closing(Workspace.create()) as made:
        yield made


def plant_socket(at: Path, outside: Path) -> None:
    """Leave the name of a listening socket."""
    with socket.socket(socket.AF_UNIX) as listening:
        parent = os.open(at.parent, os.O_PATH)
        listening.bind(f"/proc/self/fd/{parent}/{at.name}")
        os.close(parent)


def plant_device(at: Path, outside: Path) -> None:
    """Leave the null device."""
    os.mknod(at, 0o666 | stat.S_IFCHR, os.makedev(1, 3))


PLANTED: dict[str, Callable[[Path, Path], None]] = {
    "link to a file": lambda at, outside: at.symlink_to(outside / "secret.txt"),
    "relative link": lambda at, outside: at.symlink_to("inside.txt"),
    "link to a directory": lambda at, outside: at.symlink_to(outside),
    "dangling link": lambda at, outside: at.symlink_to(outside / "no"),
    "link to itself": lambda at, outside: at.symlink_to(at.name),
    "named pipe": lambda at, outside: os.mkfifo(at),
    "socket": plant_socket,
}
if os.geteuid() == 0:
    PLANTED["device"] = plant_device


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


def code_of(action: Callable[[], object]) -> str:
    """Return the code of the error that an action must raise."""
    with pytest.raises(WorkspaceError) as caught:
        action()
    assert str(caught.value).isprintable()
    return caught.value.code


def open_descriptors() -> int:
    """Count what this process holds open."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize("operation", EVERY.values(), ids=EVERY)
def test_what_is_not_a_regular_file_is_refused_at_once(
    workspace: Workspace,
    outside: Path,
    plant: Callable[[Path, Path], None],
    operation: Operation,
) -> None:
    """Links are not followed, pipes not waited for, and none is replaced."""
    plant(workspace.root / "planted", outside)
    before = open_descriptors()
    assert code_of(lambda: operation(workspace, "planted")) == "not_regular"
    assert open_descriptors() == before
    assert (outside / "secret.txt").read_bytes() == SECRET
    assert sorted(path.name for path in outside.iterdir()) == ["secret.txt"]


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize("operation", EVERY.values(), ids=EVERY)
def test_nothing_is_reached_through_what_is_not_a_directory(
    workspace: Workspace,
    outside: Path,
    plant: Callable[[Path, Path], None],
    operation: Operation,
) -> None:
    """The same holds for every part on the way, whether the link leads in or out."""
    plant(workspace.root / "planted", outside)
    for path in ("planted/secret.txt", "planted/new/x", "/workspace/planted/a"):
        assert code_of(partial(operation, workspace, path)) == "not_regular"
    assert sorted(path.name for path in outside.iterdir()) == ["secret.txt"]


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_listings_and_changes_show_regular_files_only(
    workspace: Workspace, outside: Path, plant: Callable[[Path, Path], None]
) -> None:
    """What was planted is in no listing and no diff, and the walk does not enter it."""
    before = workspace.scan()
    workspace.write_file("d/inside.txt", "x")
    plant(workspace.root / "planted", outside)
    plant(workspace.root / "d" / "planted", outside)
    assert [file.path for file in workspace.list_files()] == ["d/inside.txt"]
    assert [file.path for file in workspace.changes(before)] == ["d/inside.txt"]
    assert workspace.usage_bytes() < 1 << 20


def test_a_leased_file_is_not_waited_for(workspace: Workspace) -> None:
    """Code that holds a lease could stall a plain open for the kernel's 45 seconds."""
    workspace.write_file("a", "x")
    usual = signal.signal(signal.SIGIO, signal.SIG_IGN)
    holder = os.open(workspace.root / "a", os.O_RDWR)
    try:
        fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        assert code_of(lambda: workspace.read_file("a")) == "io"
        assert [file.path for file in workspace.list_files()] == ["a"]
        workspace.write_file("a", "new")
    finally:
        os.close(holder)
        signal.signal(signal.SIGIO, usual)
    assert workspace.read_file("a") == b"new"


@contextmanager
def flipping(*steps: Callable[[], object]) -> Generator[None]:
    """Run steps round and round in a thread while the block runs."""
    stopped = threading.Event()

    def flip() -> None:
        while not stopped.is_set():
            for step in steps:
                with suppress(OSError):
                    step()

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def swap_in(name: Path, make: Callable[[Path], object]) -> Callable[[], None]:
    """Return a step that puts something new under a name in one rename."""

    def step() -> None:
        fresh = name.with_name("fresh")
        make(fresh)
        fresh.replace(name)

    return step


@pytest.mark.parametrize("operation", EVERY.values(), ids=EVERY)
def test_a_name_swapped_for_a_link_never_leads_outside(
    workspace: Workspace,
    outside: Path,
    operation: Operation,
) -> None:
    """While a name flips between a file and a link, the secret is not reached."""
    name = workspace.root / "name"
    secret = outside / "secret.txt"
    with flipping(
        swap_in(name, lambda fresh: fresh.write_bytes(b"harmless")),
        swap_in(name, lambda fresh: fresh.symlink_to(secret)),
    ):
        for _ in range(ROUNDS):
            with suppress(WorkspaceError):
                assert operation(workspace, "name") != SECRET
    assert secret.read_bytes() == SECRET


@pytest.mark.parametrize("operation", READS.values(), ids=READS)
def test_a_name_swapped_for_a_pipe_is_never_an_empty_file(
    workspace: Workspace, operation: Operation
) -> None:
    """While a name flips between a file and a pipe, it reads whole or is refused."""
    name = workspace.root / "name"
    with flipping(
        swap_in(name, lambda fresh: fresh.write_bytes(b"harmless")),
        swap_in(name, os.mkfifo),
    ):
        for _ in range(ROUNDS):
            with suppress(WorkspaceError):
                assert operation(workspace, "name") == b"harmless"


@pytest.mark.parametrize("operation", FILES.values(), ids=FILES)
def test_a_directory_swapped_for_a_link_never_leads_outside(
    workspace: Workspace,
    outside: Path,
    operation: Operation,
) -> None:
    """The same holds for a directory on the way, and for the whole walk."""
    place, away = workspace.root / "place", workspace.root / "away"
    workspace.write_file("place/other.txt", "harmless")
    with flipping(
        lambda: place.rename(away),
        lambda: place.symlink_to(outside),
        place.unlink,
        lambda: away.rename(place),
    ):
        for _ in range(ROUNDS):
            with suppress(WorkspaceError):
                assert operation(workspace, "place/secret.txt") != SECRET
            shown = {file.size for file in workspace.list_files()}
            assert len(SECRET) not in shown
    assert (outside / "secret.txt").read_bytes() == SECRET
    assert sorted(path.name for path in outside.iterdir()) == ["secret.txt"]


@pytest.mark.parametrize("operation", READS.values(), ids=READS)
@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_what_takes_a_files_place_once_it_was_looked_at_is_refused(
    workspace: Workspace,
    outside: Path,
    operation: Operation,
    plant: Callable[[Path, Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was opened is judged, and not what had been there."""
    at, look = workspace.root / "a", descriptors.entry_mode
    workspace.write_file("a", "harmless")

    def look_early(parent: int, name: descriptors.Name) -> os.stat_result:
        found = look(parent, name)
        at.unlink()
        plant(at, outside)
        return found

    monkeypatch.setattr(descriptors, "entry_mode", look_early)
    before = open_descriptors()
    assert code_of(lambda: operation(workspace, "a")) == "not_regular"
    assert open_descriptors() == before


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_what_takes_the_place_of_a_directory_just_made_is_refused(
    workspace: Workspace,
    outside: Path,
    plant: Callable[[Path, Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is written through it."""
    make = descriptors.make_directory

    def make_in_vain(parent: int, name: descriptors.Name, mode: int = 0o777) -> None:
        make(parent, name, mode)
        (workspace.root / "new").rmdir()
        plant(workspace.root / "new", outside)

    monkeypatch.setattr(descriptors, "make_directory", make_in_vain)
    assert code_of(lambda: workspace.write_file("new/a", "x")) == "not_regular"
    assert sorted(path.name for path in outside.iterdir()) == ["secret.txt"]


PIECES = ["..", ".", "", "/", "a", "link", "loop", "workspace", "\0", "\ud800", "nn"]


@examples(50, 1000)
@given(st.lists(st.sampled_from(PIECES), max_size=8).map("/".join), st.booleans())
def test_no_path_reaches_outside(path: str, absolute: bool) -> None:
    """Whatever is written as a path, the host beside the workspace is unchanged."""
    with closing(Workspace.create()) as base:
        base.write_file("secret.txt", SECRET)
        inner = Workspace.at(base.root / "inner")
        inner.write_file("a/x", "inside")
        (inner.root / "link").symlink_to("..")
        (inner.root / "loop").symlink_to("/")
        spelled = f"/{path}" if absolute else path
        with closing(inner), suppress(WorkspaceError):
            assert SECRET not in inner.read_file(f"{spelled}/secret.txt")
        inner = Workspace.at(base.root / "inner")
        with closing(inner), suppress(WorkspaceError):
            inner.write_file(spelled, "written")
        assert base.read_file("secret.txt") == SECRET
        assert {path.name for path in base.root.iterdir()} == {"secret.txt", "inner"}


def test_operations_hold_nothing_open(workspace: Workspace, outside: Path) -> None:
    """Neither success nor failure leaves a descriptor behind."""
    workspace.write_file("d/e/f", "x")
    (workspace.root / "link").symlink_to(outside)
    before = open_descriptors()
    for path in ("d/e/f", "d/e", "no/x", "link/x", "link", "../x", "d/e/f/g"):
        for operation in EVERY.values():
            with suppress(WorkspaceError):
                operation(workspace, path)
    workspace.changes(workspace.scan())
    workspace.usage_bytes()
    workspace.spill("c1", "x")
    assert open_descriptors() == before
