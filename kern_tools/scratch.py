"""The memory-backed scratch of a box: the `tmpfs` option, checked and completed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import cast

from .faults import MountRefused
from .mounts import Mount, check_target

DEFAULT_TMPFS_MB = 64
"""Size in MiB of the scratch at /tmp that every box has unless told otherwise."""
TOOLCHAIN_TMPFS_MB = 512
"""The same where `toolchain` is set: compilers and package managers unpack there."""

_SIZE = r"([1-9][0-9]{0,8})([kmgtKMGT])"
_KIB = {"k": 1, "m": 1 << 10, "g": 1 << 20, "t": 1 << 30}


def check_tmpfs(
    tmpfs: object,
    *,
    memory_mb: int | None,
    mounts: Iterable[Mount],
    hardened: bool,
    default_mb: int = DEFAULT_TMPFS_MB,
) -> dict[str, str]:
    """Check the `tmpfs` option and complete it with the default.

    Args:
        tmpfs: None for the default, or `{path: size}` with sizes such as `64m`.
        memory_mb: The memory cap in MiB, to which scratch is charged.
        mounts: The mounts of the same box; scratch may not hide one.
        hardened: A security profile is set, so that the default steps aside.
        default_mb: Size of the default, unless half of `memory_mb` is less.

    Returns:
        Path to size, as `kern box --tmpfs path:size` takes them; a path before those
        below it.

    Raises:
        MountRefused: A path or a size cannot be used; the message says why.
    """
    targets = [mount.target for mount in mounts]
    if tmpfs is None:
        sizes = {} if hardened or "/tmp" in targets else _default(default_mb, memory_mb)
    else:
        sizes = _explicit(tmpfs, memory_mb)
    for path in sizes:
        _check_hides_nothing(path, targets)
    return dict(sorted(sizes.items(), key=lambda item: item[0].count("/")))


def _default(default_mb: int, memory_mb: int | None) -> dict[str, str]:
    # Filling scratch as large as the cap kills the box, where half of it is ENOSPC.
    size_mb = default_mb if memory_mb is None else memory_mb // 2
    return {"/tmp": f"{min(default_mb, size_mb)}m"}


def _explicit(tmpfs: object, memory_mb: int | None) -> dict[str, str]:
    if not isinstance(tmpfs, Mapping):
        raise MountRefused(
            f"tmpfs={tmpfs!r} is not a mapping of path to size; write"
            f" tmpfs={{'/tmp': '{DEFAULT_TMPFS_MB}m'}}, or {{}} for none",
            option="tmpfs",
        )
    sizes: dict[str, str] = {}
    for target, size in cast("Mapping[object, object]", tmpfs).items():
        path = _check_path(target)
        if path in sizes:
            raise MountRefused(
                f"tmpfs {path!r} is given twice; use each path once", option="tmpfs"
            )
        sizes[path] = _check_size(path, size, memory_mb)
    return sizes


def _check_path(target: object) -> str:
    path = check_target(target, "tmpfs")
    if ":" in path:
        raise MountRefused(
            f"tmpfs {path!r} holds ':', after which kern reads a size; choose a path"
            " without it and give the size as the value",
            option="tmpfs",
        )
    if path == "/dev/shm":
        raise MountRefused(
            "tmpfs '/dev/shm' is refused: kern sizes it to the memory cap; raise"
            " memory_mb",
            option="tmpfs",
        )
    return path


def _check_size(path: str, size: object, memory_mb: int | None) -> str:
    match = re.fullmatch(_SIZE, size) if isinstance(size, str) else None
    if match is None:
        raise MountRefused(
            f"tmpfs size {size!r} of {path!r} {_why_bad(size)}; write a number with"
            f" its unit k, m, g or t, such as '{DEFAULT_TMPFS_MB}m'",
            option="tmpfs",
        )
    number, unit = match.groups()
    if memory_mb is not None and int(number) * _KIB[unit.lower()] > memory_mb << 10:
        raise MountRefused(
            f"tmpfs size {size!r} of {path!r} is larger than memory_mb={memory_mb}, to"
            " which it is charged: code would be told of room that kills it; lower the"
            " size or raise memory_mb",
            option="tmpfs",
        )
    return match.group()


def _why_bad(size: object) -> str:
    if not isinstance(size, str):
        return "is not a str"
    if not size.isdecimal():
        return "is not a size"
    if size.strip("0"):
        return "has no unit, and kern would read bytes"
    return "means unlimited to kern"


def _check_hides_nothing(path: str, targets: list[str]) -> None:
    for target in targets:
        if target == path or target.startswith(f"{path}/"):
            raise MountRefused(
                f"tmpfs {path!r} would hide the mount at {target!r}, because scratch"
                " is mounted last; move the mount, or leave this path out of tmpfs"
                " (tmpfs={} for no scratch at all)",
                option="tmpfs",
            )
