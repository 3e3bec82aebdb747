"""The processes of a box, from the outside."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def box_process(kern_pid: int) -> int | None:
    """Give the pid of the first process inside the box that `kern_pid` supervises.

    Source: `NSpid` in https://man7.org/linux/man-pages/man5/proc_pid_status.5.html: the
    last number is the pid in the innermost namespace, and 1 marks the box's first.
    """
    pending = _children(kern_pid)
    while pending:
        pid = pending.pop()
        numbers = _namespace_pids(pid)
        if len(numbers) > 1 and numbers[-1] == 1:
            return pid
        pending += _children(pid)
    return None


def send_signal(pidfd: int, number: int) -> None:
    """Signal a process; one that has ended is no trouble."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in _listed(_PROC / str(pid) / "task"):
        found += [int(child) for child in _read(task / "children").split()]
    return found


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _namespace_pids(pid: int) -> list[int]:
    for line in _read(_PROC / str(pid) / "status").splitlines():
        if line.startswith("NSpid:"):
            return [int(number) for number in line.split()[1:]]
    return []


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process ended meanwhile
        return ""
