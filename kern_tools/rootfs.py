"""A file tree under construction, to become one layer of an image."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from .elf import is_elf, strip_symbols

_WORTH_STRIPPING_BYTES = 65536
_OWN_TESTS = r"/site-packages/.+/tests/"
"""Half of pandas, and seldom imported; what is, each box compiles for itself."""


class Tree:
    """Files laid out under `root`, by their paths inside the image."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.native: list[Path] = []
        """Native files large enough that their symbols weigh."""
        self.uncompiled = 0
        """Python sources copied without compiled code beside them."""
        root.mkdir(parents=True, exist_ok=True)

    def folder(self, inside: str, mode: int = 0o755) -> None:
        """Make a directory and its parents."""
        path = self.root / inside
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(mode)

    def link(self, inside: str, target: str) -> None:
        """Make a symbolic link, unless the name is taken."""
        path = self._place(inside)
        if not os.path.lexists(path):
            path.symlink_to(target)

    def write(self, inside: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file."""
        path = self._place(inside)
        path.write_bytes(data)
        path.chmod(mode)

    def copy(self, inside: str, source: Path, mode: int | None = None) -> None:
        """Copy a file of the host, with its times, so that `.pyc` files stay valid."""
        path = self._place(inside)
        path.unlink(missing_ok=True)
        shutil.copyfile(source, path)
        stat = source.stat()
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        path.chmod(mode or (0o755 if stat.st_mode & 0o111 else 0o644))
        if stat.st_size > _WORTH_STRIPPING_BYTES and is_elf(path):
            self.native.append(path)

    def copy_python(self, inside: str, source: Path) -> None:
        """Copy a file, and where it is Python source its compiled code too."""
        self.copy(inside, source)
        if source.suffix != ".py":
            return
        compiled = Path(importlib.util.cache_from_source(str(source)))
        if _is_current(compiled, source):
            folder = Path(inside).parent / "__pycache__"
            self.copy(str(folder / compiled.name), compiled)
        else:
            self.uncompiled += 1

    def copy_folder(self, inside: str, source: Path) -> None:
        """Copy all regular files below a directory, except compiled code."""
        for folder, names, files in os.walk(source):
            names[:] = [name for name in names if name != "__pycache__"]
            below = Path(inside) / Path(folder).relative_to(source)
            for name in files:
                self.copy_python(str(below / name), Path(folder) / name)

    def compile(self, inside: str, python: Path) -> None:
        """Compile the sources below `inside` that came without compiled code.

        The tests of installed packages stay as they are.

        Args:
            inside: A directory of the tree.
            python: The interpreter that the image holds.
        """
        if self.uncompiled == 0:
            return
        # Templates and test data with syntax errors are usual, and stay uncompiled.
        subprocess.run(
            [
                *(python, "-I", "-m", "compileall", "-q", "-j", "0"),
                *("--invalidation-mode", "unchecked-hash", "-x", _OWN_TESTS),
                *("-s", self.root, "-p", "/", self.root / inside),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )

    def strip(self) -> None:
        """Drop the debug symbols of the native files."""
        strip_symbols(self.native)

    def _place(self, inside: str) -> Path:
        path = self.root / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def _is_current(compiled: Path, source: Path) -> bool:
    """Whether Python would take `compiled` for `source` as it is.

    Source: PEP 552, the header of a `.pyc`.
    """
    try:
        with compiled.open("rb") as file:
            header = file.read(16)
    except OSError:
        return False
    if header[:4] != importlib.util.MAGIC_NUMBER or len(header) < 16:
        return False
    if header[4:8] != bytes(4):
        return True
    stat = source.stat()
    times = (int(stat.st_mtime) & 0xFFFFFFFF, stat.st_size & 0xFFFFFFFF)
    return header[8:] == b"".join(number.to_bytes(4, "little") for number in times)
