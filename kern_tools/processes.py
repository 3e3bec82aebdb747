"""The processes of a box, from the outside."""

from __future__ import annotations

import os
import select
import signal
import stat
from collections.abc import Iterator
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


def named_boxes(prefix: str) -> Iterator[tuple[str, int]]:
    """Find the processes of boxes whose names begin with `prefix`, also of orphans.

    Yields:
        The box's name and a pidfd, which the caller closes: of kern, or of the first
        process in the box, with which all others there end.
    """
    for entry in _listed(_PROC):
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            descriptor = os.pidfd_open(int(entry.name))
            name = _box_name(entry)
            # Alive after its name was read: the name is not that of a successor.
            if name.startswith(prefix) and not _has_ended(descriptor):
                yield name, descriptor
            else:
                os.close(descriptor)


def wait_gone(pidfd: int, timeout_s: float) -> bool:
    """Wait until a process has ended; tell whether it has."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def _has_ended(pidfd: int) -> bool:
    return wait_gone(pidfd, 0)


def _box_name(entry: Path) -> str:
    """Give the name of the box that a process belongs to; empty for other processes."""
    command = _read(entry / "cmdline").split("\0")
    if len(command) > 2 and command[1] == "box" and Path(command[0]).name == "kern":
        return command[2]
    numbers = _namespace_pids(int(entry.name))
    if len(numbers) < 2 or numbers[-1] != 1:
        return ""
    return _first_line(entry / "root" / "etc" / "hostname")


def _first_line(path: Path) -> str:
    """Read a file that code in a box may have put there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return os.read(descriptor, 256).decode("ascii", "replace").partition("\n")[0]
    finally:
        os.close(descriptor)


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
        return path.read_text(errors="replace")
    except OSError:  # the process ended meanwhile
        return ""
