"""The `tmpfs` option: its default, its sizes, and what it may not hide."""

from __future__ import annotations

from pathlib import Path

import pytest

from kern_tools.faults import MountRefused
from kern_tools.mounts import Mount
from kern_tools.scratch import DEFAULT_TMPFS_MB, check_tmpfs


def scratch(
    tmpfs: object,
    *,
    memory_mb: int | None = 512,
    targets: tuple[str, ...] = (),
    hardened: bool = False,
) -> dict[str, str]:
    """Check the option beside mounts at `targets`."""
    mounts = [Mount(Path("/usr"), target, True) for target in targets]
    return check_tmpfs(tmpfs, memory_mb=memory_mb, mounts=mounts, hardened=hardened)


@pytest.mark.parametrize(
    ("memory_mb", "size"),
    [(None, "64m"), (512, "64m"), (128, "64m"), (127, "63m"), (32, "16m"), (2, "1m")],
)
def test_the_default_is_at_most_half_of_the_memory(
    memory_mb: int | None, size: str
) -> None:
    """Scratch is charged to the cap: filling all of it would kill the box."""
    assert DEFAULT_TMPFS_MB == 64
    assert scratch(None, memory_mb=memory_mb) == {"/tmp": size}


def test_an_empty_mapping_removes_it() -> None:
    """No scratch at all is something one can ask for."""
    assert scratch({}) == {}


def test_the_default_steps_aside_for_a_mount_at_tmp() -> None:
    """Whoever mounts a directory at /tmp wants to see it."""
    assert scratch(None, targets=("/tmp",)) == {}


def test_the_default_steps_aside_for_a_security_profile() -> None:
    """The profile decides what is writable, unless scratch is asked for."""
    assert scratch(None, hardened=True) == {}
    assert scratch({"/tmp": "8m"}, hardened=True) == {"/tmp": "8m"}


@pytest.mark.parametrize("size", ["1k", "64m", "512M", "524288k"])
def test_a_size_with_a_unit_is_taken(size: str) -> None:
    """Sizes reach kern as they are written."""
    assert scratch({"/scratch/": size}) == {"/scratch": size}


@pytest.mark.parametrize(
    ("size", "why"),
    [
        ("0", "unlimited"),
        ("00", "unlimited"),
        ("64", "bytes"),
        ("", "not a size"),
        ("0m", "not a size"),
        ("064m", "not a size"),
        ("-1m", "not a size"),
        ("1.5g", "not a size"),
        ("64mb", "not a size"),
        ("64 m", "not a size"),
        ("64m\n", "not a size"),
        ("m", "not a size"),
        ("\u0664m", "not a size"),
        (64, "not a str"),
        (None, "not a str"),
        (True, "not a str"),
    ],
)
def test_a_size_that_kern_would_read_otherwise_is_refused(
    size: object, why: str
) -> None:
    """The message quotes the size and says how to write one."""
    with pytest.raises(MountRefused) as caught:
        scratch({"/tmp": size})
    message = str(caught.value)
    assert repr(size) in message
    assert why in message
    assert message.endswith("such as '64m'")
    assert caught.value.option == "tmpfs"


@pytest.mark.parametrize("size", ["513m", "1g", "1t", "524289k"])
def test_a_size_over_the_memory_is_refused(size: str) -> None:
    """Code would be told of room that kills it."""
    with pytest.raises(MountRefused, match="larger than memory_mb=512"):
        scratch({"/tmp": size})
    assert scratch({"/tmp": size}, memory_mb=None) == {"/tmp": size}


@pytest.mark.parametrize("tmpfs", [64, "/tmp", ["/tmp:9g"], ("/tmp",), True])
def test_another_shape_is_refused(tmpfs: object) -> None:
    """The message shows the mapping that is wanted."""
    with pytest.raises(MountRefused, match="write tmpfs="):
        scratch(tmpfs)


def test_a_path_with_a_colon_is_refused() -> None:
    """To kern, it is another path and a size."""
    with pytest.raises(MountRefused, match="holds ':'"):
        scratch({"/scratch:9g": "1m"})


def test_shared_memory_is_left_to_kern() -> None:
    """It is sized to the cap there, and scratch is refused."""
    with pytest.raises(MountRefused, match="raise memory_mb"):
        scratch({"/dev/shm": "8m"})


@pytest.mark.parametrize("path", ["/", "/workspace", "/proc/x", "tmp", 5])
def test_a_path_that_the_box_cannot_spare_is_refused(path: object) -> None:
    """Scratch obeys the rules for targets."""
    with pytest.raises(MountRefused) as caught:
        scratch({path: "8m"})
    assert caught.value.option == "tmpfs"


def test_a_path_given_twice_is_refused() -> None:
    """One place has one size."""
    with pytest.raises(MountRefused, match="given twice"):
        scratch({"/a": "1m", "/a/": "2m"})


@pytest.mark.parametrize("target", ["/tmp", "/tmp/data"])
def test_scratch_that_would_hide_a_mount_is_refused(target: str) -> None:
    """Scratch is mounted last, on top of what is there."""
    with pytest.raises(MountRefused, match=f"would hide the mount at '{target}'"):
        scratch({"/tmp": "8m"}, targets=(target,))


def test_the_default_does_not_hide_a_mount_in_silence() -> None:
    """A mount below /tmp has to move, or scratch has to go."""
    with pytest.raises(MountRefused, match=r"tmpfs=\{\} for no scratch"):
        scratch(None, targets=("/tmp/data",))
    assert scratch({}, targets=("/tmp/data",)) == {}


def test_scratch_inside_a_mount_is_taken() -> None:
    """A kept /tmp with a bounded corner is a sound wish."""
    assert scratch({"/tmp/s": "8m"}, targets=("/tmp",)) == {"/tmp/s": "8m"}


def test_an_outer_path_comes_before_an_inner_one() -> None:
    """Scratch stacks in order, and an outer one would hide the inner."""
    assert list(scratch({"/a/b": "1m", "/a": "1m"})) == ["/a", "/a/b"]
