"""Outputs and images kept in the workspace, whatever the box put in their place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kern_tools.spilling import KEPT_FILES, plain_id
from kern_tools.workspace import Workspace

Plant = Callable[[Path, Path], object]


def fill(at: Path, outside: Path) -> None:
    """Leave a directory with something in it, locked."""
    (at / "deeper").mkdir(parents=True)
    (at / "deeper" / "x").write_text("x")
    (at / "link").symlink_to(outside)
    (at / "deeper").chmod(0)


PLANTED: dict[str, Plant] = {
    "link to a directory": lambda at, outside: at.symlink_to(outside),
    "link to a file": lambda at, outside: at.symlink_to(outside / "kept"),
    "dangling link": lambda at, outside: at.symlink_to("nowhere"),
    "file": lambda at, outside: at.write_text("x"),
    "named pipe": lambda at, outside: os.mkfifo(at),
    "directory": fill,
}


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    """Yield an open workspace that is removed afterwards."""
    with closing(Workspace.create()) as made:
        yield made


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """Yield a directory of the host that must stay as it is."""
    (tmp_path / "kept").write_text("kept")
    yield tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == "kept"


def test_an_output_is_kept_under_its_call(workspace: Workspace) -> None:
    """The path is relative, readable, and its text comes back."""
    path = workspace.spill("c7", "ü\r\nend")
    assert path == ".kern/out-c7.txt"
    assert workspace.read_file(path).decode("utf-8") == "ü\r\nend"
    assert workspace.spill("c7", "again") == path
    assert workspace.read_file(f"/workspace/{path}") == b"again"


def test_only_the_last_outputs_stay(workspace: Workspace) -> None:
    """Old ones go, the newest always stays, other files are left alone."""
    workspace.write_file(".kern/mine.txt", "x")
    for number in range(KEPT_FILES + 5):
        path = workspace.spill(f"c{number}", str(number))
        os.utime(workspace.root / path, ns=(number * 10**9, number * 10**9))
        assert workspace.read_file(path) == str(number).encode()
    left = {entry.name for entry in (workspace.root / ".kern").iterdir()}
    last = range(5, KEPT_FILES + 5)
    assert left == {"mine.txt", *(f"out-c{number}.txt" for number in last)}


def test_an_image_is_kept_under_its_call_and_number(workspace: Workspace) -> None:
    """The path is relative, its ending says the type, and its bytes come back."""
    path = workspace.keep_image("c7", 1, "image/png", b"\x89PNG\r\n\0")
    assert path == ".kern/img-c7-1.png"
    assert workspace.read_file(path) == b"\x89PNG\r\n\0"
    assert workspace.keep_image("c7", 2, "image/jpeg", b"x") == ".kern/img-c7-2.jpg"
    assert workspace.list_files() == []


def test_an_image_of_another_type_is_refused(workspace: Workspace) -> None:
    """Only what a reply can show is kept."""
    with pytest.raises(ValueError, match="mime='image/tiff' is not kept: give image/"):
        workspace.keep_image("c7", 1, "image/tiff", b"x")


def test_only_the_last_images_stay(workspace: Workspace) -> None:
    """Outputs and images do not push each other out."""
    workspace.spill("c1", "text")
    for number in range(KEPT_FILES + 5):
        path = workspace.keep_image(f"c{number}", 1, "image/png", b"x")
        os.utime(workspace.root / path, ns=(number * 10**9, number * 10**9))
    left = {entry.name for entry in (workspace.root / ".kern").iterdir()}
    last = range(5, KEPT_FILES + 5)
    assert left == {"out-c1.txt", *(f"img-c{number}-1.png" for number in last)}


def test_no_image_of_the_call_itself_goes(workspace: Workspace) -> None:
    """A reply that names more images than are kept names none that is gone."""
    workspace.keep_image("old", 1, "image/png", b"x")
    paths = [
        workspace.keep_image("c1", number, "image/png", b"x")
        for number in range(1, KEPT_FILES + 6)
    ]
    assert [workspace.read_file(path) for path in paths] == [b"x"] * len(paths)
    assert not (workspace.root / ".kern/img-old-1.png").exists()


Keep = Callable[[Workspace], str]


def spill(workspace: Workspace) -> str:
    """Keep an output."""
    return workspace.spill("c1", "text")


def keep_image(workspace: Workspace) -> str:
    """Keep an image."""
    return workspace.keep_image("c1", 1, "image/png", b"text")


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize("keep", [spill, keep_image])
def test_what_lies_in_place_of_our_directory_is_replaced(
    workspace: Workspace, outside: Path, plant: Plant, keep: Keep
) -> None:
    """Nothing is written through a link, and no pipe is waited for."""
    plant(workspace.root / ".kern", outside)
    path = keep(workspace)
    assert workspace.read_file(path) == b"text"
    assert not (workspace.root / ".kern").is_symlink()


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize(
    ("keep", "name"), [(spill, "out-c1.txt"), (keep_image, "img-c1-1.png")]
)
def test_what_lies_in_place_of_the_file_is_replaced(
    workspace: Workspace, outside: Path, plant: Plant, keep: Keep, name: str
) -> None:
    """The box may know the name beforehand; what is kept takes it all the same."""
    (workspace.root / ".kern").mkdir()
    plant(workspace.root / ".kern" / name, outside)
    path = keep(workspace)
    assert path == f".kern/{name}"
    assert workspace.read_file(path) == b"text"
    assert (workspace.root / path).is_file()
    assert not (workspace.root / path).is_symlink()


def test_planted_outputs_are_removed_with_the_old_ones(
    workspace: Workspace, outside: Path
) -> None:
    """Directories and links under our names go like files; nothing outside does."""
    (workspace.root / ".kern").mkdir()
    for number in range(40):
        plant = list(PLANTED.values())[number % len(PLANTED)]
        plant(workspace.root / ".kern" / f"out-p{number}.txt", outside)
    path = workspace.spill("c1", "text")
    assert workspace.read_file(path) == b"text"
    assert len(list((workspace.root / ".kern").iterdir())) == KEPT_FILES


def test_text_that_utf8_cannot_store_is_kept_as_escapes(workspace: Workspace) -> None:
    """An output is never lost for one character."""
    path = workspace.spill("c1", "a\ud800b")
    assert workspace.read_file(path) == b"a\\ud800b"


@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=100))
def test_any_call_id_names_a_file(call_id: str) -> None:
    """The name has 1 to 64 plain characters."""
    plain = plain_id(call_id)
    assert 0 < len(plain) <= 64
    assert plain.isascii()
    assert plain.replace("-", "x").replace("_", "x").isalnum()


def test_different_call_ids_have_different_files() -> None:
    """Ids that differ only in odd or late characters are told apart."""
    ids = ["", ".", "..", "a/b", "a.b", "a_b", "../../x", "y" * 64, "y" * 65, "y" * 66]
    assert len({plain_id(call_id) for call_id in ids}) == len(ids)
    assert plain_id("call_Ab-9") == "call_Ab-9"
