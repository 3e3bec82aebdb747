"""Processes that use sandboxes and come to an end, one way or another."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kern_tools.processes import named_boxes, wait_gone

NET_S = 60.0  # what hangs ends the test; nothing is measured

BEGIN = """\
import os, sys, threading, time
from kern_tools import Sandbox, SandboxError
from kern_tools.ownership import owner
def say(*words):
    print(*words, flush=True)
"""
"""What every script begins with."""

CALL = """\
sandbox = Sandbox(prewarm=0, timeout_s=600, **OPTIONS).open()
say(owner().token, sandbox.workspace.root)
sandbox.run_code(CODE, on_stdout=say)
"""
"""Makes a call that goes on for minutes; `{...}` are put in by `calling`."""

ORDINARY = "print('running', flush=True); import time; time.sleep(600)"
STUBBORN = f"import ctypes; ctypes.CDLL(None).prctl(1, 0); {ORDINARY}"
"""Has cleared the signal by which a process ends with its parent."""


@dataclass
class Host:
    """A running script, with what it said so far.

    Attributes:
        token: Stands in the names of what it made.
        workspace: Its sandbox's, on this machine.
    """

    process: subprocess.Popen[str]
    token: str
    workspace: Path

    def boxes(self) -> list[int]:
        """Give pidfds of everything that belongs to its boxes; the caller closes."""
        return [descriptor for _, descriptor in named_boxes(f"kt-{self.token}-")]

    def kill(self) -> None:
        """End it as the kernel does when memory runs out."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def calling(code: str, **options: object) -> Generator[Host]:
    """Run a script that is in the middle of a call.

    Args:
        code: What the call runs; it prints `running`.
        **options: Of the sandbox.
    """
    head = f"{BEGIN}OPTIONS, CODE = {options!r}, {code!r}\n"
    with subprocess.Popen(
        [sys.executable, "-c", head + CALL], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            token, workspace = process.stdout.readline().split()
            assert process.stdout.readline() == "running\n"
            yield Host(process, token, Path(workspace))
        finally:
            process.kill()


def ended(script: str) -> list[str]:
    """Run a script to its end and give the lines it said."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + script],
        capture_output=True,
        text=True,
        timeout=NET_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def wait_until(holds: Callable[[], object]) -> None:
    """Go on once something holds, without taking the processor from who brings it."""
    ends_s = time.monotonic() + NET_S
    while not holds():
        assert time.monotonic() < ends_s, "it never held"
        time.sleep(0.001)


def innermost(thread: int) -> list[str]:
    """Give the names of what a thread is in, the innermost first."""
    names: list[str] = []
    frame = sys._current_frames().get(thread)
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


def wait_all_gone(pidfds: list[int]) -> bool:
    """Wait until processes have ended; close the descriptors."""
    gone = [wait_gone(descriptor, NET_S) for descriptor in pidfds]
    for descriptor in pidfds:
        os.close(descriptor)
    return all(gone)


def alive(pidfds: list[int]) -> bool:
    """Tell whether one of the processes lives; close the descriptors."""
    poll = select.poll()
    for descriptor in pidfds:
        poll.register(descriptor, select.POLLIN)
    ends = len(poll.poll(0))
    for descriptor in pidfds:
        os.close(descriptor)
    return ends < len(pidfds)
