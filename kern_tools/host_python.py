"""The interpreter that runs this program, as files to carry into an image."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .rootfs import Tree

_LEFT_OUT_FOLDERS = (
    "test tests idlelib tkinter turtledemo ensurepip site-packages dist-packages"
    " __phello__ __pycache__ lib-dynload"
)
_LEFT_OUT_FILES = frozenset({"turtle.py", "EXTERNALLY-MANAGED"})
_LEFT_OUT_SUFFIXES = (".pyc", ".a", ".o", ".orig")
_LEFT_OUT_MODULES = ("_test", "_ctypes_test", "_xx", "xx", "_tkinter")
_PIP = """#!/usr/local/bin/{python}
from pip._internal.cli.main import main
raise SystemExit(main())
"""


@dataclass(frozen=True, slots=True)
class HostPython:
    """Where the parts of the running interpreter are."""

    executable: Path
    """The program itself: not a link, not a virtual environment's copy."""
    stdlib: Path
    """The directory of `os.py`."""
    extensions: Path
    """The directory of the standard library's native modules."""
    version: str
    """Such as `3.12.1`."""

    @property
    def name(self) -> str:
        """The program's name, such as `python3.12`."""
        return f"python{sys.version_info[0]}.{sys.version_info[1]}"

    @property
    def home(self) -> str:
        """Where its library goes inside the image."""
        return f"usr/local/lib/{self.name}"

    def key(self) -> str:
        """Return a hash that changes when this interpreter does; only stats files."""
        library = Path(
            sysconfig.get_config_var("LIBDIR") or "/",
            sysconfig.get_config_var("INSTSONAME") or "none",
        )
        files = (
            self.executable,
            self.stdlib / "os.py",
            self.stdlib,
            self.extensions,
            library,
        )
        facts = [
            self.version,
            str(sys.implementation.cache_tag),
            platform.machine(),
            _libc(),
            *(_stamp(path) for path in files if path.exists()),
        ]
        return hashlib.sha256("\n".join(facts).encode()).hexdigest()

    def native(self) -> list[Path]:
        """Return the native files that `copy_into` copies, as they are on the host."""
        modules = sorted(self.extensions.glob("*.so"))
        wanted = [p for p in modules if not p.name.startswith(_LEFT_OUT_MODULES)]
        return [self.executable, *wanted]

    def copy_into(self, tree: Tree) -> None:
        """Lay the interpreter and its library out in `tree`."""
        tree.copy(f"usr/local/bin/{self.name}", self.executable, 0o755)
        for alias in ("python3", "python"):
            tree.link(f"usr/local/bin/{alias}", self.name)
        for path in self._sources():
            tree.copy_python(f"{self.home}/{path.relative_to(self.stdlib)}", path)
        for path in self.native()[1:]:
            tree.copy(f"{self.home}/lib-dynload/{path.name}", path)
        tree.folder(f"{self.home}/site-packages")
        if "deb_system" in sysconfig.get_scheme_names():
            # Debian's Python searches dist-packages alone.
            tree.link(
                "usr/local/lib/python3/dist-packages", f"../{self.name}/site-packages"
            )

    def copy_pip_into(self, tree: Tree) -> None:
        """Copy the interpreter's own pip, or unpack the wheel it came with.

        A sandbox with a network can then install. Where the host has neither, the
        image has no pip.
        """
        site = f"{self.home}/site-packages"
        folder = self.stdlib / "site-packages" / "pip"
        wheel = _pip_wheel(self.stdlib)
        if folder.is_dir():
            tree.copy_folder(f"{site}/pip", folder)
        elif wheel is not None:
            _unpack(tree, site, wheel)
        else:
            return
        tree.write("usr/local/bin/pip", _PIP.format(python=self.name).encode(), 0o755)
        tree.link("usr/local/bin/pip3", "pip")

    def _sources(self) -> Iterator[Path]:
        for folder, names, files in os.walk(self.stdlib):
            names[:] = [
                name
                for name in names
                if name not in _LEFT_OUT_FOLDERS.split()
                and not name.startswith("config-")
            ]
            for name in files:
                path = Path(folder, name)
                unwanted = name in _LEFT_OUT_FILES or name.endswith(_LEFT_OUT_SUFFIXES)
                if not unwanted and path.is_file():
                    yield path


@functools.cache
def host_python() -> HostPython:
    """Return the interpreter that runs this program, or the one behind its venv."""
    base = str(getattr(sys, "_base_executable", "") or sys.executable)
    stdlib = Path(sysconfig.get_path("stdlib")).resolve()
    extensions = Path(sysconfig.get_config_var("DESTSHARED") or stdlib / "lib-dynload")
    if not extensions.is_dir():
        extensions = stdlib / "lib-dynload"
    return HostPython(
        executable=Path(base).resolve(),
        stdlib=stdlib,
        extensions=extensions.resolve(),
        version=platform.python_version(),
    )


@functools.cache
def _libc() -> str:
    return "-".join(platform.libc_ver())


def _stamp(path: Path) -> str:
    stat = path.stat()
    return f"{path.resolve()}:{stat.st_size}:{stat.st_mtime_ns}"


def _pip_wheel(stdlib: Path) -> Path | None:
    # Debian keeps the wheels of `ensurepip` apart, at WHEEL_PKG_DIR.
    places = (
        stdlib / "ensurepip" / "_bundled",
        Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or "/none"),
    )
    wheels = [wheel for place in places for wheel in sorted(place.glob("pip-*.whl"))]
    return wheels[-1] if wheels else None


def _unpack(tree: Tree, site: str, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                tree.write(f"{site}/{member.filename}", archive.read(member))
