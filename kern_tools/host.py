"""What this machine can do: one probe, asked once per process."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import platform
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

from .binary import find_kern, kern_version
from .cache import record_place
from .faults import HostError, SandboxError
from .host_image import host_reference
from .image_store import image_info

_PROBE_WAIT_S = 30.0
_NOTHING = "/nothing-to-run"
"""No image has it: a box that got as far as failing to start it did start."""
_NOT_FOUND = 127
_TEARDOWN_BYTES = ("started", "limits_enforced", "oom", "signal")
_POSTURE = (
    "KERN_ALLOW_UNCAPPED",
    "KERN_BIN",
    "KERN_CONFIG",
    "KERN_DIRECT_CAPS",
    "KERN_FLEET_MEMORY_MAX",
    "KERN_FLEET_PIDS_MAX",
    "KERN_LANDLOCK_REQUIRED",
    "KERN_MANAGED",
    "KERN_MAX_CONCURRENT",
    "KERN_NO_SCOPE",
    "KERN_POD_UID_RANGE",
    "KERN_QUIET",
    "KERN_REQUIRE_LIMITS",
    "KERN_SCOPE",
    "KERN_SECCOMP",
)
"""Every variable of kern's that moves a limit or a rule; none of them is a secret."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """What `host_report` found out about this machine."""

    platform: str
    """The operating system, its release and the processor."""
    python_version: str
    """The Python that runs this program."""
    python_executable: str
    """Its path."""
    cgroups: str
    """`v2`, `hybrid`, `v1` or `none`; kern enforces limits through v2."""
    environment: dict[str, str]
    """The `KERN_*` variables that are set and change how kern behaves."""
    image: str | None = None
    """The reference asked about, or the host image's."""
    image_present: bool | None = None
    """Whether boxes can start from it now; None where that could not be asked."""
    kern: str | None = None
    """The path of kern, or None: `problem` says why."""
    kern_version: str | None = None
    """Such as `0.33.0`."""
    boxes_start: bool | None = None
    """Whether a box starts here; None where nothing was tried."""
    limits_enforced: bool | None = None
    """Whether memory and process caps bind here; None where kern does not say."""
    missing_answers: tuple[str, ...] = ()
    """What this kern is too old to say: `alive`, `started`, `limits_enforced`, `oom`,
    `signal`. Faults that need it are reported as `killed`."""
    problem: str | None = None
    """What stands in the way, in one line."""
    problem_code: str | None = None
    """The `code` of the error that a sandbox would raise for it."""

    @property
    def ok(self) -> bool:
        """Boxes start."""
        return self.boxes_start is True

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON."""
        report = dataclasses.asdict(self)
        report["missing_answers"] = list(self.missing_answers)
        return {"ok": self.ok, **report}


def host_report(*, reference: str | None = None, refresh: bool = False) -> HostReport:
    """Return what this machine can do, asked once per process, image and environment.

    Args:
        reference: The image to ask about; by default the host's own.
        refresh: Ask again.

    Returns:
        The report; a missing kern is a `problem` in it, and is not raised.
    """
    if refresh:
        _asked.cache_clear()
    names = (*_POSTURE, "HOME", "XDG_CACHE_HOME")
    return _asked(reference, tuple(os.environ.get(name) for name in names))


@functools.lru_cache(maxsize=32)
def _asked(reference: str | None, environment: object) -> HostReport:
    report = HostReport(
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        python_version=platform.python_version(),
        python_executable=sys.executable,
        cgroups=_cgroups(),
        environment={name: os.environ[name] for name in _POSTURE if name in os.environ},
        image=reference or host_reference(),
    )
    try:
        return _with_kern(report)
    except SandboxError as error:
        return dataclasses.replace(report, problem=str(error), problem_code=error.code)


def _with_kern(report: HostReport) -> HostReport:
    kern = find_kern()
    report = dataclasses.replace(
        report, kern=str(kern), kern_version=kern_version(kern)
    )
    assert report.image is not None
    try:
        present = image_info(report.image) is not None
    except HostError as error:
        return dataclasses.replace(report, problem=str(error), problem_code=error.code)
    report = dataclasses.replace(report, image_present=present)
    with _source(report.image if present else None) as source:
        return _probed(report, kern, source)


@contextlib.contextmanager
def _source(image: str | None) -> Generator[list[str]]:
    """Where the probe's box comes from: the image, or an empty root without one."""
    if image is not None:
        yield ["--image", image, "--pull", "never", "--entrypoint", ""]
        return
    with tempfile.TemporaryDirectory(prefix="kern-tools-probe-") as empty:
        yield ["--rootfs", empty]


@dataclasses.dataclass(frozen=True, slots=True)
class _Box:
    exit_code: int
    teardown: bytes
    alive: bytes
    words: str

    @property
    def started(self) -> bool:
        if self.teardown:
            return self.teardown[0] == 1
        return self.exit_code == _NOT_FOUND


def _probed(report: HostReport, kern: Path, source: list[str]) -> HostReport:
    box = _run_box(kern, source, "--memory", "64m")
    if not box.started:
        return dataclasses.replace(
            report,
            boxes_start=False,
            problem=f"a box does not start here: {box.words}; see `kern doctor`",
            problem_code="host",
        )
    answers = len(box.teardown)
    missing = (() if box.alive else ("alive",)) + _TEARDOWN_BYTES[answers:]
    enforced = {1: True, 2: False}.get(box.teardown[1] if answers > 1 else 0)
    if enforced is None:
        strict = _run_box(kern, source, "--memory", "64m", "--require-limits")
        enforced = strict.started
    return dataclasses.replace(
        report, boxes_start=True, limits_enforced=enforced, missing_answers=missing
    )


def _run_box(kern: Path, source: list[str], *options: str) -> _Box:
    """Run one box to its end, and return what kern said on its own descriptors.

    Raises:
        HostError: kern did not come back.
    """
    name = f"kt-probe-{os.getpid()}-{secrets.token_hex(4)}"
    argv = [str(kern), "box", name, *source, "--ro", "-q", *options, "--", _NOTHING]
    with contextlib.ExitStack() as stack:
        teardown, teardown_end = _pipe(stack)
        alive, alive_end = _pipe(stack)
        ends = {"KERN_STARTED_FD": teardown_end, "KERN_ALIVE_FD": alive_end}
        said = {name: str(end) for name, end in ends.items()}
        try:
            ended = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_WAIT_S,
                pass_fds=tuple(ends.values()),
                env={**os.environ, **record_place(), **said},
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise HostError(
                f"kern did not finish a box within {_PROBE_WAIT_S:g} s:"
                " see `kern doctor`",
                code="host",
            ) from error
        return _Box(
            ended.returncode, _read(teardown), _read(alive), _last_words(ended.stderr)
        )


def _pipe(stack: contextlib.ExitStack) -> tuple[int, int]:
    read_end, write_end = os.pipe()
    stack.callback(os.close, read_end)
    stack.callback(os.close, write_end)
    os.set_blocking(read_end, False)
    return read_end, write_end


def _read(end: int) -> bytes:
    try:
        return os.read(end, 64)
    except BlockingIOError:
        return b""


def _last_words(stderr: bytes) -> str:
    """The line of kern's that names the error, without its advice."""
    lines = stderr.decode("utf-8", "replace").splitlines()
    errors = [line for line in lines if line.startswith("error: ")] or lines or ["?"]
    return errors[-1].removeprefix("error: ")[:200]


def _cgroups() -> str:
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        return "v2"
    if (root / "unified" / "cgroup.controllers").exists():
        return "hybrid"
    return "v1" if (root / "memory").is_dir() else "none"
