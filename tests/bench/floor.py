"""The least that a call can cost: kern alone, or two Pythons and nothing else."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from kern_tools import SandboxConfig
from kern_tools.binary import find_kern
from kern_tools.image import ensure_image
from kern_tools.launch import Launcher

_NUMBERS = itertools.count()
_ANSWERING = """\
import socket, sys
asked = socket.socket(fileno=int(sys.argv[1]))
while code := asked.recv(1 << 16):
    asked.sendall(repr(eval(compile(code, "<cell>", "eval"))).encode())
"""


@contextmanager
def two_pythons() -> Generator[Callable[[bytes], bytes]]:
    """Give what has another Python tell the value of an expression.

    There is no sandbox, no stream, no file and no time limit: what is left is the way
    there and back.
    """
    ours, theirs = socket.socketpair()
    number = str(theirs.fileno())
    argv = [sys.executable, "-I", "-S", "-c", _ANSWERING, number]
    with subprocess.Popen(argv, pass_fds=[theirs.fileno()]), ours:
        theirs.close()

        def ask(code: bytes) -> bytes:
            ours.sendall(code)
            return ours.recv(1 << 16)

        yield ask


class KernAlone:
    """Starts the box that a sandbox would start, to run `python3 -I -S -c CODE`.

    Args:
        config: The sandbox's options.
        workspace: Its workspace.
        code: What the box runs.
    """

    def __init__(self, config: SandboxConfig, workspace: Path, code: str) -> None:
        launcher = Launcher(
            kern=find_kern(),
            config=config,
            image=ensure_image(config.image, packages=config.packages),
            workspace=workspace,
        )
        launch = launcher.driven(config.timeout_s)
        flags = launch.argv[: launch.argv.index("--") + 1]
        self.argv = [*flags, "python3", "-I", "-S", "-c", code]
        self._environ = launch.environ

    def run(self, read: Callable[[int], int]) -> int:
        """Run it to its end.

        Args:
            read: Reads a descriptor to its end and counts the bytes.

        Returns:
            What `read` gave.
        """
        self.argv[2] = f"kt-bench-{next(_NUMBERS)}"
        with subprocess.Popen(
            self.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environ,
            start_new_session=True,
        ) as kern:
            assert kern.stdout is not None
            assert kern.stderr is not None
            count = read(kern.stdout.fileno())
            said = kern.stderr.read()
        assert kern.returncode == 0, said
        return count


def drain(descriptor: int) -> int:
    """Read a descriptor to its end and keep nothing."""
    scratch = bytearray(1 << 18)
    total = 0
    while count := os.readv(descriptor, [scratch]):
        total += count
    return total
