"""pip, carried into the image so that a sandbox with a network can install."""

from __future__ import annotations

import sysconfig
import zipfile
from pathlib import Path

from .host_python import HostPython
from .rootfs import Tree

_START = """#!/usr/local/bin/{python}
from pip._internal.cli.main import main
raise SystemExit(main())
"""


def add_pip(tree: Tree, python: HostPython) -> None:
    """Copy the interpreter's own pip, or unpack the wheel it came with.

    Where the host has neither, the image has no pip.
    """
    site = f"{python.home}/site-packages"
    folder = python.stdlib / "site-packages" / "pip"
    wheel = _wheel(python)
    if folder.is_dir():
        tree.copy_folder(f"{site}/pip", folder)
    elif wheel is not None:
        _unpack(tree, site, wheel)
    else:
        return
    tree.write("usr/local/bin/pip", _START.format(python=python.name).encode(), 0o755)
    tree.link("usr/local/bin/pip3", "pip")


def _wheel(python: HostPython) -> Path | None:
    # Debian keeps the wheels of `ensurepip` apart, at WHEEL_PKG_DIR.
    places = (
        python.stdlib / "ensurepip" / "_bundled",
        Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or "/none"),
    )
    wheels = [wheel for place in places for wheel in sorted(place.glob("pip-*.whl"))]
    return wheels[-1] if wheels else None


def _unpack(tree: Tree, site: str, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                tree.write(f"{site}/{member.filename}", archive.read(member))
