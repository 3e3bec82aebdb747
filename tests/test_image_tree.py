"""What is laid out for an image of the host, before kern builds it."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
import threading
import zipfile
from pathlib import Path

import pytest

from kern_tools import elf, host_image, image_store
from kern_tools.cache import made_cache_folder
from kern_tools.faults import SandboxError
from kern_tools.host_python import HostPython, host_python
from kern_tools.rootfs import Tree
from tests.hosts import wait_until

PIP = "usr/local/bin/pip"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Give an empty tree."""
    return Tree(tmp_path / "rootfs")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostPython:
    """Give a Python whose library is empty, on a host that keeps no wheels apart."""
    monkeypatch.setitem(sysconfig.get_config_vars(), "WHEEL_PKG_DIR", None)
    stdlib = tmp_path / "lib"
    stdlib.mkdir()
    return HostPython(Path(sys.executable), stdlib, stdlib, "3.12.1")


def test_a_python_without_pip_gets_the_one_of_its_wheel(
    tree: Tree, bare: HostPython
) -> None:
    """Debian removes the installed one, and keeps what `ensurepip` would install."""
    bundled = bare.stdlib / "ensurepip" / "_bundled"
    bundled.mkdir(parents=True)
    with zipfile.ZipFile(bundled / "pip-24.0-py3-none-any.whl", "w") as wheel:
        wheel.mkdir("pip")
        wheel.writestr("pip/__init__.py", "there = True\n")
    bare.copy_pip_into(tree)
    unpacked = tree.root / bare.home / "site-packages/pip/__init__.py"
    assert unpacked.read_text() == "there = True\n"
    assert os.access(tree.root / PIP, os.X_OK)


def test_a_python_with_neither_pip_nor_wheel_gives_none(
    tree: Tree, bare: HostPython
) -> None:
    """The image has no `pip` that could not run."""
    bare.copy_pip_into(tree)
    assert list(tree.root.iterdir()) == []


def test_native_modules_are_found_where_the_python_was_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that are built elsewhere name a directory of the machine that did it."""
    usual = host_python().native()
    known = sysconfig.get_config_vars()
    monkeypatch.setitem(known, "DESTSHARED", "/no/such/place")
    assert host_python.__wrapped__().native() == usual


def test_the_names_of_one_program_are_links_to_it(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where busybox is all the tools, it is carried once."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "busybox").write_text("all of them")
    (tools / "busybox").chmod(0o755)
    for name in ("sh", "cat", "ls"):
        (tools / name).symlink_to("busybox")
    monkeypatch.setattr(host_image, "_TOOL_PATH", str(tools))
    host_image._add_tools(tree)
    carried = tree.root / "usr/bin"
    assert {path.name for path in carried.iterdir()} == {"sh", "cat", "ls"}
    assert [path.name for path in carried.iterdir() if not path.is_symlink()] == ["sh"]
    assert (carried / "ls").read_text() == "all of them"


def test_a_host_without_certificates_or_locale_makes_an_image_without(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No variable of the image names a file that is not there."""
    nowhere = str(tmp_path / "nowhere")
    monkeypatch.setenv("SSL_CERT_FILE", nowhere)
    for places in ("_LOCALES", "_CERTIFICATES"):
        monkeypatch.setattr(host_image, places, (nowhere, nowhere))
    host_image._add_settings(tree)
    assert {path.name for path in tree.root.iterdir()} == {"etc"}
    assert not (tree.root / "etc/ssl").exists()
    assert "SSL_CERT_FILE" not in host_image._recipe(tree, host_python())


def test_the_first_certificates_and_locale_that_are_there_are_taken(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Distributions keep them in different places."""
    (tmp_path / "locale").mkdir()
    for name in ("locale/LC_CTYPE", "one", "two"):
        (tmp_path / name).write_text(name)
    monkeypatch.setenv("SSL_CERT_FILE", "")
    locales = (str(tmp_path / "no"), str(tmp_path / "locale"))
    certificates = tuple(str(tmp_path / name) for name in ("no", "one", "two"))
    monkeypatch.setattr(host_image, "_LOCALES", locales)
    monkeypatch.setattr(host_image, "_CERTIFICATES", certificates)
    host_image._add_settings(tree)
    inside = f"{tmp_path}/locale/LC_CTYPE".lstrip("/")
    assert (tree.root / inside).read_text() == "locale/LC_CTYPE"
    carried = tree.root / "etc/ssl/certs/ca-certificates.crt"
    assert carried.read_text() == "one"
    assert "SSL_CERT_FILE" in host_image._recipe(tree, host_python())


def test_what_cannot_be_read_is_no_program(tmp_path: Path) -> None:
    """Neither a directory nor a link that leads nowhere stops the build."""
    (tmp_path / "dangling").symlink_to("nowhere")
    assert not elf.is_elf(tmp_path)
    assert not elf.is_elf(tmp_path / "dangling")
    assert elf.is_elf(Path(sys.executable))


def test_without_strip_the_symbols_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image with them is larger, and as good."""
    library = host_python().native()[-1]
    copy = tmp_path / "library.so"
    shutil.copyfile(library, copy)
    monkeypatch.setenv("PATH", str(tmp_path))
    elf.strip_symbols([copy])
    assert copy.read_bytes() == library.read_bytes()


@pytest.mark.parametrize("memory", ["no/such", "full"])
def test_an_image_is_assembled_on_disk_where_memory_is_scarce(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: str
) -> None:
    """A host without room in memory, or without such a place, builds all the same."""
    (tmp_path / "full").mkdir()
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr(image_store, "_MEMORY", tmp_path / memory)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "disk"))
    with image_store.scratch_folder(1 << 60) as scratch:
        assert scratch.parent == tmp_path / "disk"


def test_a_build_that_takes_too_long_is_a_fault_of_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the limit; nothing waits for ever."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(image_store, "_BUILD_WAIT_S", 1e-6)
    context = tmp_path / "context"
    context.mkdir()
    with pytest.raises(SandboxError, match="took longer than") as caught:
        image_store.build_image("localhost/tests/slow:1", "FROM scratch\n", context)
    assert caught.value.fault is not None
    assert caught.value.fault.type == "startup_failed"


def test_who_is_told_nothing_waits_for_the_other_builder_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two builders of one reference take turns."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    turns: list[str] = []

    def second() -> None:
        with image_store.building("localhost/tests/both:1"):
            turns.append("second")

    waiter = threading.Thread(target=second)
    with image_store.building("localhost/tests/both:1"):
        waiter.start()
        inode = (made_cache_folder() / "both-1.lock").stat().st_ino
        wait_until(lambda: is_waited_for(inode))
        turns.append("first")
    waiter.join()
    assert turns == ["first", "second"]


def is_waited_for(inode: int) -> bool:
    """Say whether somebody is blocked at the lock of a file."""
    locks = Path("/proc/locks").read_text().splitlines()
    return any("->" in line and f":{inode} " in line for line in locks)
