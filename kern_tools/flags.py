"""The options of a sandbox as words of a command line."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from .config import Budget, SandboxConfig

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Page = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Save what was run as a page."),
]
Tools = Annotated[
    str,
    typer.Option("--tools", metavar="NAMES", help="Sets or single tools, with commas."),
]


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


def _text(metavar: str, words: str, *names: str) -> Any:
    return Annotated[str | None, typer.Option(*names, metavar=metavar, help=words)]


def _texts(metavar: str, words: str, *names: str) -> Any:
    words = f"{words} May be repeated."
    kind = list[str] | None
    return Annotated[kind, typer.Option(*names, metavar=metavar, help=words)]


def _number(kind: type[int | float], metavar: str, words: str) -> Any:
    return Annotated[kind | None, typer.Option(metavar=metavar, help=words)]


def _switch(name: str, words: str) -> Any:
    return Annotated[bool | None, typer.Option(name, help=words)]


OPTIONS: Mapping[str, Any] = {
    "mode": _text(
        "[fresh|resident|kernel]",
        "What survives a call: files (default), /tmp and processes too, or Python's"
        " names as well.",
    ),
    "image": ImageName,
    "packages": Packages,
    "setup": _text("LINE", "Installs what code needs, once, with network."),
    "deps_readonly": Annotated[
        bool | None,
        typer.Option(help="Code cannot change what --setup installed (default)."),
    ],
    "toolchain": _switch("--toolchain", "A home and scratch for go, npm, cargo."),
    "setup_code": _text("CODE", "Python that every new kernel runs first."),
    "timeout_s": TimeoutS,
    "timeout_max_s": _number(
        float, "SECONDS", "The longest limit a model may ask for."
    ),
    "memory_mb": MemoryMb,
    "cpus": Cpus,
    "pids": Pids,
    "require_limits": CapsRequired,
    "workspace": Workspace,
    "workspace_max_bytes": _number(int, "BYTES", "Size at which /workspace is full."),
    "mounts": Mounts,
    "tmpfs": _texts("PATH:SIZE", "Scratch in memory, as '/tmp:64m'; 'none' is none."),
    "env": Env,
    "network": Network,
    "egress_allow": EgressAllow,
    "security_profile": _text("NAME", "kern's own bundle: 'untrusted'."),
    "user": _text("ACCOUNT", "Account of the image that code runs as."),
    "text_chars": _number(int, "COUNT", "Characters of one reply.  [default: 8000]"),
    "images": _number(int, "COUNT", "Images in one reply.  [default: 4]"),
    "offline": Offline,
}
"""The flag of each option of a sandbox, and of its budget, in the order of `--help`."""


def sandbox_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags of `OPTIONS`, after its own.

    Args:
        command: Takes its own parameters alone; `config_of` reads the others from the
            context.

    Returns:
        What typer is to make a command of.
    """
    signature = inspect.signature(command, eval_str=True)
    own = list(signature.parameters.values())
    more = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=flag
        )
        for name, flag in OPTIONS.items()
    ]

    @wraps(command)
    def with_options(**given: Any) -> None:
        command(**{parameter.name: given[parameter.name] for parameter in own})

    taken = signature.replace(parameters=[*own, *more])
    with_options.__signature__ = taken  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in (*own, *more)}
    return with_options


_LISTS = ("packages", "egress_allow")
_BUDGET = ("text_chars", "images")
_NOT_GIVEN: tuple[Any, ...] = (None, [], ())


def config_of(given: Mapping[str, Any]) -> SandboxConfig:
    """Make the config from a command's parameters; those not given keep the default.

    Args:
        given: All parameters of the command, by name; those that are no option of a
            sandbox are passed over.

    Raises:
        ConfigError: An option cannot be used.
        typer.BadParameter: `--mount`, `--tmpfs` or `--env` is not written as it has to
            be.
    """
    names = SandboxConfig.__dataclass_fields__
    options = {n: v for n, v in given.items() if n in names and v not in _NOT_GIVEN}
    budget = {n: given[n] for n in _BUDGET if given.get(n) is not None}
    if budget:
        options["budget"] = Budget(**budget)
    for name in _LISTS:
        if name in options:
            options[name] = split(options[name])
    if "mounts" in options:
        options["mounts"] = dict(_mount(words) for words in options["mounts"])
    if "tmpfs" in options:
        sizes = [words for words in options["tmpfs"] if words != "none"]
        options["tmpfs"] = dict(_scratch(words) for words in sizes)
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


def _scratch(words: str) -> tuple[str, str]:
    path, colon, size = words.rpartition(":")
    if not colon:
        raise typer.BadParameter(
            f"{words!r} is not PATH:SIZE, such as '/tmp:64m'", param_hint="--tmpfs"
        )
    return path, size


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
