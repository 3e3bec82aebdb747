"""Who ended a run, read from evidence that code in the box cannot write."""

from __future__ import annotations

import errno
import signal
from dataclasses import dataclass
from typing import Literal

from .faults import FaultType, SandboxFault, startup_fault

EndedBy = Literal["deadline", "workspace_full", "cancel", "close"]
NOTHING_RAN = 125
KILLED = 137


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the engine saw of one call's end.

    Attributes:
        ended_by: Our own reason to kill the box, if we did.
        ran: The workload had begun: the driver's hello, or the end of kern's setup.
        may_have_run: Where it had not, as far as we know, nothing would have told.
        exit_code: The driver's word, for a call it finished itself; minus the signal
            for a child that one ended.
        exec_failure: errno, whether the file exists, and the path tried.
        status: The supervisor's wait status as `subprocess` gives it, if we got it.
        reaped: The supervisor has ended, and what kern says is complete.
        started: kern's bytes at teardown: started, caps, oom, signal.
        box_gone: The call took its box with it.
        alive: kern's bytes while building; an `x` says that setup or exec failed.
    """

    ended_by: EndedBy | None = None
    ran: bool = False
    may_have_run: bool = False
    exit_code: int | None = None
    exec_failure: tuple[int, bool, str] | None = None
    status: int | None = None
    reaped: bool = False
    started: bytes = b""
    alive: bytes = b""
    box_gone: bool = True

    @property
    def limits_enforced(self) -> bool | None:
        """The second byte: caps: 1 means enforced, 2 not."""
        return {1: True, 2: False}.get(self._byte(1))

    @property
    def signal(self) -> int:
        """The signal that ended the workload, 0 for none."""
        return max(self._byte(3), 0)

    @property
    def oom(self) -> bool:
        """The kernel's OOM killer took the box against its own cap."""
        return self._byte(2) == 1

    def _byte(self, index: int) -> int:
        return self.started[index] if len(self.started) > index else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a message needs to name: the limits, the image and the command."""

    timeout_s: float
    memory_mb: int | None
    workspace_max_bytes: int | None
    image: str
    command: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The fault, if any, with the exit code and the crash signal."""

    fault: SandboxFault | None
    exit_code: int
    signal: int | None = None


def judge(seen: Evidence, terms: Terms) -> Verdict:
    """Say who ended the run; the order of the questions is the contract's."""
    if seen.ended_by is not None:
        return _ours(seen, terms)
    if seen.exec_failure is not None:
        return _exec_failed(seen.exec_failure, terms)
    if seen.exit_code is not None and seen.exit_code >= 0:
        return Verdict(None, seen.exit_code)
    if seen.exit_code is not None:
        return _child_by_signal(-seen.exit_code)
    if not seen.ran:
        return _never_ran(seen, terms)
    return _ended_itself(seen, terms)


def _ours(seen: Evidence, terms: Terms) -> Verdict:
    if seen.ended_by == "workspace_full":
        return Verdict(workspace_full(terms.workspace_max_bytes), KILLED)
    if seen.ended_by == "deadline" and not seen.ran:
        fault = startup_fault(
            "slow_build",
            f"the box was not ready within the {terms.timeout_s:g} s limit; none of the"
            " code ran",
            retryable=True,
        )
        return Verdict(fault, NOTHING_RAN)
    if seen.ended_by == "deadline":
        message = f"stopped at the {terms.timeout_s:g} s limit"
        return Verdict(SandboxFault(type=FaultType.TIMEOUT, message=message), KILLED)
    return Verdict(_killed("the box was ended with its sandbox"), KILLED)


def workspace_full(max_bytes: int | None) -> SandboxFault:
    """Give the fault of a workspace over its cap."""
    return SandboxFault(
        type=FaultType.WORKSPACE_FULL,
        message=f"the workspace went over its {max_bytes:,}-byte limit"
        if max_bytes is not None
        else "the workspace went over its limit",
    )


def _exec_failed(failure: tuple[int, bool, str], terms: Terms) -> Verdict:
    number, exists, path = failure
    if not exists:
        message = f"{path!r} is not in the image {terms.image!r}"
        reason, code = "not_found", 127
    elif number == errno.ENOENT:  # of a file that is there: its `#!` line
        message = f"{path!r} names an interpreter the image {terms.image!r} lacks"
        reason, code = "interpreter", 126
    else:
        message = f"{path!r} is in the image {terms.image!r} but cannot be executed"
        reason, code = "not_executable", 126
    return Verdict(
        SandboxFault(type=FaultType.EXEC_FAILED, message=message, reason=reason), code
    )


def _never_ran(seen: Evidence, terms: Terms) -> Verdict:
    if b"x" in seen.alive and seen.started and seen.status in (126, 127):
        return _exec_failed((0, seen.status == 126, terms.command), terms)
    code = seen.status if seen.status is not None and seen.status > 0 else NOTHING_RAN
    ran = "the code may have run" if seen.may_have_run else "none of the code ran"
    fault = startup_fault(
        "host",
        f"the box did not start (kern's exit code {code}); {ran}, and kern's own words"
        " are in runtime_notes",
    )
    return Verdict(fault, code)


def _ended_itself(seen: Evidence, terms: Terms) -> Verdict:
    if seen.oom:
        size = "" if terms.memory_mb is None else f"{terms.memory_mb} MiB "
        message = f"out of memory: the box went over its {size}limit"
        return Verdict(SandboxFault(type=FaultType.OOM, message=message), KILLED)
    if seen.signal:
        return _by_signal(seen.signal)
    if seen.status is None:
        message = (
            "the box's exit status was lost: this process ignores SIGCHLD, or reaps"
        )
        return Verdict(_killed(f"{message} children that are not its own"), KILLED)
    if not seen.started and seen.status < 0:
        return Verdict(_killed("the box was killed from outside"), KILLED)
    return Verdict(None, seen.status)


def _child_by_signal(number: int) -> Verdict:
    """A resident's child: its signals may be its own doing, as those of any process."""
    if number != signal.SIGKILL:
        return _by_signal(number)
    message = (
        "the call's process was killed (SIGKILL), by code of the box or outside it"
    )
    fault = SandboxFault(type=FaultType.KILLED, message=message)
    return Verdict(fault, KILLED)


def _by_signal(number: int) -> Verdict:
    if number == signal.SIGSYS:
        message = "a system call that the sandbox forbids was made; the kernel ended it"
        fault = SandboxFault(type=FaultType.ESCAPE_BLOCKED, message=message)
        return Verdict(fault, 128 + number)
    if number == signal.SIGKILL:
        return Verdict(_killed("the box was killed from outside"), KILLED)
    return Verdict(None, 128 + number, number)


def _killed(message: str) -> SandboxFault:
    return SandboxFault(type=FaultType.KILLED, message=message, actor="operator")
