"""What the `setup` option installed, as the boxes of one sandbox see it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from .image_store import image_environment
from .mounts import DEPS, Mount
from .ownership import discard_folder, owned_folder
from .uses import Use

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""kern's own, where neither the image nor `env` sets one."""
_NODE_FOLDERS = ("node_modules", "lib/node_modules")
_INSTALLED = re.compile(r"(?P<name>.+)-(?P<version>[^-]+)\.dist-info")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deps:
    """One folder of installed things.

    Attributes:
        root: The folder on the host.
        read_only: Code cannot change it.
        copy: The folder around it, removed by `close`; None for one that is shared.
        used: Keeps a shared one from being removed, until `close`.
    """

    root: Path
    read_only: bool = True
    copy: Path | None = None
    used: Use | None = None

    def copied(self) -> Self:
        """Copy it for one sandbox, whose code may change it, and close it.

        Raises:
            OSError: There is no room.
        """
        folder = owned_folder("deps")
        try:
            root = folder / "deps"
            shutil.copytree(self.root, root, symlinks=True)
        except BaseException:
            discard_folder(folder)
            raise
        finally:
            self.close()
        return type(self)(root=root, read_only=False, copy=folder)

    def close(self) -> None:
        """Remove a copy, and use a shared one no longer."""
        if self.copy is not None:
            discard_folder(self.copy)
        if self.used is not None:
            self.used.close()

    def mount(self) -> Mount:
        """Give the mount for a box."""
        return Mount(self.root, DEPS, self.read_only)

    def environment(self, env: Mapping[str, str], image: str) -> dict[str, str]:
        """Give the variables by which programs find what is installed.

        Args:
            env: What the box is given besides.
            image: The reference of its image, which may set a `PATH`.
        """
        path = env.get("PATH") or image_environment(image).get("PATH") or _PATH
        found = {
            "KERN_DEPS": DEPS,
            "PATH": f"{DEPS}/bin:{path}",
            "PYTHONPATH": _joined(env.get("PYTHONPATH"), DEPS),
        }
        nodes = [name for name in _NODE_FOLDERS if (self.root / name).is_dir()]
        if nodes:
            places = (f"{DEPS}/{name}" for name in nodes)
            found["NODE_PATH"] = _joined(env.get("NODE_PATH"), *places)
        return found

    def packages(self) -> tuple[tuple[str, str], ...]:
        """Give name and version of the Python distributions in it, sorted."""
        found = (_INSTALLED.fullmatch(path.name) for path in self.root.iterdir())
        return tuple(sorted((m["name"], m["version"]) for m in found if m))

    def programs(self) -> tuple[str, ...]:
        """Give the names of the programs in it, sorted."""
        folder = self.root / "bin"
        paths = folder.iterdir() if folder.is_dir() else ()
        return tuple(sorted(path.name for path in paths if os.access(path, os.X_OK)))

    def node_packages(self) -> tuple[str, ...]:
        """Give the names of the packages for Node in it, sorted."""
        folders = (self.root / name for name in _NODE_FOLDERS)
        found = (path for folder in folders for path in folder.glob("[!.@]*"))
        scoped = (path for folder in folders for path in folder.glob("@*/[!.]*"))
        names = {path.name for path in found}
        names |= {f"{path.parent.name}/{path.name}" for path in scoped}
        return tuple(sorted(names))


def _joined(first: str | None, *more: str) -> str:
    return ":".join([first, *more] if first else more)
