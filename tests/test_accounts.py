"""Which user of this machine an account is, and a folder that both may use."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from kern_tools import (
    ExecutionResult,
    FaultType,
    Sandbox,
    SandboxConfig,
    SandboxError,
    SandboxFault,
)
from kern_tools.accounts import (
    about_account,
    account_name,
    find_account,
    host_id,
    share,
    who_in_python,
    who_in_shell,
)
from kern_tools.image import ImageRef
from kern_tools.launch import Launcher

SINGLE = "         0       1000          1\n"
RANGE = f"{SINGLE}         1     100000      65536\n"
OTHER = 54_321
MODES = {
    "": 0o700,
    "deep": 0o700,
    "deep/secret.txt": 0o600,
    "tool": 0o700,
    "read-only.txt": 0o400,
}
NAMED, MASK, OTHERS = 2, 16, 32
"""Tags. Source: `linux/posix_acl.h`."""


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        (None, None),
        ("root", None),
        ("0", None),
        ("0:1000", None),
        ("1000", "1000"),
        ("1000:0", "1000:0"),
        ("node", "node"),
    ],
)
def test_root_is_no_account_of_its_own(name: str | None, kept: str | None) -> None:
    """Of the host's image it is root where nothing else is asked for."""
    image = ImageRef("localhost/some:1", host_python=True)
    launcher = Launcher(
        kern=Path("/kern"),
        config=SandboxConfig(user=name),
        image=image,
        workspace=Path("/workspace"),
    )
    assert account_name(launcher) == kept
    assert about_account(launcher) == ""


@pytest.mark.parametrize(
    ("said", "user"),
    [
        (f"{RANGE}Name:\tsh\nUid:\t1000\t1000\t1000\t1000\n", 100_999),
        (f"{RANGE}Uid:\t0\t0\t0\t0\n", 1000),
        (f"{RANGE}Uid:\t65536\t0\n", 165_535),
        (f"{RANGE}Uid:\t65537\t0\n", None),
        (f"{SINGLE}Uid:\t1\t1\n", None),
        ("", None),
        ("Uid:", None),
        ("Uid:\tx\n", None),
        (f"{RANGE}", None),
        ("1 2\n3 4 5 6\nUid:\t3\n", None),
    ],
)
def test_the_user_is_read_off_the_map(said: str, user: int | None) -> None:
    """What the map does not hold is nobody."""
    assert host_id(said) == user


def test_both_ways_of_asking_say_the_same() -> None:
    """In a box whose code is root, that is the user of this process."""
    with Sandbox(prewarm=0) as sandbox:
        for work in (who_in_python(), who_in_shell()):
            code = work.code or work.argv[-1]
            language = "python" if work.code else "sh"
            result = sandbox.run_code(code, language)
            assert host_id(result.stdout) == os.getuid()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with files that are closed to others, and what is no file."""
    folder = tmp_path / "shared"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep/secret.txt").write_text("ours")
    (folder / "tool").write_text("#!/bin/sh\n")
    (folder / "read-only.txt").write_text("ours")
    (tmp_path / "outside").write_text("outside")
    (folder / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(folder / "pipe")
    for path, mode in MODES.items():
        (folder / path).chmod(mode)
    return folder


def entries(path: Path, kind: str = "access") -> dict[tuple[int, int], int]:
    """Give the access control list of a path: tag and user to permissions."""
    name = f"system.posix_acl_{kind}"
    if name not in os.listxattr(path, follow_symlinks=False):
        return {}
    parts = struct.iter_unpack("<HHI", os.getxattr(path, name)[4:])
    return {(tag, who if tag == NAMED else 0): bits for tag, bits, who in parts}


def test_an_account_may_do_what_the_owner_may(folder: Path) -> None:
    """A file that is not ours to write, or to run, is not its either."""
    share(folder, OTHER, limit=1000)
    share(folder, OTHER, limit=1000)
    for path, mode in MODES.items():
        found = entries(folder / path)
        assert found[NAMED, OTHER] == mode >> 6, path
        assert found[MASK, 0] & found[NAMED, OTHER] == mode >> 6, path
        assert found[OTHERS, 0] == 0, path


def test_what_is_made_later_is_shared_as_well(folder: Path) -> None:
    """By either, whatever the umask, unless its maker closes it."""
    share(folder, OTHER, limit=1000)
    kept = os.umask(0o077)
    try:
        (folder / "more").mkdir()
        (folder / "more/new.txt").write_text("ours")
        os.close(os.open(folder / "more/closed", os.O_CREAT, 0o600))
    finally:
        os.umask(kept)
    inherited = entries(folder / "more", "default")
    assert inherited[NAMED, OTHER] == inherited[NAMED, os.geteuid()] == 7
    assert entries(folder / "more")[MASK, 0] == 7
    assert entries(folder / "more/new.txt")[NAMED, OTHER] & 6 == 6
    assert entries(folder / "more/new.txt")[MASK, 0] == 6
    assert entries(folder / "more/closed")[MASK, 0] == 0


def test_no_link_is_followed_and_no_pipe_is_opened(folder: Path) -> None:
    """What a name leads to may be anything of this machine's."""
    share(folder, OTHER, limit=1000)
    assert entries(folder.parent / "outside") == {}
    assert entries(folder / "pipe") == {}


def test_two_accounts_may_share_one_folder(folder: Path) -> None:
    """The entry of an earlier one stays."""
    share(folder, OTHER + 1, limit=1000)
    share(folder, OTHER, limit=1000)
    for kind in ("access", "default"):
        found = entries(folder / "deep", kind)
        assert found[NAMED, OTHER] == found[NAMED, OTHER + 1] == 7


def test_a_folder_of_many_files_is_shared_to_a_limit(folder: Path) -> None:
    """Code in a box can make files without end."""
    for number in range(50):
        (folder / f"{number}").touch()
    share(folder, OTHER, limit=10)
    assert entries(folder)[NAMED, OTHER] == 7
    shared = [path for path in folder.iterdir() if entries(path)]
    assert len(shared) <= 10


def test_a_place_without_such_lists_is_named() -> None:
    """The remedy is another file system, or root."""
    with pytest.raises(SandboxError, match="user='0'") as refused:
        share(Path("/proc/self"), OTHER, limit=1000)
    assert refused.value.code == "host"


def asked(result: ExecutionResult) -> int | None:
    """Find out which user of this machine `daemon` is, from what a box says."""
    launcher = Launcher(
        kern=Path("/kern"),
        config=SandboxConfig(user="daemon"),
        image=ImageRef("localhost/some:1", host_python=True),
        workspace=Path("/workspace"),
    )
    return find_account(launcher, lambda _: result, python=True)


def test_what_a_box_says_of_its_account_is_what_it_is() -> None:
    """A user of its own has an id; one that is ours needs nothing; a fault has none."""
    mine = f"{os.geteuid()}"
    fault = SandboxFault(type=FaultType.STARTUP_FAILED, message="no")
    assert asked(ExecutionResult(stdout=f"{RANGE}Uid:\t1\t1\n")) == 100_000
    assert asked(ExecutionResult(stdout=f"0 {mine} 1\nUid:\t0\t0\n")) is None
    assert asked(ExecutionResult(fault=fault)) is None


@pytest.mark.parametrize("said", ["", RANGE, f"{SINGLE}Uid:\t9\n"], ids=repr)
def test_a_box_that_does_not_say_its_account_is_named(said: str) -> None:
    """Its files would be lost to us, so that nothing is guessed."""
    with pytest.raises(SandboxError, match="user='0'") as refused:
        asked(ExecutionResult(stdout=said))
    assert refused.value.code == "host"
    assert "'daemon'" in str(refused.value)
