"""The host places that no box may be given, and the names that mark credentials."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Literal, NamedTuple


class Place(NamedTuple):
    """One place of the host that is refused as the source of a mount.

    Attributes:
        path: Absolute; a parent of it is refused too, because it contains it.
        what: What one finds there, as the errors say it.
        reach: `tree` refuses all that lies below as well, `self` only the place.
    """

    path: str
    what: str
    reach: Literal["tree", "self"] = "tree"


REFUSED = (
    Place("/", "the whole host", "self"),
    Place("/etc", "the configuration of the host"),
    Place("/root", "the home of the administrator", "self"),
    Place("/home", "the home directories of the host", "self"),
    Place("/boot", "the kernel and boot files of the host"),
    Place("/proc", "the process table of the host"),
    Place("/sys", "the kernel settings of the host"),
    Place("/dev", "the devices of the host"),
    Place("/dev/shm", "the shared memory of the host", "self"),
    Place("/run/docker.sock", "the Docker socket"),
    Place("/var/run/docker.sock", "the Docker socket"),
    Place("/run/podman", "the Podman socket"),
    Place("/run/containerd", "the containerd socket"),
    Place("/run/crio", "the CRI-O socket"),
    Place("/run/buildkit", "the BuildKit socket"),
    Place("/var/lib/docker", "the data of Docker"),
    Place("/var/lib/containerd", "the data of containerd"),
    Place("/var/lib/containers", "the data of Podman"),
    Place("/var/lib/kubelet", "the data of Kubernetes"),
)
"""The fixed places; `refused_places` adds those that depend on user and environment."""

CREDENTIALS = frozenset(
    {
        ".aws",
        ".azure",
        ".boto",
        ".databrickscfg",
        ".docker",
        ".git-credentials",
        ".gnupg",
        ".kube",
        ".netrc",
        ".npmrc",
        ".oci",
        ".password-store",
        ".pgpass",
        ".pypirc",
        ".rclone.conf",
        ".s3cfg",
        ".ssh",
        ".terraform.d",
        ".vault-token",
    }
)
"""Names that hold credentials, wherever in a path they stand."""

CREDENTIAL_PAIRS = frozenset(
    {
        (".config", "doctl"),
        (".config", "gcloud"),
        (".config", "gh"),
        (".config", "rclone"),
    }
)
"""Names too common to refuse alone: credentials where the first holds the second."""

SOCKETS = frozenset(
    {
        "buildkitd.sock",
        "containerd.sock",
        "crio.sock",
        "docker.sock",
        "podman.sock",
    }
)
"""File names of sockets that command the host, wherever they stand."""


def refused_places() -> list[Place]:
    """List every refused place of this user, under the present environment.

    Returns:
        `REFUSED`, the homes, kern's state and the control sockets, links resolved.
    """
    return [
        Place(os.path.realpath(place.path), place.what, place.reach)
        for place in (*REFUSED, *_home_places(), *_kern_state(), *_sockets())
    ]


def credential_in(parts: tuple[str, ...]) -> str | None:
    """Name the credential that a path leads to or through, or None."""
    for name in parts:
        if name in CREDENTIALS or name in SOCKETS:
            return name
    for parent, child in pairwise(parts):
        if (parent, child) in CREDENTIAL_PAIRS:
            return f"{parent}/{child}"
    return None


def credential_below(directory: str) -> str | None:
    """Name a credential that a directory holds itself, or None.

    Only the names directly in it are looked at: a whole tree may be millions of files.
    """
    own = PurePosixPath(directory).name
    names = [*CREDENTIALS, *SOCKETS]
    for parent, child in CREDENTIAL_PAIRS:
        names.append(child if parent == own else f"{parent}/{child}")
    found = (n for n in sorted(names) if os.path.lexists(f"{directory}/{n}"))
    return next(found, None)


def _homes() -> set[str]:
    homes = {os.environ.get("HOME", "")}
    with suppress(KeyError):  # a uid of a container often has no entry
        homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    return {home for home in homes if home.startswith("/")}


def _home_places() -> Iterator[Place]:
    for home in _homes():
        yield Place(home, "your home directory", "self")


def _kern_state() -> Iterator[Place]:
    # Also at the default places: an earlier kern's files do not move with a variable.
    uid = os.getuid()
    yield Place(f"/tmp/kern-{uid}", "kern's runtime state")
    yield Place(f"/run/user/{uid}/kern", "kern's runtime state")
    for home in _homes():
        yield Place(f"{home}/.cache/kern", "kern's image cache")
        yield Place(f"{home}/.config/kern", "kern's configuration")
        yield Place(f"{home}/.local/share/kern", "kern's volumes and builds")
    for variable, what in (
        ("XDG_RUNTIME_DIR", "kern's runtime state"),
        ("XDG_CACHE_HOME", "kern's image cache"),
        ("XDG_CONFIG_HOME", "kern's configuration"),
        ("XDG_DATA_HOME", "kern's volumes and builds"),
    ):
        base = os.environ.get(variable, "")
        if base.startswith("/"):
            yield Place(f"{base}/kern", what)


def _sockets() -> Iterator[Place]:
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    yield Place(f"{runtime}/docker.sock", "the Docker socket")
    yield Place(f"{runtime}/podman", "the Podman socket")
    for variable, what in (
        ("DOCKER_HOST", "the Docker socket"),
        ("CONTAINER_HOST", "the Podman socket"),
        ("SSH_AUTH_SOCK", "the socket of the SSH agent"),
    ):
        path = os.environ.get(variable, "").removeprefix("unix://")
        if path.startswith("/"):
            yield Place(path, what)
