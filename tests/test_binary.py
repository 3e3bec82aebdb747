"""Which program is taken as kern, and which is refused."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import sysconfig
from pathlib import Path

import pytest

from kern_tools import binary
from kern_tools.binary import find_kern, kern_version
from kern_tools.faults import HostError


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERN_BIN", raising=False)


@pytest.fixture
def nothing_beside_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make Python's own directories hold no programs."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))

    def path_of(name: str) -> str:
        return str(tmp_path / name)

    monkeypatch.setattr(sysconfig, "get_path", path_of)


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the environment one that the wheel was not installed into."""

    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)


def script(path: Path, text: str) -> Path:
    """Write a program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_the_kern_beside_python_is_found() -> None:
    """The wheel puts it next to the interpreter, and nothing has to be set."""
    assert find_kern() == Path(sys.executable).parent / "kern"


@pytest.mark.usefixtures("nothing_beside_python")
def test_the_kern_of_the_wheel_is_found_wherever_pip_put_it() -> None:
    """Scripts of a user install are not beside Python; its RECORD knows them."""
    assert kern_version(find_kern()) != ""


@pytest.mark.usefixtures("nothing_beside_python", "no_wheel")
def test_a_kern_on_path_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Last comes PATH."""
    kern = script(tmp_path / "elsewhere" / "kern", "echo kern 0.33.0")
    monkeypatch.setenv("PATH", f"{kern.parent}:{os.environ['PATH']}")
    assert find_kern() == kern


@pytest.mark.usefixtures("nothing_beside_python", "no_wheel")
def test_no_kern_at_all_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error carries the one command that helps."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="pip install kern-sandbox") as caught:
        find_kern()
    assert caught.value.code == "no_kern"


def test_the_environment_decides_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """KERN_BIN wins over the kern beside Python."""
    kern = script(tmp_path / "mine", "echo kern 0.34.1")
    monkeypatch.setenv("KERN_BIN", str(kern))
    assert find_kern() == kern
    assert kern_version(kern) == "0.34.1"


def test_a_missing_choice_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A KERN_BIN that points nowhere is not replaced by another kern."""
    monkeypatch.setenv("KERN_BIN", "/no/such/kern")
    with pytest.raises(HostError, match=r"KERN_BIN='/no/such/kern'") as caught:
        find_kern()
    assert caught.value.code == "no_kern"


@pytest.mark.parametrize(
    "text",
    ["", "echo kernel 6.1", "echo kern 0.33.0; exit 3", "echo oops >&2"],
    ids=["silent", "another", "failing", "stderr"],
)
def test_another_program_is_refused_by_name(
    text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What does not answer as kern would return empty successes for every call."""
    other = script(tmp_path / "other", text)
    monkeypatch.setenv("KERN_BIN", str(other))
    with pytest.raises(HostError, match=f"{str(other)!r} is not kern") as caught:
        find_kern()
    assert caught.value.code == "not_kern"


@pytest.mark.parametrize("mode", [0o644, 0o755], ids=["plain", "directory"])
def test_what_cannot_run_is_refused_by_name(
    mode: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file without the executable bit, and a directory, are no programs."""
    path = tmp_path / "kern"
    path.mkdir() if mode == 0o755 else path.touch(mode)
    monkeypatch.setenv("KERN_BIN", str(path))
    with pytest.raises(HostError, match="is not kern: ") as caught:
        find_kern()
    assert caught.value.code == "not_kern"


def test_a_file_that_is_gone_is_refused_by_name(tmp_path: Path) -> None:
    """Somebody may have removed it since it was found."""
    with pytest.raises(HostError, match="No such file") as caught:
        kern_version(tmp_path / "gone")
    assert caught.value.code == "not_kern"


def test_a_program_that_never_answers_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is not waited for longer than a kern could take."""
    monkeypatch.setattr(binary, "_VERSION_WAIT_S", 0.1)
    silent = script(tmp_path / "silent", "exec sleep 60")
    with pytest.raises(HostError, match="did not answer `--version`") as caught:
        kern_version(silent)
    assert caught.value.code == "not_kern"


@pytest.mark.usefixtures("nothing_beside_python")
@pytest.mark.parametrize("is_there", [False, True], ids=["gone", "another"])
def test_a_file_that_the_wheel_did_not_bring_is_not_taken_for_its_own(
    is_there: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The RECORD says which bytes were installed."""
    record = tmp_path / "site" / "kern_sandbox-1.0.dist-info" / "RECORD"
    script(record.parent.parent / "bin" / "kern", "echo kern 0.33.0")
    record.parent.mkdir()
    (record.parent / "METADATA").write_text("Name: kern-sandbox\nVersion: 1.0\n")
    entry = "bin/kern" if is_there else "../bin/kern"
    record.write_text(f"kern_sandbox/bin/kern,,\n{entry},sha256=AAAA,3\n")
    monkeypatch.setattr(sys, "path", [str(record.parent.parent), *sys.path])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError) as caught:
        find_kern()
    assert caught.value.code == "no_kern"


def test_a_binary_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The answer holds for as long as the file is the same."""
    log = tmp_path / "log"
    kern = script(tmp_path / "kern", f"echo asked >> {log}; echo kern 0.33.0")
    monkeypatch.setenv("KERN_BIN", str(kern))
    assert [find_kern() for _ in range(3)] == [kern] * 3
    assert log.read_text().count("asked") == 1


def test_a_binary_that_was_replaced_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An upgrade, or another program in its place, is noticed."""
    kern = script(tmp_path / "kern", "echo kern 0.33.0")
    monkeypatch.setenv("KERN_BIN", str(kern))
    find_kern()
    script(kern, "echo something else")
    with pytest.raises(HostError, match="something else"):
        find_kern()


def test_an_older_kern_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Age is no reason to refuse: the host report says what it cannot tell."""
    kern = script(tmp_path / "kern", "echo kern 0.9.2")
    monkeypatch.setenv("KERN_BIN", str(kern))
    assert kern_version(find_kern()) == "0.9.2"


def test_another_system_names_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not Linux: there is no kern to install, so the error does not say install."""
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(HostError, match="Linux VM") as caught:
        find_kern()
    assert caught.value.code == "not_linux"
    assert "WSL2" in str(caught.value)
