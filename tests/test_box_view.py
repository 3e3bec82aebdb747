"""What code finds around it, in every mode: places, numbers, names, privileges."""

from __future__ import annotations

import ast
import os
import platform
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kern_tools import ExecutionResult, Sandbox

from .debian import CACHE

SIZES = """\
import os
def size(path):
    found = os.statvfs(path)
    return found.f_blocks * found.f_frsize
print({path: size(path) for path in ('/tmp', '/dev/shm', '/workspace')})
"""
MOUNT = "import ctypes; ctypes.CDLL(None).mount(b'n', b'/tmp', b'tmpfs', 0, 0)"


@pytest.fixture(scope="module", params=["fresh", "resident", "kernel"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Give one sandbox of each mode."""
    with Sandbox(mode=request.param, memory_mb=200) as opened:
        yield opened


def ran(sandbox: Sandbox, code: str) -> ExecutionResult:
    """Run code that has to end well."""
    result = sandbox.run_code(code)
    assert result.success, (result.fault, result.code_stderr)
    return result


def seen(sandbox: Sandbox, code: str) -> Any:
    """Give the plain value that code prints."""
    return ast.literal_eval(ran(sandbox, code).stdout)


# Places


def test_memory_that_looks_like_disk_is_sized_by_the_cap(sandbox: Sandbox) -> None:
    """Shared memory is as large as `memory_mb`, scratch at most half of it."""
    sizes = seen(sandbox, SIZES)
    assert sizes["/dev/shm"] == 200 << 20
    assert sizes["/tmp"] == 64 << 20


def test_a_full_scratch_is_an_error_of_the_code(sandbox: Sandbox) -> None:
    """The default is less than the cap, so the box lives on."""
    code = (
        "import os\ntry:\n    with open('/tmp/big', 'wb') as f:\n"
        "        while True: f.write(bytes(1 << 20))\nfinally: os.unlink('/tmp/big')"
    )
    result = sandbox.run_code(code)
    assert (result.exit_code, result.fault) == (1, None)
    assert "No space left on device" in result.code_stderr
    assert result.state_lost is False


# What is the host's


def test_the_kernel_is_the_hosts(sandbox: Sandbox) -> None:
    """The same release answers inside and outside: a box is no machine."""
    release = seen(sandbox, "import os\nprint(repr(os.uname().release))")
    assert release == platform.release()


def test_load_and_memory_are_those_of_the_host(sandbox: Sandbox) -> None:
    """A program that sizes itself by them sees the machine, not its cap."""
    code = "import os\nprint((os.getloadavg()[2], os.sysconf('SC_PHYS_PAGES')))"
    load, pages = seen(sandbox, code)
    assert abs(load - os.getloadavg()[2]) < 1
    assert pages == os.sysconf("SC_PHYS_PAGES")


def test_the_workspace_shows_the_disk_of_the_host(sandbox: Sandbox) -> None:
    """`df` there is true of the host's file system, which no option bounds."""
    host = os.statvfs(sandbox.workspace.root)
    assert seen(sandbox, SIZES)["/workspace"] == host.f_blocks * host.f_frsize


def test_a_file_may_be_larger_than_the_memory_cap(sandbox: Sandbox) -> None:
    """The workspace is charged to the disk of the host, and to nothing else."""
    code = (
        "import os\nwith open('big', 'wb') as f:\n"
        "    for _ in range(96): f.write(bytes(1 << 20))\n"
        "print(os.path.getsize('big'))"
    )
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:  # /tmp may be memory
        options = {"mode": sandbox.config.mode, "workspace": folder, "prewarm": 0}
        with Sandbox(memory_mb=48, **options) as small:
            assert seen(small, code) == 96 << 20
        assert Path(folder, "big").stat().st_size == 96 << 20


def test_the_clock_and_the_words_are_plain(sandbox: Sandbox) -> None:
    """UTC and UTF-8, whatever the host has; the box has a name of its own."""
    code = (
        "import socket, sys, time\n"
        "print((time.tzname[0], sys.getfilesystemencoding(), socket.gethostname()))"
    )
    zone, encoding, name = seen(sandbox, code)
    assert (zone, encoding) == ("UTC", "utf-8")
    assert name.startswith("kt-")
    assert name != platform.node()


# Privileges


def test_a_blocked_call_in_a_child_is_no_fault(sandbox: Sandbox) -> None:
    """The child ends by SIGSYS; code that waited for it goes on."""
    code = (
        "import subprocess, sys\n"
        f"print(subprocess.run([sys.executable, '-c', {MOUNT!r}]).returncode)"
    )
    assert seen(sandbox, code) == -31


def test_root_of_a_box_is_the_user_of_this_process(sandbox: Sandbox) -> None:
    """What code writes belongs to whoever opened the sandbox."""
    assert ran(sandbox, "import os\nopen('mine', 'w')\nprint(os.getuid())").stdout == (
        "0\n"
    )
    assert (sandbox.workspace.root / "mine").stat().st_uid == os.getuid()


@pytest.mark.parametrize("prewarm", [0, 1])
def test_a_signal_to_the_whole_group_reaches_nobody_outside(prewarm: int) -> None:
    """Such as kern, whose group the box was started in."""
    with Sandbox(prewarm=prewarm) as sandbox:
        result = sandbox.run_code("import os\nos.kill(0, 9)\nprint('goes on')")
    assert (result.stdout, result.fault) == ("goes on\n", None)


def test_files_past_the_bound_are_counted(sandbox: Sandbox) -> None:
    """A call that changes thousands lists the first thousand."""
    result = sandbox.run_code("for n in range(1_003): open(f'{n}', 'w').close()")
    assert (len(result.files), result.files_omitted) == (1000, 3)
