"""Debian packages for tests: programs to install, trees to unpack without root."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

CACHE = Path(__file__).parent.parent / ".cache"
"""Where tests keep what is costly to make; git ignores it, and it may be deleted."""


def program(name: str, *, package: str) -> Path:
    """Return the path of a program, installing its package where it is missing.

    Args:
        name: The program, searched on PATH and in `/usr/sbin`.
        package: The package that carries it.

    Raises:
        RuntimeError: It is missing, and this user may not install packages.
    """
    found = _which(name)
    if found is None:
        _install(package)
        found = _which(name)
    if found is None:
        raise RuntimeError(f"package {package!r} does not carry {name!r}")
    return found


def unpacked(package: str) -> Path:
    """Return the tree of a package, fetched and unpacked once, without installing it.

    Args:
        package: The name of a package of this machine's Debian release.

    Raises:
        RuntimeError: apt-get is missing or cannot fetch the package.
    """
    shelf = CACHE / "debian"
    known = sorted(shelf.glob(f"{package}_*"))
    return known[-1] if known else _fetch(package, shelf)


def carried(name: str, *, package: str) -> Path:
    """Return the path of a program: from PATH, else out of its unpacked package.

    Args:
        name: The program, which needs no files but its own to run.
        package: The package that carries it.
    """
    return _which(name) or unpacked(package) / "usr/bin" / name


def dependency(metapackage: str) -> str:
    """Return the first package that `metapackage` stands for, such as a kernel's."""
    _know(metapackage)
    shown = _apt("apt-cache", "depends", metapackage)
    for line in shown.splitlines():
        word, _, name = line.strip().partition("Depends: ")
        if not word and name:
            return name
    raise RuntimeError(f"package {metapackage!r} depends on nothing: {shown!r}")


def _which(name: str) -> Path | None:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    return None if found is None else Path(found)


def _install(package: str) -> None:
    _know(package)
    _apt("apt-get", "install", "-y", "-qq", "--no-install-recommends", package)


def _fetch(package: str, shelf: Path) -> Path:
    _know(package)
    shelf.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=shelf, prefix=".new-") as folder:
        as_root = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
        _apt("apt-get", "download", "-qq", *as_root, package, cwd=folder)
        (archive,) = Path(folder).glob("*.deb")
        tree = Path(folder, "tree")
        _apt("dpkg", "-x", str(archive), str(tree))
        target = shelf / archive.stem
        if not target.exists():
            tree.rename(target)
    return target


def _know(package: str) -> None:
    """Bring in the package lists where they do not name `package`."""
    if "Version:" not in _apt("apt-cache", "show", package, check=False):
        _apt("apt-get", "update", "-qq")


def _apt(*command: str, check: bool = True, cwd: str | None = None) -> str:
    if shutil.which(command[0]) is None:
        raise RuntimeError(
            f"{command[0]!r} was not found: these tests fetch Debian packages, so run"
            " them on Debian or a system derived from it"
        )
    done = subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"},
    )
    if check and done.returncode != 0:
        remedy = "" if os.geteuid() == 0 else "; run that once as root"
        raise RuntimeError(
            f"{' '.join(command)!r} failed with exit {done.returncode}:"
            f" {(done.stderr or done.stdout).strip()[-500:]!r}{remedy}"
        )
    return done.stdout
