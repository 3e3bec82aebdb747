"""The `setup` option: run once in a box with network, kept for all who ask the same.

What it installs is built in a folder of this process and becomes the shared one by a
rename, so that nobody ever sees half of it; a lock keeps others from building it too.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from .binary import kern_version
from .cache import made_cache_folder
from .call import Call, Work
from .config import SandboxConfig
from .deps import Deps
from .dispatch import Dispatch
from .engine import engine
from .escaping import escape
from .faults import FaultType, SandboxError, startup_fault
from .fresh import FreshBoxes
from .installer_settings import InstallerSettings, installer_settings
from .launch import Launch, Launcher
from .listing import Files
from .mounts import DEPS, Mount
from .outcome import result_of_call
from .ownership import discard_folder, owned_folder
from .result import ExecutionResult
from .underway import Opening
from .uses import use
from .waiting import wait_for

_LAYOUT = 1
"""Part of the key: raise it when what calls find in the folder changes."""
_GIVEN = "/opt/kern-setup"
_COMMAND = ("/bin/sh", f"{_GIVEN}/line")
_OUTPUT_BYTES = 16 << 20
_LINES_SHOWN = 15
_SHORTEST_SECRET = 4
_LOOKED_AT = 1000
_LOOK_EVERY_S = 0.05
_QUIET = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_PROGRESS_BAR": "off",
    "PIP_ROOT_USER_ACTION": "ignore",
}


def ensure_setup(launcher: Launcher, opening: Opening) -> Deps:
    """Give what the setup line of a sandbox installs, running it where it is new.

    Args:
        launcher: Makes the boxes of the sandbox, whose config has a `setup`.
        opening: May be cut short, and the setup with it.

    Returns:
        The shared folder.

    Raises:
        SandboxError: `code` is `setup`: the line failed; the message ends with the
            installer's own last lines.
        HostError: There is no place to keep it.
    """
    shared = made_cache_folder("setup")
    key = _key(launcher)
    folder = shared / key
    used = use("setup", key)  # from before the look, so that nobody removes it after
    try:
        if not folder.is_dir():
            with _building(key, opening):
                if not folder.is_dir():
                    _build(launcher, shared, folder, opening)
    except BaseException:
        used.close()
        raise
    return Deps(root=folder, used=used)


@contextmanager
def _building(key: str, opening: Opening) -> Generator[None]:
    """Hold the lock of one setup; a second one waits, and then finds it done."""
    with (made_cache_folder() / f"setup-{key}.lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                opening.check()
                time.sleep(_LOOK_EVERY_S)
        yield


def _key(launcher: Launcher) -> str:
    config = launcher.config
    asked = [
        _LAYOUT,
        config.setup,
        launcher.image.reference,
        kern_version(launcher.kern),
        sorted(config.environment().items()),
        [(str(m.source), m.target, _states(m.source)) for m in _named(config)],
    ]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:24]


def _named(config: SandboxConfig) -> list[Mount]:
    """Give the mounts that the line names; the box with network sees no other."""
    line = config.setup or ""
    return [
        replace(mount, read_only=True)
        for mount in config.binds
        if re.search(rf"{re.escape(mount.target)}(?![\w.-])", line)
    ]


def _states(source: Path) -> list[tuple[str, int, int]]:
    """Tell a mounted file or folder from what it was before."""
    paths = [source, *sorted(source.iterdir())[:_LOOKED_AT]] if source.is_dir() else []
    return [
        (path.name, stat.st_mtime_ns, stat.st_size)
        for path in paths or [source]
        for stat in [path.lstat()]
    ]


def _build(launcher: Launcher, shared: Path, folder: Path, opening: Opening) -> None:
    build = owned_folder("setup", shared)
    try:
        for name in ("deps", "given", "tmp", "workspace"):
            (build / name).mkdir()
        line = launcher.config.setup or ""
        (build / "given" / "line").write_text(line + "\n", encoding="utf-8")
        settings = installer_settings(build / "given", _GIVEN)
        own = _own_launcher(launcher, build, settings)
        result = _run(own, opening)
        opening.check()
        _judge(result, own.config, settings)
        (build / "deps").chmod(0o755)
        (build / "deps").rename(folder)
    finally:
        discard_folder(build)


def _own_launcher(
    launcher: Launcher, build: Path, settings: InstallerSettings
) -> Launcher:
    """Make the launches of the box that installs."""
    config = launcher.config
    own = config.replace(
        network=True,
        egress_allow=(),
        user="0",  # whatever the image says, and with no list of accounts
        timeout_s=config.setup_timeout_s,
        timeout_max_s=None,
        mounts={},
        tmpfs=config.tmpfs or {},
    )
    deps = Deps(root=build / "deps", read_only=False)
    found = deps.environment(config.environment(), launcher.image.reference)
    mounts = [
        deps.mount(),
        Mount(build / "given", _GIVEN, read_only=True),
        Mount(build / "tmp", "/tmp", read_only=False),
        *settings.mounts,
        *_named(config),
    ]
    seen = {mount.target: mount for mount in mounts if mount.target not in own.scratch}
    return replace(
        launcher,
        config=own,
        workspace=build / "workspace",
        mounts=sorted(seen.values(), key=lambda mount: mount.target.count("/")),
        variables=_variables(config.environment(), settings.variables, found),
        folder=DEPS,
        writable_root=True,
    )


def _variables(
    env: Mapping[str, str], host: Mapping[str, str], found: Mapping[str, str]
) -> dict[str, str]:
    where = {"PIP_TARGET": DEPS, "npm_config_prefix": DEPS}
    return {"HOME": "/tmp", **_QUIET, **host, **where, **env, **found}


def _run(launcher: Launcher, opening: Opening) -> ExecutionResult:
    config = launcher.config
    call = Call(
        Work(language="command", argv=_COMMAND),
        timeout_s=config.timeout_s,
        cap_bytes=_OUTPUT_BYTES,
    )

    def launch(_: Call) -> Launch:
        return launcher.direct(list(_COMMAND), config.timeout_s, shell=True)

    boxes = FreshBoxes(
        engine(),
        cold=launch,
        warm=None,
        max_running=1,
        prewarm=0,
        timeout_s=config.timeout_s,
        on_gone=lambda _: dispatch.tell_emptied(),
    )
    dispatch = Dispatch(engine(), boxes, max_running=1)
    try:
        dispatch.submit(call)
        with opening.ending(lambda: dispatch.end(call, "cancel")):
            seen = wait_for(call, lambda: dispatch.end(call, "cancel"))
    finally:
        dispatch.close().result()
    none = Files([], total=0, complete=True)
    return result_of_call(call, seen, config, files=none, limits_enforced=None)


def _judge(
    result: ExecutionResult, config: SandboxConfig, settings: InstallerSettings
) -> None:
    if result.success:
        return
    line = config.setup or ""
    if result.fault is None:
        how, remedy = f"failed with exit code {result.exit_code}", "correct the line"
    elif result.fault.type == FaultType.TIMEOUT:
        how = f"took longer than setup_timeout_s={config.timeout_s:g}"
        remedy = "raise that, or install less"
    else:
        how, remedy = f"failed: {result.fault.message}", "run `kern-tools doctor`"
        if result.fault.type == FaultType.OOM:
            remedy = "raise memory_mb, which holds for the setup too"
    said = _said(result, _secrets(config, settings))
    last = said.rpartition("\n")[2][:200] or "it printed nothing"
    fault = startup_fault("setup", f"setup {how}: {last}")
    message = f"setup={line!r} {how}; {remedy}"
    if said:
        message += f". The installer's last lines:\n{said}"
    raise SandboxError(message, code="setup", fault=fault)


def _said(result: ExecutionResult, secrets: Iterable[str]) -> str:
    """Give the installer's last lines, of stderr where there are any."""
    words = result.code_stderr.strip() or result.stdout.strip()
    if result.fault_type == FaultType.STARTUP_FAILED:  # nothing of the line ran
        words = "\n".join(result.runtime_notes)
    text = "\n".join(words.splitlines()[-_LINES_SHOWN:])
    for secret in secrets:
        text = text.replace(secret, "***")
    return escape(text)


def _secrets(config: SandboxConfig, settings: InstallerSettings) -> list[str]:
    """Give what no message may show, longest first."""
    found = set(config.environment().values())
    for value in settings.variables.values():
        for word in value.split():
            found |= _password(word)
    return sorted((s for s in found if len(s) >= _SHORTEST_SECRET), key=len)[::-1]


def _password(word: str) -> set[str]:
    user, at, _ = urlsplit(word).netloc.rpartition("@")
    return {user, user.rpartition(":")[2]} if at else set()
