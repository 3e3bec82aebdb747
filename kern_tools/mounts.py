"""The mount policy: which host paths a box may be given, and where it may see them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import cast

from .faults import ConfigError, MountRefused
from .names import BOX_ROOT
from .refusals import Place, credential_below, credential_in, refused_places

DEPS = "/opt/kern-deps"
"""Where every box sees what the `setup` option installed."""

_OWN_TREES = ("/proc", "/sys", "/dev", f"{BOX_ROOT}/.kern", DEPS)
_NARROWER = "name a directory inside it that holds only what the job needs"
_ONE_FILE = "write the one file that the job needs into the workspace instead"
_ELSEWHERE = "choose a path such as '/data'"


@dataclass(frozen=True)
class Mount:
    """One host path as a box sees it; made by `check_mount`.

    Attributes:
        source: Absolute host path of a file or directory, links resolved.
        target: Absolute path in the box, in its shortest spelling.
        read_only: The box cannot write through it.
    """

    source: Path
    target: str
    read_only: bool


def check_mounts(mounts: object) -> tuple[Mount, ...]:
    """Check the `mounts` option.

    Args:
        mounts: `{source: target}` or `{source: (target, "ro" or "rw")}`.

    Returns:
        The mounts, a target before those below it: kern mounts in this order, and a
        later mount hides what lies under its target.

    Raises:
        ConfigError: The option has another shape.
        MountRefused: The policy refuses a source or a target, or one target comes
            twice.
    """
    if not isinstance(mounts, Mapping):
        raise ConfigError(
            f"mounts={mounts!r} is not a mapping; write mounts={{'/host/dir': '/data'}}"
            " or {} for none",
            option="mounts",
        )
    pairs = cast("Mapping[object, object]", mounts).items()
    checked = [_mount_of(source, spec) for source, spec in pairs]
    seen: set[str] = set()
    for mount in checked:
        if mount.target in seen:
            subject = f"mount target {mount.target!r}"
            raise _refusal(subject, "is given twice", "use each target once", "mounts")
        seen.add(mount.target)
    return tuple(sorted(checked, key=lambda mount: mount.target.count("/")))


def check_mount(
    source: str | os.PathLike[str], target: str, read_only: bool = False
) -> Mount:
    """Check one mount against the policy.

    Args:
        source: Absolute host path; it must exist, and its links are followed first.
        target: Absolute path in the box.
        read_only: Whether the box may only read.

    Returns:
        The mount with its source resolved and its target in the shortest spelling.

    Raises:
        MountRefused: The source does not exist, is or contains something that
            defeats the isolation, or the target hides a place that the box needs.
    """
    real, subject = _resolve(source, "mount source", "mounts")
    _check_place(real, subject, "mounts")
    _check_kind(real, subject)
    held = credential_below(real)
    if held is not None:
        why = f"is refused: it contains {held!r}, which gives away credentials"
        raise _refusal(subject, why, _NARROWER, "mounts")
    return Mount(Path(real), check_target(target, "mounts"), read_only)


def check_workspace(path: str | os.PathLike[str]) -> Path:
    """Check a host directory that is to be the workspace.

    The directory may be absent. What it holds is not looked at: in a workspace that
    is kept, the boxes themselves may have written it.

    Args:
        path: Absolute host path.

    Returns:
        The path with its links resolved.

    Raises:
        MountRefused: The path is no directory, or the mount policy refuses it.
    """
    real, subject = _resolve(path, "workspace", "workspace")
    _check_place(real, subject, "workspace")
    if os.path.lexists(real) and not Path(real).is_dir():
        remedy = "name a directory, or a path that does not exist yet"
        raise _refusal(subject, "is not a directory", remedy, "workspace")
    return Path(real)


def check_target(target: object, option: str) -> str:
    """Check a path in the box and return its shortest spelling.

    Args:
        target: Absolute path in the box.
        option: The option it comes from, `mounts` or `tmpfs`.

    Raises:
        MountRefused: The path is relative, goes up, or hides a place the box needs.
    """
    subject = f"{'tmpfs path' if option == 'tmpfs' else 'mount target'} {target!r}"
    if not isinstance(target, str) or not target.startswith("/"):
        why = "is not an absolute path in the box"
        raise _refusal(subject, why, _ELSEWHERE, option)
    _check_spelling(target, subject, option)
    if ".." in target.split("/"):
        raise _refusal(subject, "goes up with '..'", _ELSEWHERE, option)
    path = "/" + str(PurePosixPath(target)).lstrip("/")
    own = _own_place(path)
    if own is not None:
        why = f"would hide {own!r}, which the box needs as it is"
        raise _refusal(subject, why, _ELSEWHERE, option)
    return path


def _own_place(path: str) -> str | None:
    if path in ("/", BOX_ROOT):
        return path
    if path == "/dev/shm":  # kern takes a bind here, instead of its own mount
        return None
    return next((own for own in _OWN_TREES if _is_at_or_below(path, own)), None)


def _mount_of(source: object, spec: object) -> Mount:
    match source, spec:
        case str() | os.PathLike(), str() as target:
            return check_mount(cast("str", source), target)
        case str() | os.PathLike(), (str() as target, "ro"):
            return check_mount(cast("str", source), target, read_only=True)
        case str() | os.PathLike(), (str() as target, "rw"):
            return check_mount(cast("str", source), target)
        case _:
            raise ConfigError(
                f"mounts={{{source!r}: {spec!r}}} is not a host path and a target;"
                " write {'/host/dir': '/data'}, or {'/host/dir': ('/data', 'ro')}",
                option="mounts",
            )


def _resolve(path: object, noun: str, option: str) -> tuple[str, str]:
    """Follow the links of a host path.

    Returns:
        The real path, and both spellings as an error names them.
    """
    is_path = isinstance(path, str | os.PathLike)
    given = os.fspath(cast("str", path)) if is_path else path
    subject = f"{noun} {given!r}"
    if not isinstance(given, str) or not given.startswith("/"):
        why = "is not an absolute host path"
        remedy = "write it as a str, from the root ('~' is not expanded)"
        raise _refusal(subject, why, remedy, option)
    _check_spelling(given, subject, option)
    real = os.path.realpath(given)
    if real != os.path.normpath(given):
        subject += f", which leads to {real!r},"
    _check_spelling(real, subject, option)
    return real, subject


def _check_spelling(path: str, subject: str, option: str) -> None:
    # kern reads `--mount` as fields between commas, and trims each.
    odd = any(ord(c) < 32 or "\ud800" <= c <= "\udfff" for c in path)
    if odd or "," in path or path != path.strip():
        why = "holds a comma, a control character, a byte that is not UTF-8, or a space"
        why += " at an end"
        remedy = "rename it: kern cannot be told such a path"
        raise _refusal(subject, why, remedy, option)


def _check_place(real: str, subject: str, option: str) -> None:
    name = credential_in(PurePosixPath(real).parts)
    if name is not None:
        why = f"is refused: {name!r} gives away credentials or control of the host"
        raise _refusal(subject, why, _ONE_FILE, option)
    places = refused_places()
    around = [place for place in places if _is_at_or_below(real, place.path)]
    # The closest one decides: /dev is refused as a tree, but not what is in /dev/shm.
    closest = max(around, key=lambda place: len(place.path))
    if closest.reach == "tree" or closest.path == real:
        raise _place_refusal(real, closest, subject, option)
    for place in places:
        if _is_at_or_below(place.path, real):
            raise _place_refusal(real, place, subject, option)


def _place_refusal(real: str, place: Place, subject: str, option: str) -> MountRefused:
    if place.path == real:
        why = f"it is {place.what}"
    elif _is_at_or_below(place.path, real):
        why = f"it contains {place.path!r}, {place.what}"
    else:
        why = f"it lies in {place.path!r}, {place.what}"
    inside = place.reach == "tree" and _is_at_or_below(real, place.path)
    remedy = _ONE_FILE if inside else _NARROWER
    return _refusal(subject, f"is refused: {why}", remedy, option)


def _check_kind(real: str, subject: str) -> None:
    try:
        mode = Path(real).stat().st_mode
    except OSError as error:
        why = f"cannot be mounted ({error.strerror})"
        raise _refusal(subject, why, "name a path that exists", "mounts") from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        why = "is neither a directory nor a regular file"
        raise _refusal(subject, why, "mount only those", "mounts")


def _refusal(subject: str, why: str, remedy: str, option: str) -> MountRefused:
    return MountRefused(f"{subject} {why}; {remedy}", option=option)


def _is_at_or_below(path: str, root: str) -> bool:
    return root == "/" or path == root or path.startswith(f"{root}/")
