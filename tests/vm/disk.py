"""What the guest boots from: a root disk made rarely, a memory disk made each time."""

from __future__ import annotations

import compileall
import hashlib
import json
import os
import platform
import py_compile
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from kern_tools.binary import find_kern, kern_version
from kern_tools.elf import libraries_of
from tests.debian import CACHE, program, unpacked

HOUSE = Path(__file__).parent.parent.parent
VERSION = platform.python_version_tuple()
SITE = f"usr/local/lib/python{VERSION[0]}.{VERSION[1]}/site-packages"
BUILD = "from kern_tools.image import ensure_image; print(ensure_image().reference)"
DISK_BYTES = 1 << 30
MODULES = (
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_pci.ko",
    "drivers/block/virtio_blk.ko",
    "fs/overlayfs/overlay.ko",
)
ID_MAPS = ("newuidmap", "newgidmap")
ROOMS = {
    "kern_tools": "kern_tools",
    "adapters": "kern_tools/adapters",
    "prompts": "kern_tools/prompts",
}
TESTING = ("pytest", "pluggy", "iniconfig")
"""What the contracts need beside what the core depends on."""
ENVIRONMENT = """\
export PATH=/usr/local/bin:/usr/bin HOME=/root LANG=C.UTF-8 PYTHONPATH=/project/site
export XDG_RUNTIME_DIR=/run/user/0 IMAGE="$(/usr/bin/busybox cat /root/image)"
"""


def root_disk() -> Path:
    """Return an ext4 image of the guest's root, made when what it holds has changed.

    The root is the tree of the host image, which kern's cache inside it also offers to
    boxes, plus kern, busybox and the distributions that the core depends on.
    """
    shelf = CACHE / "vm"
    disk = shelf / f"root-{_key()}.ext4"
    if not disk.exists():
        shelf.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_roomy(), prefix="kern-vm-") as folder:
            root = Path(folder, "root")
            _fill(root, Path(folder))
            fresh = disk.with_suffix(f".{os.getpid()}")
            _format(root, fresh)
        for stale in shelf.glob("root-*.ext4"):
            stale.unlink()
        fresh.rename(disk)
    return disk


def memory_disk(kernel: Path, cases: Sequence[Path], target: Path) -> None:
    """Write the memory disk: modules up to the root disk, and the project as it is now.

    Args:
        kernel: The unpacked kernel package.
        cases: The Python files that the guest runs, in this order.
        target: The file to write.
    """
    guest = Path(__file__).parent / "guest"
    with tempfile.TemporaryDirectory(dir=_roomy(), prefix="kern-vm-") as folder:
        tree = Path(folder)
        made = "bin proc sys dev root modules project/site project/cases"
        for name in made.split():
            (tree / name).mkdir(parents=True)
        shutil.copy(_busybox(), tree / "bin/busybox")
        shutil.copy(guest / "init-disk", tree / "init")
        (tree / "init").chmod(0o755)
        (source,) = kernel.glob("lib/modules/*/kernel")
        for module in MODULES:
            shutil.copy(source / module, tree / "modules")
        (tree / "modules/order").write_text(
            "\n".join(Path(module).name for module in MODULES)
        )
        shutil.copy(guest / "init-root", tree / "project")
        for number, file in enumerate(cases):
            shutil.copy(file, tree / f"project/cases/{number:02}-{file.name}")
        (tree / "project/environment").write_text(ENVIRONMENT)
        _copy_project(tree / "project/site")
        _archive(tree, target)


def _key() -> str:
    parts = [platform.python_version(), sys.executable, kern_version(find_kern())]
    parts += [_busybox().parent.parent.name]
    parts += [f"{found.name}={found.version}" for found in _distributions()]
    makers = [Path(__file__), *sorted((HOUSE / "kern_tools").glob("*image*.py"))]
    parts += [maker.read_text() for maker in makers]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _busybox() -> Path:
    return unpacked("busybox-static") / "bin/busybox"


def _roomy() -> str | None:
    """Memory, where there is some: a busy disk takes seconds to delete a tree."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _fill(root: Path, folder: Path) -> None:
    _unpack_host_image(folder, root)
    (root / "project").mkdir()
    shutil.copy(_busybox(), root / "usr/bin/busybox")
    shutil.copy(find_kern(), root / "usr/local/bin/kern")
    _add_id_maps(root)
    for found in _distributions():
        _copy_files(found, root / SITE)


def _copy_files(found: metadata.Distribution, site: Path) -> None:
    for file in found.files or ():
        if ".." not in file.parts:
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(str(file.locate()), target)


def _add_id_maps(root: Path) -> None:
    """Add the programs by which boxes get accounts other than root."""
    programs = [unpacked("uidmap") / "usr/bin" / name for name in ID_MAPS]
    libraries = libraries_of(programs)
    for path in programs:
        shutil.copy(path, root / "usr/bin")
    folder = root / str(libraries.trusted).lstrip("/")
    for name, path in libraries.by_name.items():
        if not (folder / name).exists():
            shutil.copy(path.resolve(), folder / name)


def _unpack_host_image(folder: Path, root: Path) -> None:
    """Lay out the host image as a root whose own cache of kern holds that image."""
    cache = root / "root/.cache"
    cache.mkdir(parents=True)
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    reference = _output([sys.executable, "-c", BUILD], environment)
    (root / "root/image").write_text(reference)
    saved = folder / "saved"
    saved.mkdir()
    _output([find_kern(), "save", reference, "-o", folder / "saved.tar"], environment)
    _output(["tar", "-xf", folder / "saved.tar", "-C", saved], environment)
    (image,) = json.loads((saved / "manifest.json").read_text())
    for layer in image["Layers"]:
        _output(["tar", "-xf", saved / layer, "-C", root], environment)


def _output(command: Sequence[str | Path], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def _distributions() -> Iterator[metadata.Distribution]:
    """The project's own metadata, and every distribution that the core needs."""
    names, seen = ["kern-tools"], set[str]()
    while names:
        found = metadata.distribution(names.pop())
        if found.name in seen:
            continue
        seen.add(found.name)
        if found.name != "kern-sandbox":
            yield found
        for line in found.requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                names.append(needed.name)


def _copy_project(site: Path) -> None:
    for room, package in ROOMS.items():
        shutil.copytree(
            HOUSE / room,
            site / package,
            ignore=shutil.ignore_patterns("__pycache__"),
            dirs_exist_ok=True,
        )
    for name in TESTING:
        _copy_files(metadata.distribution(name), site)
    compileall.compile_dir(
        site,
        quiet=1,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


def _format(root: Path, target: Path) -> None:
    with target.open("wb") as file:
        file.truncate(DISK_BYTES)
    lazily = "lazy_itable_init=1,lazy_journal_init=1"
    subprocess.run(
        [
            program("mke2fs", package="e2fsprogs"),
            *("-q", "-t", "ext4", "-E", lazily, "-d", root, target),
        ],
        check=True,
    )


def _archive(tree: Path, target: Path) -> None:
    """Write `tree` in the one format that the kernel takes as a memory disk."""
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    with target.open("wb") as file:
        subprocess.run(
            [_busybox(), "cpio", "-o", "-H", "newc"],
            cwd=tree,
            input=names.encode(),
            stdout=file,
            stderr=subprocess.DEVNULL,
            check=True,
        )
