"""Runs inside the virtual machine: what caps come to where they bind."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from kern_tools import ExecutionResult, Sandbox, SandboxError
from kern_tools.host_image import host_reference

CAP_MB = 64
HOG = "x = bytearray(200 << 20)"
FILL = (
    "with open('{path}', 'wb') as f:\n    for _ in range(96): f.write(bytes(1 << 20))"
)
LIMITS = """\
for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max"):
    print(open(f"/sys/fs/cgroup/{name}").read().strip())
"""
PROFILE = f"""\
[[vcpu]]
name = "small"
backend = "host"
memory = "{CAP_MB}m"
"""
FORKS = """\
import os, time
for _ in range(100):
    if os.fork() == 0: time.sleep(60)
"""


def cell(code: str, language: str = "python", **options: Any) -> ExecutionResult:
    """Run one cell in a box whose caps bind."""
    chosen = {"memory_mb": CAP_MB, "require_limits": True, "prewarm": 0, **options}
    with Sandbox(**chosen) as sandbox:
        return sandbox.run_code(code, language)


def session(mode: str) -> list[ExecutionResult]:
    """Run three cells in one box, the second of which outgrows its memory."""
    with Sandbox(mode=mode, memory_mb=CAP_MB, require_limits=True) as sandbox:
        cells = (
            "name = 1\nopen('kept.txt', 'w').write('kept');",
            f"print('before', flush=True)\n{HOG}",
            "print(open('kept.txt').read(), 'name' in dir())",
            "print('on')",
        )
        return [sandbox.run_code(code) for code in cells]


def on_disk(code: str) -> ExecutionResult:
    """Run a cell whose workspace is on a disk; `/tmp` of this machine is memory."""
    with tempfile.TemporaryDirectory(dir="/root") as folder:
        return cell(code, workspace=folder)


def tell(name: str, *results: ExecutionResult) -> None:
    """Print one case's results."""
    shown = [result.model_dump(mode="json") for result in results]
    print(json.dumps({"case": name, "results": shown}), flush=True)


def by_profile() -> ExecutionResult:
    """Outgrow the memory that a profile of kern's settings gives."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "kern/kern.toml")
        settings.parent.mkdir()
        settings.write_text(PROFILE)
        os.environ["XDG_CONFIG_HOME"] = folder
        try:
            return cell(HOG, memory_mb=None, profiles=["vcpu:small"])
        finally:
            del os.environ["XDG_CONFIG_HOME"]


def refused() -> None:
    """Print what a setup comes to that outgrows the memory of the sandbox."""
    try:
        Sandbox(setup=f"python3 -c '{HOG}'", memory_mb=CAP_MB, prewarm=0).open()
    except SandboxError as error:
        print(json.dumps({"case": "setup", "results": [{"error": str(error)}]}))


command = ["kern", "tag", os.environ["IMAGE"], host_reference()]
subprocess.run(command, check=True, capture_output=True)
for each in ("resident", "kernel"):
    tell(each, *session(each))
tell("handled", cell(f"python3 -c '{HOG}' || echo handled", "sh"))
tell("scratch", cell(FILL.format(path="/tmp/big"), tmpfs={"/tmp": f"{CAP_MB}m"}))
tell("scratch by default", cell(FILL.format(path="/tmp/big")))
tell("workspace in memory", cell(FILL.format(path="big")))
tell("workspace on disk", on_disk(FILL.format(path="big")))
tell("limits", cell(LIMITS, cpus=0.5, pids=32))
tell("profile", by_profile())
tell("forks", cell(FORKS, pids=16))
refused()
