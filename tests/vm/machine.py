"""A small virtual machine in which kern's caps bind, to see a real `oom`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
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


def answers_of(cases: Path, *, timeout_s: float = 400.0) -> list[dict[str, Any]]:
    """Boot the machine, run a Python file in it as root, return what it printed.

    The file finds `kern_tools` importable and the reference of an image that boxes can
    use in `$IMAGE`. Nothing that it writes outlives the machine.

    Args:
        cases: The file; every line it prints is one JSON object.
        timeout_s: After this long the machine is stopped.

    Raises:
        RuntimeError: The file did not end with exit 0 in that time; the message has the
            end of what it said.
    """
    kernel = unpacked(dependency(KERNEL))
    disk = root_disk()
    with tempfile.TemporaryDirectory(prefix="kern-vm-") as folder:
        memory = Path(folder, "memory.cpio")
        memory_disk(kernel, cases, memory)
        console, answers = Path(folder, "console"), Path(folder, "answers")
        _boot(kernel, disk, memory, (console, answers), timeout_s)
        return _read(answers.read_text(), console.read_text(errors="replace"))


def _boot(
    kernel: Path, disk: Path, memory: Path, serial: tuple[Path, Path], timeout_s: float
) -> None:
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
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=timeout_s)


def _acceleration() -> list[str]:
    """KVM only with the processor's own support: its imitations boot no kernel."""
    flags = Path("/proc/cpuinfo").read_text()
    native = re.search(r"^flags\b.*\b(svm|vmx)\b", flags, re.MULTILINE)
    if native and os.access("/dev/kvm", os.R_OK | os.W_OK):
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", "tcg"]


def _read(answers: str, console: str) -> list[dict[str, Any]]:
    lines = answers.splitlines()
    if not lines or lines[-1] != "exit 0":
        raise RuntimeError(
            f"the cases did not end well, or not in time; the {len(lines)} answers"
            f" end with {answers[-200:]!r}, the console with\n{console[-3000:]}"
        )
    return [json.loads(line) for line in lines[:-1]]
