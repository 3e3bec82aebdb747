"""Cells that the adapters' tests run, and a way to wait until one runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kern_tools import Sandbox

LOOP: dict[str, Any] = {
    "code": "print('before', flush=True)\nimport time\ntime.sleep(60)",
    "timeout_s": 2,
}
CHARTS = """
import struct, zlib
def chunk(kind, data):
    crc = struct.pack('>I', zlib.crc32(kind + data))
    return struct.pack('>I', len(data)) + kind + data + crc
class Chart:
    def _repr_png_(self):
        head = struct.pack('>IIBBBBB', 1, 1, 8, 0, 0, 0, 0)
        body = chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(b'\\0\\0'))
        return b'\\x89PNG\\r\\n\\x1a\\n' + body + chunk(b'IEND', b'')
display(Chart())
Chart()
"""

WAITS = """
import time
gate = open('gate', 'w')
gate.write('running')
gate.flush()
time.sleep(50)
open('late', 'w').close()
"""


class Gate:
    """A named pipe in the workspace that `WAITS` holds open while it runs."""

    def __init__(self, sandbox: Sandbox | Path) -> None:
        folder = sandbox if isinstance(sandbox, Path) else sandbox.workspace.root
        self._path = folder / "gate"
        self._descriptor = -1
        os.mkfifo(self._path)

    def wait(self) -> bytes:
        """Block until the cell runs."""
        self._descriptor = os.open(self._path, os.O_RDONLY)
        return os.read(self._descriptor, len("running"))

    def wait_end(self) -> bytes:
        """Block until nothing of the cell is left."""
        return os.read(self._descriptor, 1)

    def is_gone(self) -> bool:
        """Say whether nothing of the cell is left, without waiting."""
        os.set_blocking(self._descriptor, False)
        try:
            return os.read(self._descriptor, 1) == b""
        except BlockingIOError:
            return False

    def close(self) -> None:
        """Let go of the pipe."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
