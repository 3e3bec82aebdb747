"""From the options to the command line that starts one box."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from .cache import record_place
from .config import SandboxConfig
from .frames import BOOT, CLEAN_PATH, INTERPRETER_VARIABLES, driver_program
from .image import ImageRef
from .mounts import Mount
from .names import BOX_ROOT
from .ownership import box_name, owned_folder

Mode = Literal["fresh", "resident", "kernel"]
GRACE_S = 5
"""kern's own deadline comes this much after ours: a backstop, never the verdict."""
NOT_FOUND = "kern-tools: no such command"
PROXY_PORT = 3128
"""Where kern's filter of the network listens in a box."""
_OURS = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Stale bytecode is known by whole seconds, within which agents rewrite a file."""
_AWAIT_PROXY = f"""\
n=0; until [ $n = 20000 ] || ! [ -r /proc/net/tcp ]; do while read -r _ at _ state _; do
case $at.$state in *:{PROXY_PORT:04X}.0A) n=19999;; esac; done </proc/net/tcp
n=$((n+1)); done
"""
"""kern starts a box before its filter listens, and ends it if that fails."""
_TO_STDIN = f"""\
command -v "$1" >/dev/null 2>&1 || {{ echo '{NOT_FOUND}' >&2; exit 127; }}
exec 2>&0 0</dev/null; exec "$@"
"""
"""Written before any of the command's own text can be, so its one line is believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One box to start.

    Attributes:
        argv: kern's command line.
        environ: The environment of kern itself, not of the box.
        driver: The program to send, or None where the command runs directly.
        mode: What survives a call in this box.
        life_s: The longest it may live, as kern was told.
        wanted: Modules that it imports while it waits, as a call would.
        stderr_on_stdin: The command's stderr arrives on what kern takes as stdin.
        filtered: kern lets the box reach some domains only.
        env_file: A private file to remove once the box has read it.
    """

    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(repr=False)
    driver: bytes | None = field(default=None, repr=False)
    mode: Mode = "fresh"
    life_s: float = 0
    wanted: tuple[str, ...] = ()
    stderr_on_stdin: bool = False
    filtered: bool = False
    env_file: Path | None = field(default=None, repr=False)

    def forget_env_file(self) -> None:
        """Remove the private file, if there was one."""
        if self.env_file is not None:
            self.env_file.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """Makes the launches of one sandbox.

    Attributes:
        mounts: Further mounts, of ours.
        variables: Further variables, of ours; they replace those of `config.env`.
        import_path: Where Python finds modules before those of the image.
        folder: Where commands start.
        writable_root: The box may change its files, which are thrown away with it.
    """

    kern: Path
    config: SandboxConfig
    image: ImageRef
    workspace: Path
    mounts: Sequence[Mount] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    import_path: Sequence[str] = ()
    folder: str = BOX_ROOT
    writable_root: bool = False

    def driven(
        self,
        life_s: float,
        *,
        mode: Mode = "fresh",
        preload: Sequence[str] = (),
        wanted: Sequence[str] = (),
    ) -> Launch:
        """Give a box with our driver in it, ready to take Python and commands.

        Args:
            life_s: The longest the box may live.
            mode: What survives a call in this box.
            preload: Modules of Python's own to import while the box waits for a call.
            wanted: Modules to import before the box takes its first call, where what
                their import does can be told from what a call does.
        """
        env = self.config.environment()
        if "PYTHONPATH" in env:  # modules may come from where calls write
            wanted = ()
        at_start = {n: v for n, v in env.items() if n in INTERPRETER_VARIABLES}
        env_file = _private_env_file(at_start) if at_start else None
        boot = CLEAN_PATH + BOOT if at_start else BOOT
        command = ["python3", "-s" if at_start else "-I", "-S", "-c", boot]
        setting: dict[str, Any] = {
            "mode": mode,
            "env": {**_OURS, **env, **self.variables, "MPLBACKEND": "Agg"},
            "folder": BOX_ROOT,
            "path": list(self.import_path),
            "lean": self.image.host_python,
            "preload": tuple(preload),
            "wanted": tuple(wanted),
        }
        same, filtered = self.image.host_python, bool(self.config.egress_allow)
        if filtered:
            setting["proxy_port"] = PROXY_PORT
        return Launch(
            argv=(*self._box(life_s, env_file), "--", *command),
            environ=self._environ(),
            driver=driver_program(setting, same_python=same),
            mode=mode,
            life_s=life_s,
            wanted=tuple(wanted),
            filtered=filtered,
            env_file=env_file,
        )

    def direct(self, command: list[str], life_s: float, *, shell: bool) -> Launch:
        """Give a box that runs `command` itself, for images without Python.

        Args:
            command: The program and its arguments.
            life_s: The longest the box may live.
            shell: The image has `/bin/sh`, so that the command's stderr can be kept
                apart from kern's exactly.
        """
        env = {**self.config.environment(), **self.variables}
        env_file = _private_env_file(env) if env else None
        filtered = bool(self.config.egress_allow)
        if shell:
            script = _AWAIT_PROXY + _TO_STDIN if filtered else _TO_STDIN
            command = ["/bin/sh", "-c", script, "sh", *command]
        return Launch(
            argv=(*self._box(life_s, env_file), "--", *command),
            environ=self._environ(),
            stderr_on_stdin=shell,
            filtered=filtered,
            env_file=env_file,
        )

    def _environ(self) -> Mapping[str, str]:
        scope = {} if self.config.enforce_limits else {"KERN_NO_SCOPE": "1"}
        return {**os.environ, **record_place(), **scope}

    def _box(self, life_s: float, env_file: Path | None) -> list[str]:
        config = self.config
        argv = [str(self.kern), "box", box_name()]
        argv += ["--image", self.image.reference, "--pull", "never", "-q"]
        argv += ["--entrypoint", ""]  # a call runs what it names, with nothing before
        argv += [] if self.writable_root else ["--ro"]
        argv += _mount_argument(Mount(self.workspace, BOX_ROOT, read_only=False))
        argv += ["--workdir", self.folder]
        argv += ["--timeout", str(math.ceil(life_s) + GRACE_S)]
        argv += self._limits() + self._hardening() + self._network()
        for mount in (*config.binds, *self.mounts):
            argv += _mount_argument(mount)
        for target, size in config.scratch.items():
            argv += ["--tmpfs", f"{target}:{size}"]
        if env_file is not None:
            argv += ["--env-file", str(env_file)]
        return [*argv, *config.profiles]

    def _limits(self) -> list[str]:
        config = self.config
        argv: list[str] = []
        if config.memory_mb is not None:
            argv += ["--memory", f"{config.memory_mb}m"]
        if config.cpus is not None:
            argv += ["--cpus", f"{config.cpus:g}"]
        if config.pids is not None:
            argv += ["--pids-limit", str(config.pids)]
        return argv + (["--require-limits"] if config.require_limits else [])

    def _hardening(self) -> list[str]:
        config = self.config
        argv = [part for name in config.cap_drop for part in ("--cap-drop", name)]
        if "ALL" in config.cap_drop and config.user is None:
            argv.append("--no-uid-range")  # no capability is left that could use it
        if config.security_profile is not None:
            argv += ["--security-profile", config.security_profile]
        if config.apparmor is not None:
            argv += ["--apparmor", config.apparmor]
        if config.user is not None:
            argv += ["--user", config.user]
        return argv

    def _network(self) -> list[str]:
        if self.config.egress_allow:
            return ["--egress-allow", ",".join(self.config.egress_allow)]
        return ["--net"] if self.config.network else []


def _mount_argument(mount: Mount) -> list[str]:
    """Give one bind mount; `-v` would create a source that is missing."""
    source, target = _field(f"src={mount.source}"), _field(f"dst={mount.target}")
    return [
        "--mount",
        f"type=bind,{source},{target}" + (",ro" if mount.read_only else ""),
    ]


def _field(text: str) -> str:
    """Quote one field of kern's comma-separated mount grammar."""
    if "," in text or '"' in text:
        return '"' + text.replace('"', '""') + '"'
    return text


@cache
def private_folder() -> Path:
    """Give a folder that only this user can enter, for the files boxes read."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return owned_folder("env", runtime)


os.register_at_fork(after_in_child=private_folder.cache_clear)


def _private_env_file(env: Mapping[str, str]) -> Path:
    path = private_folder() / secrets.token_hex(8)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in env.items())
    except OSError:
        path.unlink()
        raise
    return path
