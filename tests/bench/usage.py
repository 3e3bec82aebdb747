"""The CPU time of this process and its children, and the rest between two runs."""

from __future__ import annotations

import os
import resource
import time
from contextlib import suppress
from pathlib import Path

_REST_MAX_S = 1.0


def used_cpu_s() -> float:
    """Add up user and system time, that of the children reaped so far included."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def rest(pace_s: float, idle: int) -> float:
    """Pause, and go on while children are being ended: then their CPU time is known.

    Args:
        pace_s: The least to wait.
        idle: How many children stay, such as boxes kept warm.

    Returns:
        The CPU time that watching took, in seconds.
    """
    began_s, used_s = time.perf_counter(), time.thread_time()
    time.sleep(pace_s)
    while children() > idle and time.perf_counter() < began_s + _REST_MAX_S:
        time.sleep(0.005)
    return time.thread_time() - used_s


def children() -> int:
    """Count the processes that this one started and has not reaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    parent = str(os.getpid())
    count = 0
    for stat in Path("/proc").glob("[1-9]*/stat"):
        with suppress(OSError):  # It ended meanwhile.
            count += stat.read_text("utf-8").rpartition(")")[2].split()[1] == parent
    return count
