"""The options of a sandbox as words of a command line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from .config import SandboxConfig

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ImageName = Annotated[
    str | None,
    typer.Option(
        metavar="REFERENCE",
        help="Image of the boxes: 'host', made from this Python (default), or any OCI"
        " reference.",
    ),
]
Packages = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Installed distributions that code can import, as 'numpy,pandas'.",
    ),
]
TimeoutS = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Limit of one call.  [default: 30]"),
]
MemoryMb = Annotated[
    int | None,
    typer.Option(metavar="MIB", help="Memory cap of a box.  [default: 512]"),
]
Cpus = Annotated[float | None, typer.Option(metavar="CORES", help="CPU cap of a box.")]
Pids = Annotated[
    int | None,
    typer.Option(metavar="COUNT", help="Most processes of a box.  [default: 256]"),
]
Workspace = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Use and keep this folder as /workspace; else one is made and removed.",
    ),
]
Mounts = Annotated[
    list[str] | None,
    typer.Option(
        "--mount",
        metavar="SOURCE:TARGET[:ro]",
        help="Show a path of the host in the box; may be repeated.",
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[=VALUE]",
        help="Environment of the code; without a value it is taken from yours, and"
        " shows on no command line. May be repeated.",
    ),
]
Network = Annotated[
    bool | None,
    typer.Option(
        "--network", help="RELAXES ISOLATION: share the network of this machine."
    ),
]
EgressAllow = Annotated[
    str | None,
    typer.Option(
        metavar="DOMAINS",
        help="Only these may be reached, as 'example.com,example.org'.",
    ),
]
CapsRequired = Annotated[
    bool | None,
    typer.Option("--require-limits", help="Refuse to run where the caps do not bind."),
]
Offline = Annotated[
    bool | None,
    typer.Option("--offline", help="Never pull an image."),
]

_LISTS = ("packages", "egress_allow")


def config_of(given: Mapping[str, Any]) -> SandboxConfig:
    """Make the config from a command's parameters; those not given keep the default.

    Args:
        given: All parameters of the command, by name; those that are no option of a
            sandbox are passed over.

    Raises:
        ConfigError: An option cannot be used.
        typer.BadParameter: `--mount` or `--env` is not written as it has to be.
    """
    names = SandboxConfig.__dataclass_fields__
    options = {n: v for n, v in given.items() if n in names and v not in (None, [])}
    for name in _LISTS:
        if name in options:
            options[name] = split(options[name])
    if "mounts" in options:
        options["mounts"] = dict(_mount(words) for words in options["mounts"])
    if "env" in options:
        options["env"] = dict(_variable(words) for words in options["env"])
    return SandboxConfig(**options)


def split(words: str) -> list[str]:
    """Take the names of a list written with commas."""
    return [word for word in map(str.strip, words.split(",")) if word]


def _mount(words: str) -> tuple[str, tuple[str, str]]:
    source, *rest = words.split(":")
    target, access = (*rest, "rw")[:2] if rest else ("", "")
    if not source or not target or len(rest) > 2 or access not in ("ro", "rw"):
        raise typer.BadParameter(
            f"{words!r} is not SOURCE:TARGET or SOURCE:TARGET:ro", param_hint="--mount"
        )
    return source, (target, access)


def _variable(words: str) -> tuple[str, str]:
    name, equals, value = words.partition("=")
    if equals:
        return name, value
    if name not in os.environ:
        raise typer.BadParameter(
            f"{name!r} has no value and is not in your environment: write"
            f" {name}=VALUE, or export it first",
            param_hint="--env",
        )
    return name, os.environ[name]


def choice(flag: str, given: str, choices: Iterable[str]) -> str:
    """Take one of a few words.

    Raises:
        typer.BadParameter: It is another.
    """
    known = list(choices)
    if given not in known:
        raise typer.BadParameter(
            f"{given!r} is not one of {', '.join(known)}", param_hint=flag
        )
    return given


def listed(choices: Iterable[str]) -> str:
    """Write the words that a flag takes, as a metavar."""
    return f"[{'|'.join(choices)}]"
