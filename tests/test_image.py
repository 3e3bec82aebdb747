"""Images built from the host's Python, and images that are pulled."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kern_tools.binary import find_kern
from kern_tools.elf import Libraries
from kern_tools.faults import ConfigError, HostError, SandboxError
from kern_tools.host_image import host_reference
from kern_tools.host_python import HostPython, host_python
from kern_tools.image import (
    ImageRef,
    built_images,
    ensure_image,
    image_info,
    remove_image,
)
from kern_tools.image_store import build_image, scratch_folder
from tests.images.registry import Registry

ROOT = Path(__file__).parent.parent
SITE = sysconfig.get_path("purelib")
BUILD = """
import json, sys
from kern_tools.image import ensure_image
told = []
reference = ensure_image("host", progress=told.append).reference
json.dump([reference, told], sys.stdout)
"""
SHIPPED = """
import os, sys
for module in list(sys.modules.values()):
    cached = getattr(module, "__cached__", None)
    if cached and not os.path.exists(cached):
        print(cached)
"""
IMPORT_ALL = """
import importlib, sys
left_out = {"antigravity", "idlelib", "lib2to3", "tkinter", "turtle", "turtledemo"}
left_out |= {"_tkinter", "ensurepip", "this"}
for name in sorted(sys.stdlib_module_names - left_out):
    if name.startswith(("_test", "_ctypes_test", "_xx", "xx")):
        continue
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name, error)
"""


def system_pythons() -> list[str]:
    """Return the system's own Python, where it can load what this one has installed."""
    found = shutil.which("python3", path="/usr/bin:/bin")
    if found is None or Path(found).resolve() == host_python().executable:
        return []
    code = "import sys; print(sys.implementation.cache_tag)"
    tag = subprocess.run([found, "-c", code], capture_output=True, text=True).stdout
    return [found] if tag.strip() == sys.implementation.cache_tag else []


@pytest.fixture(scope="session")
def image() -> ImageRef:
    """The host's image, built at most once."""
    return ensure_image("host")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry of one image, `small:1`."""
    with Registry(tmp_path_factory.mktemp("registry")) as started:
        yield started


@pytest.fixture
def own_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give kern a store of images of its own."""
    store = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(store))
    return store


def in_box(image: str, *argv: str) -> str:
    """Run a program in a box and return what it printed."""
    name = f"kt-test-{os.getpid()}"
    ended = subprocess.run(
        [
            *(find_kern(), "box", name, "--image", image, "--pull", "never", "--ro"),
            *("-q", "--tmpfs", "/tmp:64m", "--", *argv),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def layer(text: str) -> bytes:
    """Return a layer that holds one file."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("etc/motd")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text.encode()))
    return archive.getvalue()


def test_the_image_holds_the_running_python(image: ImageRef) -> None:
    """Same version, and so the same bytecode: the driver relies on it."""
    assert image.host_python
    printed = in_box(image.reference, "python3", "-c", "import sys; print(sys.version)")
    assert printed.strip() == sys.version


def test_the_image_is_small(image: ImageRef) -> None:
    """It is built on a developer's first call, and copied nowhere."""
    info = image_info(image.reference)
    assert info is not None
    assert info["size_bytes"] <= 80 << 20


def test_the_whole_standard_library_imports(image: ImageRef) -> None:
    """What imports on the host does in the image: native modules find their files."""
    program = ("-I", "-W", "ignore", "-c", IMPORT_ALL)
    here = subprocess.run(
        [host_python().executable, *program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert in_box(image.reference, "python3", *program) == here.stdout


def test_compiled_code_is_shipped(image: ImageRef) -> None:
    """A read-only box could not keep what it compiles."""
    code = "import asyncio, email, json, unittest.mock, urllib.request" + SHIPPED
    assert in_box(image.reference, "python3", "-c", code) == ""


def test_the_image_has_a_shell_and_its_tools(image: ImageRef) -> None:
    """What a shell cell reaches for."""
    script = "seq 3 | sort -r | head -1; echo a | sed s/a/b/; printf '%s\\n' x | grep x"
    assert in_box(image.reference, "bash", "-c", script).split() == ["3", "b", "x"]


def test_text_is_utf8_in_the_image(image: ImageRef) -> None:
    """Also for programs that ask the C library."""
    code = (
        "import locale; locale.setlocale(locale.LC_ALL, ''); print(locale.nl_langinfo"
    )
    printed = in_box(image.reference, "python3", "-c", f"{code}(locale.CODESET))")
    assert printed.strip() == "UTF-8"


def test_certificates_come_along(image: ImageRef) -> None:
    """A sandbox with a network can tell whom it talks to."""
    code = "import ssl; print(len(ssl.create_default_context().get_ca_certs()))"
    assert int(in_box(image.reference, "python3", "-c", code)) > 10


def test_pip_comes_along(image: ImageRef) -> None:
    """A sandbox with a network can install."""
    assert in_box(image.reference, "pip", "--version").startswith("pip ")


def test_a_present_image_is_not_built_again(image: ImageRef) -> None:
    """The second time there is nothing to tell."""
    told: list[str] = []
    assert ensure_image("host", progress=told.append) == image
    assert told == []


def test_images_of_ours_are_listed(image: ImageRef) -> None:
    """What the operator can remove when it is no longer of use."""
    assert image.reference in [info["reference"] for info in built_images()]


def test_a_virtual_environment_shares_the_image_of_its_python() -> None:
    """The key is of the interpreter, not of where it was started from."""
    base = getattr(sys, "_base_executable", sys.executable)
    code = "from kern_tools.host_image import host_reference; print(host_reference())"
    ended = subprocess.run(
        [base, "-c", code],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{SITE}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == host_reference()


@pytest.mark.verify
@pytest.mark.parametrize("python", system_pythons())
def test_the_python_of_the_system_is_carried_too(python: str, own_store: Path) -> None:
    """Debian's differs: its own directories, its own names, no compiled pip."""
    ended = subprocess.run(
        [python, "-c", BUILD],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{SITE}"},
        capture_output=True,
        text=True,
        check=True,
    )
    reference, _ = json.loads(ended.stdout)
    assert reference != host_reference()
    assert own_store.is_dir()
    code = "import ctypes, lzma, sqlite3, ssl, pip; print('there')"
    assert in_box(reference, "python3", "-c", code) == "there\n"


def test_the_reference_changes_with_the_python(tmp_path: Path) -> None:
    """An upgrade in place gets an image of its own."""
    running = host_python()
    program = tmp_path / "python"
    shutil.copyfile(running.executable, program)
    copied = HostPython(program, running.stdlib, running.extensions, running.version)
    before = host_reference(copied)
    assert before != host_reference(running)
    with program.open("ab") as file:
        file.write(b"\0")
    assert host_reference(copied) != before


@pytest.mark.verify
def test_builders_at_the_same_time_build_once(own_store: Path) -> None:
    """The others wait for the lock and find the image there."""
    builders = [
        subprocess.Popen(
            [sys.executable, "-c", BUILD], stdout=subprocess.PIPE, cwd=ROOT, text=True
        )
        for _ in range(4)
    ]
    answers = [json.loads(builder.communicate()[0]) for builder in builders]
    references = {reference for reference, _ in answers}
    told = [line for _, lines in answers for line in lines]
    assert references == {host_reference()}
    assert len([line for line in told if line.startswith("building")]) == 1
    assert own_store.is_dir()


@pytest.mark.usefixtures("own_store")
def test_an_odd_directory_for_temporary_files_is_fine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spaces, quotes and other alphabets reach kern unharmed."""
    odd = tmp_path / "a 'b' \"ü\" $c"
    odd.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    reference = "localhost/kern-tools-test/odd:1"
    with scratch_folder(1 << 60) as scratch:
        assert scratch.parent == odd
        (scratch / "file").write_text("there")
        build_image(reference, "FROM scratch\nCOPY file /file\n", scratch)
    assert image_info(reference) is not None
    assert list(odd.iterdir()) == []


@pytest.mark.usefixtures("own_store")
def test_an_image_that_cannot_be_built_is_a_fault_of_the_image(tmp_path: Path) -> None:
    """With the command that finds out why, kern's own words, and no image left."""
    reference = "localhost/kern-tools-test/broken:1"
    with pytest.raises(SandboxError, match="kern-tools doctor") as caught:
        build_image(reference, "FROM scratch\nCOPY no-such-file /file\n", tmp_path)
    assert caught.value.fault is not None
    assert (caught.value.fault.type, caught.value.code) == ("startup_failed", "image")
    assert any("no-such-file" in note for note in caught.value.__notes__)
    assert image_info(reference) is None


def test_no_room_to_assemble_is_a_fault_of_the_image() -> None:
    """A full disk is named, with what to do."""
    with (
        pytest.raises(SandboxError, match="No space left") as caught,
        scratch_folder(1),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/some/file")
    assert caught.value.fault is not None
    assert "TMPDIR" in str(caught.value)


def test_no_home_is_an_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise kern would see no images, and say nothing about it."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.raises(HostError, match="set HOME or XDG_CACHE_HOME") as caught:
        ensure_image("host")
    assert caught.value.code == "no_home"


def test_a_home_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error says which directory it was about."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/no/such")
    with pytest.raises(HostError, match="'/proc/no/such/kern-tools'") as caught:
        ensure_image("host")
    assert caught.value.code == "no_home"


@pytest.mark.usefixtures("own_store")
def test_a_host_without_ldd_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing else knows which libraries a program loads."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="ldd") as caught:
        ensure_image("host")
    assert caught.value.code == "no_ldd"


def test_a_host_without_the_gnu_c_library_is_told_to_pass_an_image() -> None:
    """On musl the image would lack a directory that the loader trusts."""
    with pytest.raises(HostError, match="pass an image") as caught:
        _ = Libraries({"libc.musl-x86_64.so.1": Path("/lib/ld-musl.so")}).trusted
    assert caught.value.code == "no_libc"


@pytest.mark.parametrize("image", ["", "-v", "--help", "two words", "a\nb"])
def test_what_is_no_reference_is_refused(image: str) -> None:
    """An image that starts with `-` would be an option to kern."""
    with pytest.raises(ConfigError, match="image=") as caught:
        ensure_image(image)
    assert caught.value.option == "image"


def test_packages_are_for_the_image_of_the_host_alone() -> None:
    """Another image may hold another Python."""
    with pytest.raises(ConfigError, match="packages=") as caught:
        ensure_image("python:3.12-slim", packages=["numpy"])
    assert caught.value.option == "packages"


@pytest.mark.usefixtures("own_store")
def test_an_absent_image_is_pulled(registry: Registry) -> None:
    """The progress is told, and the second time there is none."""
    registry.push("small", layer("hello"))
    reference = f"{registry.host}/small:1"
    told: list[str] = []
    pulled = ensure_image(reference, progress=told.append)
    assert pulled == ImageRef(reference, host_python=False)
    assert told == [f"pulling {reference}"]
    assert ensure_image(reference, offline=True, progress=told.append) == pulled
    assert len(told) == 1


@pytest.mark.usefixtures("own_store")
def test_an_image_is_pulled_by_digest(registry: Registry) -> None:
    """What is pinned is what is present afterwards."""
    digest = registry.push("pinned", layer("pinned"))
    reference = f"{registry.host}/pinned@{digest}"
    assert ensure_image(reference).reference == reference
    assert image_info(reference) is not None


@pytest.mark.usefixtures("own_store")
def test_an_unknown_image_is_a_fault_of_the_image(registry: Registry) -> None:
    """The message is ours and short; what kern said is in the notes."""
    reference = f"{registry.host}/unknown:1"
    with pytest.raises(SandboxError, match=repr(reference)) as caught:
        ensure_image(reference)
    fault = caught.value.fault
    assert fault is not None
    assert (fault.type, fault.reason, fault.actor) == (
        "startup_failed",
        "image",
        "operator",
    )
    assert "\n" not in fault.message
    assert any("kern said" in note for note in caught.value.__notes__)


@pytest.mark.usefixtures("own_store")
def test_offline_never_pulls(registry: Registry) -> None:
    """Also where the registry has the image."""
    registry.push("there", layer("there"))
    with pytest.raises(SandboxError, match="offline=True") as caught:
        ensure_image(f"{registry.host}/there:1", offline=True)
    assert caught.value.code == "image"
    assert image_info(f"{registry.host}/there:1") is None


@pytest.mark.usefixtures("own_store")
def test_a_pull_has_a_budget_of_its_own(registry: Registry) -> None:
    """The error names the limit and the option that raises it."""
    registry.push("slow", layer("slow"))
    with pytest.raises(SandboxError, match="pull_timeout_s"):
        ensure_image(f"{registry.host}/slow:1", pull_timeout_s=1e-6)


@pytest.mark.usefixtures("own_store")
def test_an_image_is_removed_once(registry: Registry) -> None:
    """A second removal finds nothing, which is no error."""
    registry.push("gone", layer("gone"))
    reference = ensure_image(f"{registry.host}/gone:1").reference
    assert remove_image(reference) is True
    assert image_info(reference) is None
    assert remove_image(reference) is False
