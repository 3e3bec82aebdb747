"""The mount policy: one row for each thing that is refused."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from kern_tools.faults import ConfigError, MountRefused
from kern_tools.mounts import (
    Mount,
    check_mount,
    check_mounts,
    check_target,
    check_workspace,
)
from kern_tools.refusals import (
    CREDENTIAL_PAIRS,
    CREDENTIALS,
    REFUSED,
    SOCKETS,
    Place,
    refused_places,
)

VARIABLES = (
    "CONTAINER_HOST",
    "DOCKER_HOST",
    "SSH_AUTH_SOCK",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
)
TREES = [place for place in REFUSED if place.reach == "tree"]
SELVES = [place for place in REFUSED if place.reach == "self"]
HIDDEN = [*sorted(CREDENTIALS), *sorted(SOCKETS)]
PAIRS = ["/".join(pair) for pair in sorted(CREDENTIAL_PAIRS)]


def named(place: Place) -> str:
    """Name a row of the table after its path."""
    return place.path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a home of our own, with none of kern's places moved."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def folder(home: Path) -> Path:
    """Give a directory that may be mounted."""
    path = home / "data"
    path.mkdir(parents=True)
    return path


def check_source(source: str | Path) -> Mount:
    """Check a source with a target that is good."""
    return check_mount(source, "/data")


def refusal(source: str | Path, option: str = "mounts") -> str:
    """Return the message with which a source or a workspace is refused."""
    check = check_workspace if option == "workspace" else check_source
    with pytest.raises(MountRefused) as caught:
        check(source)
    assert caught.value.code == "mount_refused"
    assert caught.value.option == option
    return str(caught.value)


def test_a_plain_directory_is_mounted_as_asked(folder: Path) -> None:
    """The mount names the directory, the target and whether writing is refused."""
    assert check_mount(folder, "/data", True) == Mount(folder, "/data", True)
    assert check_mount(str(folder), "/data").read_only is False


def test_a_plain_file_may_be_mounted(folder: Path) -> None:
    """A file can be bound as well as a directory."""
    (folder / "model.bin").write_bytes(b"")
    mount = check_mount(folder / "model.bin", "/etc/model.bin")
    assert mount.source == folder / "model.bin"


@pytest.mark.parametrize("option", ["mounts", "workspace"])
@pytest.mark.parametrize("place", REFUSED, ids=named)
def test_a_place_of_the_table_is_refused(place: Place, option: str) -> None:
    """No entry of the table can be mounted or used as a workspace."""
    assert "is refused" in refusal(place.path, option)


@pytest.mark.parametrize("option", ["mounts", "workspace"])
@pytest.mark.parametrize("place", REFUSED, ids=named)
def test_a_parent_of_a_refused_place_is_refused(place: Place, option: str) -> None:
    """What contains a refused place gives it away just as well."""
    for parent in Path(os.path.realpath(place.path)).parents:
        assert "is refused" in refusal(parent, option)


@pytest.mark.parametrize("place", TREES, ids=named)
def test_what_lies_in_a_refused_tree_is_refused(place: Place) -> None:
    """A child of a refused tree is no better than the tree."""
    below = f"{os.path.realpath(place.path)}/below"
    assert f"{below!r} is refused: " in refusal(below, "workspace")


@pytest.mark.parametrize("place", SELVES, ids=named)
def test_what_lies_in_a_place_refused_for_itself_is_allowed(place: Place) -> None:
    """A project in a home, or a directory in /dev/shm, is ordinary."""
    below = Path(place.path) / "project"
    assert check_workspace(below) == below


def test_a_message_names_what_a_parent_contains_and_what_to_mount(home: Path) -> None:
    """Whoever mounts too much is told what was in it, and what to name instead."""
    home.mkdir()
    message = refusal(home.parent)
    assert f"{str(home)!r}, your home directory" in message
    assert message.endswith("a directory inside it that holds only what the job needs")


@pytest.mark.parametrize("path", ["/home", "/tmp", "/run", "/var"])
def test_a_busy_directory_of_the_host_is_refused(path: str) -> None:
    """Each holds homes, kern's state, sockets or other engines' data."""
    assert "is refused" in refusal(path)


def test_usr_may_be_mounted() -> None:
    """/usr holds programs alone, which the box may read."""
    assert check_mount("/usr", "/host-usr", True).source == Path("/usr")


@pytest.mark.parametrize("option", ["mounts", "workspace"])
def test_the_home_directory_is_refused(home: Path, option: str) -> None:
    """$HOME is refused, a directory in it is not."""
    assert "it is your home directory" in refusal(home, option)
    assert check_workspace(home / "project") == home / "project"


@pytest.mark.parametrize("option", ["mounts", "workspace"])
@pytest.mark.parametrize(
    ("variable", "default"),
    [
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_DATA_HOME", ".local/share"),
    ],
)
def test_kerns_state_is_refused_where_it_is_and_where_it_was(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    default: str,
    option: str,
) -> None:
    """A variable moves kern's directory, but not what lies at the default place."""
    moved = home.parent / "moved"
    monkeypatch.setenv(variable, str(moved))
    for base in (moved, home / default):
        assert "kern's" in refusal(base, option)
        assert "kern's" in refusal(base / "kern", option)
        assert "kern's" in refusal(base / "kern" / "deep" / "er", option)
        assert check_workspace(base / "other") == base / "other"


def test_kerns_runtime_state_is_refused_at_all_three_places(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the variable, kern takes /run/user or /tmp."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home.parent / "run"))
    uid = os.getuid()
    for base in (
        f"{home.parent}/run/kern",
        f"/run/user/{uid}/kern",
        f"/tmp/kern-{uid}",
    ):
        assert "kern's runtime state" in refusal(f"{base}/scratch", "workspace")
        assert "kern's runtime state" in refusal(base)


def test_a_relative_variable_names_no_place(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The XDG standard tells programs to ignore relative values."""
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("DOCKER_HOST", "tcp://localhost:2375")
    monkeypatch.setenv("HOME", "")
    assert all(place.path.startswith("/") for place in refused_places())


@pytest.mark.parametrize(
    ("variable", "prefix"),
    [("DOCKER_HOST", "unix://"), ("CONTAINER_HOST", "unix://"), ("SSH_AUTH_SOCK", "")],
)
def test_a_socket_named_by_the_environment_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str, prefix: str
) -> None:
    """Engines and agents listen elsewhere where a variable says so."""
    monkeypatch.setenv(variable, f"{prefix}{folder}/engine")
    assert "socket" in refusal(folder / "engine")
    assert "it contains" in refusal(folder)


@pytest.mark.parametrize("name", ["docker.sock", "podman/podman.sock"])
def test_a_rootless_engines_socket_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Rootless engines listen in the runtime directory."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    assert "is refused" in refusal(folder / name)
    assert "socket" in refusal(folder)


@pytest.mark.parametrize("name", [*HIDDEN, *PAIRS])
def test_credentials_are_refused_anywhere_in_a_path(folder: Path, name: str) -> None:
    """Neither a credential place nor anything in it can be mounted."""
    for path in (folder / name, folder / name / "deeper"):
        for option in ("mounts", "workspace"):
            message = refusal(path, option)
            assert repr(name) in message
            assert message.endswith("into the workspace instead")


@pytest.mark.parametrize("name", [*HIDDEN, *PAIRS])
def test_a_directory_that_holds_credentials_is_refused(folder: Path, name: str) -> None:
    """Mounting what holds a credential place gives it away."""
    (folder / name).mkdir(parents=True)
    message = refusal(folder)
    assert f"it contains {name!r}" in message
    assert message.endswith("holds only what the job needs")


@pytest.mark.parametrize("pair", PAIRS)
def test_a_config_directory_that_holds_credentials_is_refused(
    folder: Path, pair: str
) -> None:
    """The parent of a pair is seen for what it is by its own name too."""
    (folder / pair).mkdir(parents=True)
    assert "it contains" in refusal(folder / ".config")


def test_a_common_name_alone_is_no_credential(folder: Path) -> None:
    """`gh` is a secret in .config only."""
    (folder / "gh").mkdir()
    assert check_mount(folder / "gh", "/data").source == folder / "gh"


def test_a_kept_workspace_may_hold_what_boxes_wrote(folder: Path) -> None:
    """With HOME=/workspace, gpg in a box writes .gnupg, and the next open must work."""
    (folder / ".gnupg").mkdir()
    assert check_workspace(folder) == folder


def test_a_link_is_judged_by_where_it_leads(folder: Path) -> None:
    """A link to a refused place is that place, and the message shows both."""
    (folder / "innocent").symlink_to("/etc/ssl")
    message = refusal(folder / "innocent")
    assert f"{str(folder / 'innocent')!r}, which leads to " in message
    assert "it lies in '/etc'" in message


def test_a_link_to_a_good_place_is_resolved(folder: Path) -> None:
    """The box is given the place itself, so that moving the link changes nothing."""
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    assert check_mount(folder / "link", "/data").source == folder / "real"
    assert check_workspace(folder / "link") == folder / "real"


def test_a_link_through_proc_is_judged_by_where_it_leads() -> None:
    """/proc/self/root is the host's root under another name."""
    assert "is refused" in refusal("/proc/self/root/etc/ssl")


def test_a_source_that_does_not_exist_is_named(folder: Path) -> None:
    """A mistyped path is refused, where kern might create it."""
    message = refusal(folder / "nope")
    assert repr(str(folder / "nope")) in message
    assert message.endswith("name a path that exists")


def test_a_link_that_leads_in_a_circle_is_refused(folder: Path) -> None:
    """Such a link names nothing."""
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    assert "cannot be mounted" in refusal(folder / "a")


def test_special_files_are_refused(folder: Path) -> None:
    """A pipe or socket of the host lets the box talk to whoever holds it."""
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "any.socket"))
        for name in ("pipe", "any.socket"):
            assert "neither a directory nor a regular file" in refusal(folder / name)


@pytest.mark.parametrize("option", ["mounts", "workspace"])
@pytest.mark.parametrize(
    "path",
    [
        *("", ".", "data", "~/data", "../data", "/a\0b", "/a\nb", "/a\rb", "/a,ro"),
        *("/a ", "/a\udcff"),
    ],
)
def test_a_path_that_kern_cannot_be_told_is_refused(path: str, option: str) -> None:
    """Relative paths, and what would split kern's argument, never reach it."""
    assert repr(path) in refusal(path, option)


def test_a_link_to_a_path_with_a_comma_is_refused(folder: Path) -> None:
    """The resolved spelling is what kern reads."""
    (folder / "a,ro").mkdir()
    (folder / "link").symlink_to("a,ro")
    assert "a comma" in refusal(folder / "link")


@pytest.mark.parametrize("path", [5, None, b"/data", ["/data"]])
def test_a_workspace_of_another_type_is_refused(path: Any) -> None:
    """Only text and path objects name a directory."""
    assert repr(path) in refusal(path, "workspace")


def test_a_workspace_may_be_absent_or_in_tmp(tmp_path: Path) -> None:
    """The sandbox creates a missing one, and /tmp is where tests put theirs."""
    assert check_workspace(tmp_path / "new" / "ws") == tmp_path / "new" / "ws"
    assert check_workspace("/tmp/some-workspace") == Path("/tmp/some-workspace")


def test_a_workspace_that_is_a_file_is_refused(folder: Path) -> None:
    """A workspace is a directory."""
    (folder / "file").write_bytes(b"")
    assert "is not a directory" in refusal(folder / "file", "workspace")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("/data", "/data"),
        ("/data/", "/data"),
        ("//data/./deep//", "/data/deep"),
        ("/etc/app.conf", "/etc/app.conf"),
        ("/dev/shm", "/dev/shm"),
        ("/workspace/data", "/workspace/data"),
        ("/workspaces", "/workspaces"),
        ("/sysfoo", "/sysfoo"),
        ("/a:b", "/a:b"),
    ],
)
def test_a_target_is_kept_in_its_shortest_spelling(given: str, kept: str) -> None:
    """One place in the box has one spelling, so that duplicates are seen."""
    assert check_target(given, "mounts") == kept


@pytest.mark.parametrize(
    "target",
    [
        "",
        "data",
        "./data",
        "/",
        "//",
        "/.",
        "/data/..",
        "/../workspace",
        "/workspace",
        "/workspace/",
        "//workspace/.",
        "/workspace/.kern",
        "/workspace/.kern/out",
        "/proc",
        "/proc/1/environ",
        "/sys",
        "/sys/fs/cgroup",
        "/dev",
        "/dev/null",
        "/dev/shm/deep",
        "/a\0b",
        "/a\nb",
        "/a,ro",
        "/a ",
        None,
        5,
        b"/data",
    ],
)
@pytest.mark.parametrize("option", ["mounts", "tmpfs"])
def test_a_target_that_the_box_cannot_spare_is_refused(
    target: object, option: str
) -> None:
    """Nothing hides the workspace or what the kernel put into a box."""
    with pytest.raises(MountRefused) as caught:
        check_target(target, option)
    assert caught.value.option == option
    assert repr(target) in str(caught.value)


def test_mounts_are_read_in_both_spellings(folder: Path) -> None:
    """A target alone is writable; a pair says."""
    for name in ("a", "b", "c"):
        (folder / name).mkdir()
    given = {
        str(folder / "a"): "/a",
        folder / "b": ("/b", "ro"),
        str(folder / "c"): ("/c", "rw"),
    }
    assert check_mounts(given) == (
        Mount(folder / "a", "/a", False),
        Mount(folder / "b", "/b", True),
        Mount(folder / "c", "/c", False),
    )


def test_an_outer_target_comes_before_an_inner_one(folder: Path) -> None:
    """Mounts stack in order, and an outer one would hide the inner."""
    (folder / "in").mkdir()
    given = {str(folder / "in"): "/data/in", str(folder): "/data"}
    assert [mount.target for mount in check_mounts(given)] == ["/data", "/data/in"]


def test_a_target_given_twice_is_refused(folder: Path) -> None:
    """The second would hide the first, in whatever spelling."""
    (folder / "in").mkdir()
    with pytest.raises(MountRefused, match="'/data' is given twice"):
        check_mounts({str(folder): "/data", str(folder / "in"): "/data/"})


@pytest.mark.parametrize(
    "mounts",
    [
        None,
        5,
        "/usr",
        ["/usr"],
        {"/usr": 5},
        {"/usr": None},
        {"/usr": ("/data",)},
        {"/usr": ("/data", "RO")},
        {"/usr": ("/data", True)},
        {"/usr": ("/data", "ro", "rw")},
        {5: "/data"},
        {b"/usr": "/data"},
    ],
)
def test_mounts_of_another_shape_are_refused(mounts: object) -> None:
    """The message shows the shape that is wanted."""
    with pytest.raises(ConfigError, match="write ") as caught:
        check_mounts(mounts)
    assert caught.value.option == "mounts"
