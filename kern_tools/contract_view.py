"""What is to be seen, from the host, of code that runs in boxes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .vitals import is_ending

if TYPE_CHECKING:
    from .sandbox import Sandbox

NAME = f"call-{os.getpid()}"
"""What a call names its processes, so that those of this process's calls are known."""
NAMED = f"open('/proc/self/comm', 'w').write({NAME!r})\n"
CLEAR_PARENT_DEATH = "import ctypes, os\nctypes.CDLL(None).prctl(1, 0)\n"
HIDERS = {
    "clears its parent-death signal": CLEAR_PARENT_DEATH,
    "starts a session": "import os\nif os.fork() == 0: os.setsid()\n",
    "forks away": "import os\nfor _ in range(3): os.fork()\n",
    "ignores every signal": "import signal\n"
    "for n in range(1, 32):\n"
    "    if n not in (9, 19): signal.signal(n, signal.SIG_IGN)\n",
}


FORKS = """\
import os, time
children = []
try:
    while len(children) < 100:
        child = os.fork()
        if child == 0:
            time.sleep(60)
        children.append(child)
except OSError as error:
    print(error.errno)
for child in children:
    os.kill(child, 9)
    os.waitpid(child, 0)
"""
"""Forks until it may not, prints why, and ends what it forked."""


def processes_with(word: str) -> list[int]:
    """Give the pids whose command line holds `word`."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if word.encode() in line:
                found.append(int(entry.name))
    return found


def kern_processes(sandbox: Sandbox) -> list[int]:
    """Give the pids of the kern processes that hold the sandbox's boxes."""
    return processes_with(f"src={sandbox.workspace.root}")


def box_processes(sandbox: Sandbox) -> list[int]:
    """Give the pids of everything that runs in the sandbox's boxes.

    Not of what is on its way out: no code of it will run.
    """
    root = sandbox.workspace.root.stat()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            seen = (entry / "root" / "workspace").stat()
            ends = is_ending((entry / "stat").read_bytes())
        except OSError:
            continue
        if not ends and (seen.st_dev, seen.st_ino) == (root.st_dev, root.st_ino):
            found.append(int(entry.name))
    return found


def named_processes() -> list[int]:
    """Give the pids of the processes that a call named, its children included."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*/comm"):
        try:
            stat = (entry.parent / "stat").read_bytes()
            ended = stat.rpartition(b")")[2][1:2] in b"ZX" or is_ending(stat)
            if entry.read_text() == f"{NAME}\n" and not ended:
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found
