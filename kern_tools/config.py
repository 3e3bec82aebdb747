"""Every option of a sandbox, checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, cast

from .mounts import Mount, check_mounts
from .option_table import CHECKS
from .options import FrozenMap, Options, refusal, whole
from .scratch import DEFAULT_TMPFS_MB, TOOLCHAIN_TMPFS_MB, check_tmpfs

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import SecretStr

__all__ = ["DEFAULT_TMPFS_MB", "Budget", "SandboxConfig"]

MountSpec = str | tuple[str, str]
"""A target, or a target with `"ro"` or `"rw"`."""

OutputCallback = Callable[[str], object]
"""Called with pieces of a stream's text as they arrive."""

_LEAST_TEXT_CHARS = 256


@dataclass(frozen=True, kw_only=True)
class Budget(Options):
    """How much of one result a model, and a checkpoint, is given."""

    text_chars: int = 8_000
    """Characters of text in one reply, stderr first; the rest goes to a file."""
    images: int = 4
    """Images in one reply; further ones are named, not shown."""
    image_bytes: int = 4 << 20
    """Bytes of one image; a larger one is named, not shown."""
    artifact_chars: int = 64_000
    """Characters of each stream, and of all file names, in an artifact, which is what
    checkpoints store."""
    artifact_bytes: int = 1 << 20
    """Bytes of all rich values in an artifact."""

    def __post_init__(self) -> None:
        for option in fields(self):
            unit = option.name.rpartition("_")[2]
            low = _LEAST_TEXT_CHARS if option.name == "text_chars" else 0
            check = whole(low, 1 << 30, unit)
            check(f"budget.{option.name}", getattr(self, option.name))


@dataclass(frozen=True, kw_only=True)
class SandboxConfig(Options):
    """Every option of a sandbox; constructing one checks it as a whole.

    Raises:
        ConfigError: An option is unknown, or cannot be used; `option` names it.
        MountRefused: The mount policy refuses `workspace`, `mounts` or `tmpfs`.
    """

    mode: Literal["fresh", "resident", "kernel"] = "fresh"
    """What survives a call: `fresh` files only, a new box each; `resident` /tmp and
    background processes too, a new interpreter each; `kernel` Python's names as well,
    in one interpreter."""
    prewarm: int = 1
    """Boxes of `fresh` mode started before their call is there; 0 is none."""
    setup_code: str | None = None
    """Python that every new `kernel` runs first, also after one was lost."""
    max_age_s: float = 86_400
    """Age in seconds at which a `resident` or `kernel` box is replaced, between two
    calls."""
    image: str = "host"
    """Where a box's files come from: `host` is an image of the Python that runs you,
    anything else an OCI reference, also by digest."""
    packages: Sequence[str] = ()
    """Installed distributions that the host image gets, with what they need."""
    setup: str | None = None
    """Shell line that installs what code needs, such as `pip install pandas`. It runs
    once, as root of a box of its own with the HOST'S NETWORK, `env`, and those of
    `mounts` whose targets it names; calls have what it put in `/opt/kern-deps` on
    their paths, and no network from it. Kept for all sandboxes with the same line,
    image and `env`. The line is no place for a secret: write `$NAME` and use `env`."""
    setup_timeout_s: float = 600
    """Limit in seconds for `setup`, when the sandbox opens."""
    deps_readonly: bool = True
    """Code cannot change what `setup` installed; False gives this sandbox a copy of its
    own, which it can."""
    toolchain: bool = False
    """Give Go, npm, cargo and the like what they need: a HOME that is kept from call to
    call, out of sight of listings, and `TOOLCHAIN_TMPFS_MB` at /tmp."""
    workspace: str | os.PathLike[str] | None = None
    """Host directory that is kept after close; None makes one and removes it."""
    workspace_max_bytes: int | None = None
    """Size at which the workspace counts as full; watched, not enforced by a quota."""
    memory_mb: int | None = 512
    """Memory cap in MiB, scratch and shared memory included; None lets a profile's
    apply, or else kern's own of 512."""
    cpus: float | None = None
    """CPU cap in cores; None is no cap, or a profile's."""
    pids: int | None = 256
    """How many processes and threads a box may have; None leaves it to kern."""
    timeout_s: float = 30
    """Wall-clock limit of one call in seconds; a call may name another."""
    timeout_max_s: float | None = None
    """The longest limit a model may ask for; None is `timeout_s`."""
    network: bool = False
    """RELAXES ISOLATION: boxes share the host's network, its loopback included."""
    egress_allow: Sequence[str] = ()
    """Domains that boxes may reach over HTTP(S), through kern's proxy; not with
    `network`."""
    cap_drop: Sequence[str] = ("ALL",)
    """Capabilities dropped beyond those that kern always drops; `()` keeps them."""
    mounts: Mapping[str, MountSpec] | Mapping[Path, MountSpec] = field(
        default_factory=lambda: FrozenMap[str, MountSpec]({})
    )
    """Host paths in the box: `{source: target}`, writable, or `{source: (target,
    "ro")}`. A target that is missing is made, also in a workspace around it."""
    tmpfs: Mapping[str, str] | None = None
    """Memory-backed scratch, `{path: size}` with sizes such as `64m`. None is
    `DEFAULT_TMPFS_MB` at /tmp, at most half of `memory_mb`, unless something is mounted
    there or a security profile is set; `{}` is none."""
    profiles: Sequence[str] = ()
    """Resource profiles of kern.toml: `vcpu:NAME`, `vgpio:NAME`, `vdisk:NAME`."""
    env: Mapping[str, str | SecretStr] = field(
        default_factory=lambda: FrozenMap[str, str]({})
    )
    """Environment of the code. The values are kept as secrets: no repr, error or dump
    shows one."""
    max_output_bytes: int = 1 << 20
    """Bytes of stdout and of stderr kept of one call; more is read and dropped."""
    enforce_limits: bool = True
    """False takes kern's best-effort way to the caps, without a systemd scope."""
    require_limits: bool = False
    """Refuse to start a box whose caps this host cannot enforce."""
    security_profile: str | None = None
    """`untrusted`: kern's bundle of system call allowlist, no capabilities, read-only
    root."""
    apparmor: str | None = None
    """AppArmor profile, already loaded on the host, that the box enters."""
    user: str | None = None
    """Account of the image that code runs as, `user` or `user:group`; None is the
    image's own. One that is not root needs `newuidmap` and a range in /etc/subuid; an
    access control list shares the workspace with it, and stays on a `workspace` of
    yours."""
    track_files: bool = True
    """List what each call created or modified; the first call walks the workspace,
    and each one where the kernel cannot tell."""
    offline: bool = False
    """Never pull an image: an absent one is an error."""
    pull_timeout_s: float = 900
    """Limit in seconds for pulling an absent image, when the sandbox opens."""
    max_running: int = 64
    """Calls of this sandbox that may run at once; further ones wait. As many boxes, or
    4, may be on their way out beside them."""
    on_stdout: OutputCallback | None = None
    """Called with pieces of every call's stdout as they arrive."""
    on_stderr: OutputCallback | None = None
    """Called with pieces of every call's stderr as they arrive."""
    budget: Budget = field(default_factory=Budget)
    """How much of a result a model is given."""

    binds: tuple[Mount, ...] = field(init=False, repr=False, compare=False)
    """`mounts` as checked, in the order in which kern must be given them."""
    scratch: Mapping[str, str] = field(init=False, repr=False, compare=False)
    """`tmpfs` as checked and with its default: path to size, in kern's order."""

    def __post_init__(self) -> None:
        for name, check in CHECKS.items():
            self._keep(name, check(name, getattr(self, name)))
        _check_budget(self.budget)
        self._check_mounts()
        self._check_together()

    def environment(self) -> dict[str, str]:
        """Reveal `env`, for the box alone."""
        kept = cast("Mapping[str, SecretStr]", self.env)
        return {name: value.get_secret_value() for name, value in kept.items()}

    def public(self) -> dict[str, Any]:
        """Show every option as plain JSON, but no secret and no callback.

        Returns:
            Option to value; `env` is its sorted names, `mounts` a list of dicts,
            `tmpfs` what is in force.
        """
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        del shown["on_stdout"], shown["on_stderr"]
        for name in ("packages", "egress_allow", "cap_drop", "profiles"):
            shown[name] = list(shown[name])
        return shown | {
            "workspace": None if self.workspace is None else str(self.workspace),
            "mounts": [
                {
                    "source": str(bind.source),
                    "target": bind.target,
                    "read_only": bind.read_only,
                }
                for bind in self.binds
            ],
            "tmpfs": dict(self.scratch),
            "env": sorted(self.env),
            "budget": asdict(self.budget),
        }

    def _check_mounts(self) -> None:
        binds = check_mounts(self.mounts)
        self._keep("binds", binds)
        given = cast("Mapping[str, MountSpec]", self.mounts)
        self._keep("mounts", FrozenMap(given))
        hardened = self.security_profile is not None
        scratch = check_tmpfs(
            self.tmpfs,
            memory_mb=self.memory_mb,
            mounts=binds,
            hardened=hardened,
            default_mb=TOOLCHAIN_TMPFS_MB if self.toolchain else DEFAULT_TMPFS_MB,
        )
        self._keep("scratch", FrozenMap(scratch))
        if self.tmpfs is not None:
            self._keep("tmpfs", self.scratch)

    def _check_together(self) -> None:
        if self.network and self.egress_allow:
            why = "has no meaning with network=True, which allows everything"
            remedy = "leave one of the two out"
            raise refusal("egress_allow", self.egress_allow, why, remedy)
        if self.setup_code is not None and self.mode != "kernel":
            why = f"is only for mode='kernel', not for {self.mode!r}"
            remedy = "leave it out, or begin each call with that code"
            raise refusal("setup_code", self.setup_code, why, remedy)
        if self.timeout_max_s is not None and self.timeout_max_s < self.timeout_s:
            why = f"is less than timeout_s={self.timeout_s!r}"
            raise refusal("timeout_max_s", self.timeout_max_s, why, "raise it")
        if self.packages and self.image != "host":
            why = f"is only for image='host', not for {self.image!r}"
            remedy = "leave it out, or use an image that has them"
            raise refusal("packages", self.packages, why, remedy)
        if self.require_limits and os.environ.get("KERN_ALLOW_UNCAPPED"):
            why = "contradicts KERN_ALLOW_UNCAPPED in the environment"
            raise refusal("require_limits", True, why, "unset the variable")


def _check_budget(value: object) -> None:
    if not isinstance(value, Budget):
        raise refusal("budget", value, "is not a Budget", "write Budget(...)")
