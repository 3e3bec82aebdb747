"""Installed distributions and what they need, read from the running environment."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from .faults import ConfigError

_PREFIX_FOLDERS = frozenset({"bin", "share", "etc"})


@dataclass(frozen=True, slots=True)
class Installed:
    """One distribution, with the files that its installer recorded."""

    name: str
    version: str
    record: str
    """The text of its RECORD, which holds the hash of every file."""
    distribution: metadata.Distribution

    @property
    def site(self) -> Path:
        """The directory on `sys.path` that it is installed into."""
        return Path(str(self.distribution.locate_file(""))).resolve()

    def files(self) -> Iterator[tuple[Path, str, bool]]:
        """Yield its files.

        Yields:
            The file on the host, its path below `site` or below the prefix, and whether
            it is below `site`.
        """
        for entry in self.distribution.files or []:
            inside, in_site = _place(entry)
            path = Path(str(self.distribution.locate_file(entry)))
            if inside is not None and entry.suffix != ".pyc" and path.is_file():
                yield path, str(inside), in_site


def installed(packages: Sequence[str]) -> list[Installed]:
    """Return the named distributions and all that they need, sorted by name.

    Args:
        packages: Names as for pip, with extras and version bounds where wanted; a
            bound is checked and never acted on.

    Returns:
        Each distribution once.

    Raises:
        ConfigError: One is not installed, is editable, or does not meet a bound.
    """
    found: dict[str, Installed] = {}
    seen: set[tuple[str, str]] = set()
    todo: list[tuple[Requirement, str | None]]
    todo = [(_parsed(text), None) for text in packages]
    while todo:
        wanted, parent = todo.pop()
        name = canonicalize_name(wanted.name)
        if name not in found:
            found[name] = _look_up(wanted, parent)
        _check_bound(wanted, found[name], parent)
        for extra in ("", *wanted.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                todo += [(need, name) for need in _needs(found[name], extra)]
    return [found[name] for name in sorted(found)]


def key_of(distributions: Sequence[Installed]) -> str:
    """Return a hash that changes when any of them is installed anew."""
    digest = hashlib.sha256()
    for one in distributions:
        digest.update(f"{one.name}=={one.version}\n{one.record}\n".encode())
    return digest.hexdigest()


def _parsed(text: str) -> Requirement:
    try:
        wanted = Requirement(text)
    except InvalidRequirement as error:
        raise _refused(
            f"packages: {text!r} is not the name of a distribution: use a name such as"
            " 'pandas'"
        ) from error
    if wanted.url is not None:
        raise _refused(
            f"packages: {text!r} is a URL, and only installed distributions can be"
            f" added: install it, and pass {wanted.name!r}"
        )
    return wanted


def _look_up(wanted: Requirement, parent: str | None) -> Installed:
    needed = f", which {parent!r} needs," if parent else ""
    try:
        distribution = metadata.distribution(wanted.name)
    except metadata.PackageNotFoundError:
        raise _refused(
            f"packages: {wanted.name!r}{needed} is not installed beside"
            f" {sys.executable!r}: install it with"
            f" `{sys.executable} -m pip install {wanted.name}`"
        ) from None
    record = distribution.read_text("RECORD")
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        raise _refused(
            f"packages: {wanted.name!r}{needed} is an editable install, whose files"
            " stay in its source tree: install it as a wheel, or mount that tree with"
            " mounts="
        )
    if not record:
        raise _refused(
            f"packages: {wanted.name!r}{needed} has no RECORD of its files (installed"
            " by the system or in development mode): install it with pip in a virtual"
            " environment"
        )
    return Installed(
        canonicalize_name(wanted.name), distribution.version, record, distribution
    )


def _check_bound(wanted: Requirement, found: Installed, parent: str | None) -> None:
    # What a dependency asks for is between pip and that dependency.
    if parent is None and not wanted.specifier.contains(found.version, True):
        raise _refused(
            f"packages: {str(wanted)!r} is not what is installed, {found.version}:"
            f" install it with pip, or pass {wanted.name!r}"
        )


def _needs(one: Installed, extra: str) -> Iterator[Requirement]:
    for text in one.distribution.requires or []:
        need = Requirement(text)
        if need.marker is None:
            if not extra:
                yield need
        elif need.marker.evaluate({"extra": extra}):
            yield need


def _place(entry: PurePosixPath) -> tuple[PurePosixPath | None, bool]:
    """Where a RECORD entry goes, and whether that is below site-packages.

    Source: the binary distribution format, "The .data directory": scripts and data are
    recorded relative to site-packages, up and out of it into the prefix.
    """
    parts = entry.parts
    if entry.is_absolute():
        return None, False
    if ".." not in parts:
        return entry, True
    rest = tuple(part for part in parts if part != "..")
    if len(rest) < 2 or rest[0] not in _PREFIX_FOLDERS:
        return None, False
    return PurePosixPath(*rest), False


def _refused(message: str) -> ConfigError:
    return ConfigError(message, option="packages")
