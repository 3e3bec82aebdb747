"""Print how much 256 results of 1 MiB each take, to a host that keeps them all."""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kern_tools import Sandbox

from .output import CALLS
from .peak import status_bytes

CODE = "print(('x' * 63 + chr(10)) * (1 << 14), end='')"


def main() -> None:
    """Warm up, then make the calls from a few threads."""
    with Sandbox(prewarm=0) as sandbox, ThreadPoolExecutor(4) as threads:
        list(threads.map(sandbox.run_code, [CODE] * 8))
        gc.collect()
        # Source: proc(5), clear_refs: 5 resets the peak to what is held now.
        Path("/proc/self/clear_refs").write_text("5")
        before = status_bytes("VmRSS")
        cpu_s, began_s = time.process_time(), time.perf_counter()
        results = list(threads.map(sandbox.run_code, [CODE] * CALLS))
        wall_s = time.perf_counter() - began_s
        cpu_s = time.process_time() - cpu_s
        peak = status_bytes("VmHWM") - before
        held = sum(len(result.stdout) for result in results)
        assert held == CALLS << 20
    print(wall_s, cpu_s, peak / held)


if __name__ == "__main__":
    main()
