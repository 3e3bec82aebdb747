"""The host's image with installed distributions on top, copied and not downloaded."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from .elf import Libraries, is_elf, libraries_of
from .host_image import add_libraries, ensure_host_image, host_libraries
from .host_python import HostPython, host_python
from .image_store import (
    Progress,
    build_image,
    building,
    image_info,
    scratch_folder,
)
from .packages import Installed, installed, key_of
from .rootfs import Tree

REPOSITORY = "localhost/kern-tools/host-packages"
_LAYOUT = 1
"""Part of the key: raise it when the layout below changes."""


def ensure_package_image(
    packages: Sequence[str], progress: Progress | None = None
) -> str:
    """Return the reference of the host's image with `packages`, built where absent.

    Args:
        packages: Names of installed distributions, as for pip.
        progress: Told in one line what is going on, when it takes longer.

    Returns:
        The reference to give to `--image`.

    Raises:
        ConfigError: A distribution is not installed, or cannot be copied.
        HostError: This host's Python cannot be carried into an image.
        SandboxError: The build failed.
    """
    base = ensure_host_image(progress)
    found = _found(tuple(packages), _environment())
    key = hashlib.sha256(f"{_LAYOUT} {base} {key_of(found)}".encode()).hexdigest()
    reference = f"{REPOSITORY}:{host_python().version}-{key[:12]}"
    if image_info(reference) is not None:
        return reference
    with building(reference, progress):
        if image_info(reference) is None:
            if progress is not None:
                names = ", ".join(one.name for one in found)
                progress(f"building {reference} with {names}")
            _build(reference, base, found)
    return reference


@functools.lru_cache(maxsize=32)
def _found(packages: tuple[str, ...], environment: object) -> list[Installed]:
    return installed(packages)


def _environment() -> tuple[tuple[str, int], ...]:
    """Changes when a distribution is installed into or removed from `sys.path`."""
    folders = [Path(entry) for entry in sys.path if entry]
    return tuple((str(f), f.stat().st_mtime_ns) for f in folders if f.is_dir())


def _build(reference: str, base: str, distributions: Sequence[Installed]) -> None:
    python = host_python()
    need = sum(
        file.size or 0 for one in distributions for file in one.distribution.files or []
    )
    with scratch_folder(2 * need) as scratch:
        tree = Tree(scratch / "rootfs")
        native = [path for one in distributions for path in _copy(tree, one, python)]
        sites = {one.site for one in distributions}
        missing, trusted = _missing_libraries(native, sites)
        add_libraries(tree, missing, trusted)
        tree.compile(python.home, python.executable)
        names = " ".join(f"{one.name}=={one.version}" for one in distributions)
        recipe = (
            f"FROM {base}\n"
            "COPY rootfs/ /\n"
            f'LABEL dev.kern-tools.host="{python.version}"\n'
            f'LABEL dev.kern-tools.packages="{names}"\n'
        )
        build_image(reference, recipe, scratch)


def _copy(tree: Tree, one: Installed, python: HostPython) -> list[Path]:
    native: list[Path] = []
    for path, inside, in_site in one.files():
        if in_site:
            tree.copy_python(f"{python.home}/site-packages/{inside}", path)
        elif inside.startswith("bin/"):
            _copy_script(tree, f"usr/local/{inside}", path)
        else:
            tree.copy(f"usr/local/{inside}", path)
        likely = ".so" in path.name or not in_site or path.stat().st_mode & 0o111
        if likely and is_elf(path):
            native.append(path)
    return native


def _copy_script(tree: Tree, inside: str, path: Path) -> None:
    """Copy a program; a Python script names the host's interpreter, so rename it."""
    data = path.read_bytes()
    first, _, rest = data.partition(b"\n")
    if first.startswith(b"#!") and b"python" in first:
        data = b"#!/usr/local/bin/python3\n" + rest
    tree.write(inside, data, 0o755)


def _missing_libraries(
    native: Sequence[Path], sites: set[Path]
) -> tuple[Libraries, Path]:
    """What the distributions load from outside, that the host's image lacks."""
    base = host_libraries()
    by_name = {
        name: path
        for name, path in libraries_of(native).by_name.items()
        if not any(path.resolve().is_relative_to(site) for site in sites)
        and (name not in base.by_name or not path.samefile(base.by_name[name]))
    }
    return Libraries(by_name), base.trusted
