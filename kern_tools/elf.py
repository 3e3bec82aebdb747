"""What native programs and libraries need in order to load."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .faults import HostError

_FILES_A_RUN = 200


@dataclass(frozen=True, slots=True)
class Libraries:
    """What `ldd` found for a set of files."""

    by_name: dict[str, Path] = field(default_factory=dict[str, Path])
    """The name that programs ask for, such as `libz.so.1`, to the file on the host."""
    loaders: frozenset[Path] = frozenset()
    """The dynamic loader, by the absolute path that is compiled into programs."""

    @property
    def trusted(self) -> Path:
        """The directory that the loader searches by itself: where libc lives.

        Raises:
            HostError: No program here uses the GNU C library.
        """
        libc = self.by_name.get("libc.so.6")
        if libc is None:
            raise HostError(
                "the image of the host's Python needs the GNU C library, and this"
                " Python does not use it (musl, or linked statically): pass an image"
                " reference such as image='python:3.12-slim'",
                code="no_libc",
            )
        return libc.parent


def is_elf(path: Path) -> bool:
    """Return whether `path` is a native program or library."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def libraries_of(paths: Sequence[Path]) -> Libraries:
    """Return every library that the given native files load, and theirs in turn.

    Args:
        paths: Native programs and libraries; a name that cannot be found is left out,
            as the file does not load on the host either.

    Returns:
        The libraries as the host's own loader resolves them.

    Raises:
        HostError: There is no `ldd` here.
    """
    by_name: dict[str, Path] = {}
    loaders: set[Path] = set()
    for start in range(0, len(paths), _FILES_A_RUN):
        for line in _ldd(paths[start : start + _FILES_A_RUN]):
            name, arrow, rest = line.strip().partition(" => ")
            path = (rest if arrow else name).partition(" (")[0].strip()
            if not path.startswith("/") or "(" not in line:
                continue
            if arrow:
                by_name.setdefault(Path(name).name, Path(path))
            else:
                loaders.add(Path(path))
    return Libraries(by_name, frozenset(loaders))


def strip_symbols(paths: Iterable[Path]) -> None:
    """Drop debug symbols from `paths`, where this host has `strip`.

    A file that `strip` does not understand stays as it was.
    """
    files = list(paths)
    tool = shutil.which("strip")
    if tool is not None and files:
        subprocess.run(
            [tool, "--strip-unneeded", "-p", *files],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )


def _ldd(paths: Sequence[Path]) -> list[str]:
    tool = shutil.which("ldd")
    if tool is None:
        raise HostError(
            "the image of the host's Python needs the `ldd` program, which is not on"
            " PATH: install it (package libc-bin or glibc-common), or pass an image"
            " reference",
            code="no_ldd",
        )
    answer = subprocess.run(
        [tool, *paths],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        env={**os.environ, "LC_ALL": "C"},
        check=False,
    )
    return answer.stdout.splitlines()
