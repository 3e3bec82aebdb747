"""What other images have is looked into, told, and true of their boxes."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from kern_tools import Sandbox, SandboxPool, inventory
from kern_tools.binary import find_kern
from kern_tools.image import ensure_image
from kern_tools.inventory import Inventory, image_inventory
from tests.prompts.claim import Live
from tests.prompts.probing import Found, probe, to_probe
from tests.prompts.registered import CLAIMS, read

from .layers import busybox_layer, node_layer
from .registry import Registry

APPLETS = (
    *("sh", "echo", "cat", "find", "grep", "head", "tr", "wc", "sed", "awk", "mkdir"),
    *("sleep", "ls"),
)
LODASH = "d=$KERN_DEPS/node_modules/lodash; mkdir -p $d && echo > $d/index.js"


def joined(
    layer: bytes, files: Mapping[str, bytes], links: Mapping[str, str] | None = None
) -> bytes:
    """Give a layer with programs more in it."""
    archive = io.BytesIO(layer)
    with tarfile.open(fileobj=archive, mode="a") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            tar.addfile(member, io.BytesIO(content))
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
    return archive.getvalue()


@pytest.fixture(scope="session")
def shell_and_node(registry: Registry) -> str:
    """Push an image with Node and a shell; give its reference."""
    with tarfile.open(fileobj=io.BytesIO(busybox_layer(APPLETS))) as shell:
        (busybox,) = (m for m in shell.getmembers() if m.isfile())
        (content,) = (file.read() for file in [shell.extractfile(busybox)] if file)
    files = {busybox.name: content}
    links = dict.fromkeys((f"bin/{name}" for name in APPLETS), "busybox")
    registry.push("shell-and-node", joined(node_layer(), files, links))
    return f"{registry.host}/shell-and-node:1"


@pytest.fixture
def python() -> str:
    """Give an image that has Python, under a name that does not tell."""
    reference = "localhost/tests/python:1"
    command = [str(find_kern()), "tag", ensure_image().reference, reference]
    subprocess.run(command, check=True, capture_output=True)
    return reference


@pytest.fixture(scope="session")
def shell(registry: Registry) -> str:
    """Push an image with a shell and the usual programs; give its reference."""
    registry.push("shell", busybox_layer(APPLETS))
    return f"{registry.host}/shell:1"


@pytest.fixture
def lives(
    shell: str, shell_less: str, shell_and_node: str, python: str
) -> Iterator[dict[str, Live]]:
    """Give a sandbox on each image, open."""
    images = {
        "sh": {"image": shell},
        "nothing": {"image": shell_less},
        "node with packages": {"image": shell_and_node, "setup": LODASH},
        "python": {"image": python, "mode": "kernel"},
    }
    with ExitStack() as opened:
        lives: dict[str, Live] = {}
        for name, options in images.items():
            sandbox = opened.enter_context(Sandbox(timeout_s=20, **options))
            facts = sandbox.describe().offering("coding")
            lives[name] = Live(sandbox, facts, "127.0.0.1:1")
        yield lives


@pytest.mark.verify
def test_what_is_said_of_other_images_is_so(lives: dict[str, Live]) -> None:
    """Each claim of all texts, in real boxes of images with and without Python."""
    found: Found = to_probe(lives)
    for name, claims in found.items():
        for claim, said in claims:
            probe(lives[name], claim, said)
    shown = {claim for claims in found.values() for claim, _ in claims}
    for claim in CLAIMS:
        if claim.shown_by == "images":
            assert claim in shown or claim.sources[0].startswith("hint: "), claim


@pytest.mark.verify
def test_a_missing_node_module_is_told(lives: dict[str, Live]) -> None:
    """With what there is instead."""
    live = lives["node with packages"]
    reply = live.call("run_code", code="require('moment')", language="node")
    advice = reply.text.rpartition("\nnext: ")[2]
    ((claim, said),) = read(advice)
    assert claim.sources == ("hint: no_node_module",)
    assert "There are lodash." in advice
    probe(live, claim, said)


@pytest.mark.verify
def test_an_image_is_looked_into_once(python: str) -> None:
    """The same object comes back, with all that the box was asked."""
    found = image_inventory(python)
    assert found is not None
    assert found.python_version
    assert found.languages == ("python", "bash", "sh")
    assert found.programs == ("pip",)
    assert image_inventory(python) is found


def test_what_each_image_has_is_found(busybox: str, node: str, shell_less: str) -> None:
    """By its shell, or program by program where it has none."""
    assert image_inventory(f"{busybox}-not-pulled") is None
    for image in (busybox, node, shell_less):
        ensure_image(image)
    found = image_inventory(busybox)
    assert found is not None
    assert (found.languages, found.packages) == (("sh",), ())
    assert "git" not in found.programs
    assert image_inventory(node) == Inventory(languages=("node",))
    assert image_inventory(shell_less) == Inventory()


def test_an_image_that_does_not_answer_is_hoped_for(registry: Registry) -> None:
    """Its Python is none; nothing is promised, and it is not asked for every call."""
    layer = joined(busybox_layer(("sh", "echo")), {"bin/python3": b"#!/bin/sh\necho 3"})
    registry.push("strange", layer)
    image = f"{registry.host}/strange:1"
    ensure_image(image)
    assert image_inventory(image) is None
    assert image_inventory(image) is None


def test_an_absent_image_is_hoped_for(registry: Registry) -> None:
    """A pool opens nothing to describe its sandboxes, and does not promise."""
    with SandboxPool(image=f"{registry.host}/never-pulled:1") as pool:
        facts = pool.describe()
        assert not facts.looked_into
        assert "as far as the image has them" in pool.system_prompt()


@pytest.mark.parametrize("program", ["sh", "bash"])
def test_a_program_that_refuses_to_answer_is_hoped_for(
    registry: Registry, program: str
) -> None:
    """What an image has is not told by halves where one of its programs fails."""
    refuses = {f"bin/{program}": b"#!/bin/false"}
    registry.push(f"refuses-{program}", joined(busybox_layer(("false",)), refuses))
    image = f"{registry.host}/refuses-{program}:1"
    ensure_image(image)
    assert image_inventory(image) is None


def test_an_image_that_takes_too_long_to_answer_is_hoped_for(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for ever to hear what it has."""
    registry.push("silent", busybox_layer(("sh", "echo", "cat")))
    image = f"{registry.host}/silent:1"
    ensure_image(image)
    monkeypatch.setattr(inventory, "_WAIT_S", 1e-6)
    assert image_inventory(image) is None
