"""What a bench ran on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import kern_tools
from kern_tools.binary import find_kern, kern_version


def machine() -> dict[str, str]:
    """Describe this machine and the versions that count, by name of the fact."""
    cores = len(os.sched_getaffinity(0))
    return {
        "CPU": f"{cores} x {_fact('/proc/cpuinfo', 'model name')}",
        "memory": f"{int(_fact('/proc/meminfo', 'MemTotal').split()[0]) >> 20} GiB",
        "Linux": platform.release(),
        "Python": platform.python_version(),
        "kern": str(kern_version(find_kern())),
        "kern-tools": kern_tools.__version__,
    }


def load() -> float:
    """Tell how many processes were ready to run, on average over the last minute."""
    return round(os.getloadavg()[0], 2)


def _fact(file: str, name: str) -> str:
    for line in Path(file).read_text("utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"
