"""A small virtual machine in which kern's caps bind, to see a real `oom`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.debian import dependency, program, unpacked

from .disk import memory_disk, root_disk

KERNEL = "linux-image-cloud-amd64"
# Mitigations double the price of every system call of an emulated processor.
BOOT_ARGUMENTS = (
    "console=ttyS0 loglevel=4 panic=-1 random.trust_cpu=on mitigations=off"
    " init_on_alloc=0 audit=0 apparmor=0"
)
GUEST = Path(__file__).parent / "guest"
TOGETHER = tuple(GUEST / f"{name}.py" for name in ("cases", "edges"))
"""What one machine runs, one after the other."""
NET_S = 1100.0
"""After this long the machine is stopped."""


def answers_of(cases: Path) -> list[dict[str, Any]]:
    """Return what a Python file of `guest/` printed as root of the machine.

    The machine is booted once for those that run together. Each finds `kern_tools`
    importable and the reference of an image that boxes can use in `$IMAGE`. Nothing
    that it writes outlives the machine.

    Args:
        cases: The file; every line it prints is one JSON object.

    Raises:
        RuntimeError: The file did not end with exit 0 in time; the message has the end
            of what it said.
    """
    answers, console = _said(TOGETHER if cases in TOGETHER else (cases,))
    # Every answer is an object, so that no line of one can look like this.
    _, *parts = re.split(r"^cases (\w+)\n", answers, flags=re.MULTILINE)
    said = dict(zip(parts[::2], parts[1::2], strict=True)).get(cases.stem, "")
    *lines, end = said.splitlines() or [""]
    if end != "exit 0":
        raise RuntimeError(
            f"{cases.name} did not end well, or not in time; its {len(lines)} answers"
            f" end with {said[-200:]!r}, the console with\n{console[-3000:]}"
        )
    return [json.loads(line) for line in lines]


@cache
def _said(files: tuple[Path, ...]) -> tuple[str, str]:
    """Boot the machine; give the answers of some files, and the console."""
    kernel = unpacked(dependency(KERNEL))
    disk = root_disk()
    with tempfile.TemporaryDirectory(prefix="kern-vm-") as folder:
        memory = Path(folder, "memory.cpio")
        memory_disk(kernel, files, memory)
        console, answers = Path(folder, "console"), Path(folder, "answers")
        _boot(kernel, disk, memory, (console, answers))
        return answers.read_text(), console.read_text(errors="replace")


def _boot(kernel: Path, disk: Path, memory: Path, serial: tuple[Path, Path]) -> None:
    (image,) = kernel.glob("boot/vmlinuz-*")
    command: list[str | Path] = [
        program("qemu-system-x86_64", package="qemu-system-x86"),
        *("-M", "pc", *_acceleration(), "-m", "1024", "-smp", "2"),
        *("-nodefaults", "-no-reboot", "-display", "none"),
        *("-kernel", image, "-initrd", memory, "-append", BOOT_ARGUMENTS),
        *("-drive", f"file={disk},if=virtio,format=raw,snapshot=on"),
    ]
    for port in serial:
        command += ["-serial", f"file:{port}"]
    with contextlib.suppress(subprocess.TimeoutExpired):  # the answers then lack an end
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=NET_S)


def _acceleration() -> list[str]:
    """KVM only with the processor's own support: its imitations boot no kernel."""
    flags = Path("/proc/cpuinfo").read_text()
    native = re.search(r"^flags\b.*\b(svm|vmx)\b", flags, re.MULTILINE)
    if native and os.access("/dev/kvm", os.R_OK | os.W_OK):
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", "tcg"]
