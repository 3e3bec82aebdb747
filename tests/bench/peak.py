"""Print how long one flood of output took, and by how much it raised this process."""

from __future__ import annotations

import gc
import time
from pathlib import Path

from kern_tools import Sandbox
from kern_tools.tools import tools_of

from .output import CODE


def status_bytes(name: str) -> int:
    """Read one size of this process from the kernel."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) << 10
    raise LookupError(f"the kernel says nothing about {name!r}")


def main() -> None:
    """Warm up with a small call, then measure a large one."""
    with Sandbox(prewarm=0) as sandbox:
        (tool,) = tools_of(sandbox, "run_code")
        tool.call({"code": "print('x' * 20_000)"})
        gc.collect()
        # Source: proc(5), clear_refs: 5 resets the peak to what is held now.
        Path("/proc/self/clear_refs").write_text("5")
        before = status_bytes("VmRSS")
        cpu_s, began_s = time.process_time(), time.perf_counter()
        reply = tool.call({"code": CODE})
        wall_s = time.perf_counter() - began_s
        cpu_s = time.process_time() - cpu_s
        peak = status_bytes("VmHWM") - before
        assert reply.result is not None
        assert reply.result.truncated, reply.text
    print(wall_s, cpu_s, peak)


if __name__ == "__main__":
    main()
