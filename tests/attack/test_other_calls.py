"""Cells that reach for other calls: their output, their files, their processes."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from kern_tools import FaultType, Sandbox, WorkspaceError
from kern_tools.sandbox_contract import (
    CLEAR_PARENT_DEATH,
    box_processes,
    processes_with,
)

WRITES_TO_ALL = """\
import glob, os
def write_to_all(word):
    reached = 0
    for path in glob.glob('/proc/[0-9]*/fd/*'):
        if path.split('/')[2] == str(os.getpid()): continue
        try: handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError: continue
        try: reached += os.write(handle, word.encode())
        except OSError: pass
        os.close(handle)
    return reached
"""
"""Reaches every open file and pipe of every process that `/proc` shows."""

LEAVES = (
    CLEAR_PARENT_DEATH
    + WRITES_TO_ALL
    + """\
import sys, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for n in range(3): os.close(n)
        os.write(write, b'here')
        while True:
            if write_to_all('intruder\\n') and os.path.exists('/workspace/waits'):
                open('/workspace/written', 'w').close()
    os._exit(0)
os.wait()
print(os.read(read, 4).decode(), flush=True)
"""
)
"""Leaves a process that nothing ties to its call, and that writes to all the others."""

WAITS = """\
import os, time
open('/workspace/waits', 'w').close()
while not os.path.exists('/workspace/written'): time.sleep(0.01)
print('mine')
"""

SIBLING = """\
import os, time
open(f'/workspace/began-{NUMBER}', 'w').close()
while not os.path.exists('/workspace/go'): time.sleep(0.01)
print('sibling NUMBER')
"""

MODES = ("fresh", "resident", "kernel")


def test_calls_side_by_side_cannot_write_into_each_other() -> None:
    """A box sees no process of another one, and none of its descriptors."""
    with Sandbox(timeout_s=30, prewarm=0) as sandbox, ThreadPoolExecutor(3) as pool:
        calls = [
            pool.submit(sandbox.run_code, SIBLING.replace("NUMBER", str(number)))
            for number in range(2)
        ]
        waits = (
            "import os, time\n"
            "while len([n for n in os.listdir() if n.startswith('began')]) < 2:"
            " time.sleep(0.01)\n"
        )
        attack = f"{waits}{WRITES_TO_ALL}print(write_to_all('intruder'))"
        assert sandbox.run_code(attack).stdout == "0\n"
        sandbox.write_file("go", "")
        outputs = [call.result().stdout for call in calls]
    assert outputs == ["sibling 0\n", "sibling 1\n"]


def test_what_a_fresh_call_leaves_is_gone_with_it() -> None:
    """No session, no second fork and no cleared signal lives to see the next call."""
    with Sandbox(timeout_s=20, prewarm=0) as sandbox:
        left = sandbox.run_code(LEAVES)
        assert "here\n" in left.stdout
        assert box_processes(sandbox) == []
        assert sandbox.run_code("print('mine')").stdout == "mine\n"


@pytest.mark.parametrize("mode", ["resident", "kernel"])
def test_what_a_call_leaves_in_a_kept_box_can_reach_later_ones(mode: str) -> None:
    """It may write into their output; no verdict changes, and a new box has none."""
    with Sandbox(mode=mode, timeout_s=30) as sandbox:
        assert "here\n" in sandbox.run_code(LEAVES).stdout
        reached = sandbox.run_code(WAITS)
        assert "intruder\n" in reached.stdout
        assert "mine\n" in reached.stdout
        assert (reached.exit_code, reached.fault) == (0, None)
        sandbox.reset()
        assert sandbox.run_code("print('mine')").stdout == "mine\n"
        root = str(sandbox.workspace.root)
    assert processes_with(root) == []


def test_what_a_call_leaves_in_a_kept_box_can_end_later_ones() -> None:
    """In `resident` mode the later call then reads as killed, by code of its box."""
    kills = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    mine = os.getpid()\n"
        "    while not os.path.exists('/workspace/waits'): time.sleep(0.01)\n"
        "    for name in os.listdir('/proc'):\n"
        "        if name.isdigit() and int(name) not in (1, mine):\n"
        "            try: os.kill(int(name), 9)\n"
        "            except OSError: pass\n"
        "    os._exit(0)\n"
    )
    with Sandbox(mode="resident", timeout_s=30) as sandbox:
        assert sandbox.run_code(kills).fault is None
        ended = sandbox.run_code(WAITS)
        assert ended.fault_type == FaultType.KILLED
        assert ended.fault is not None
        assert "code of the box" in ended.fault.message
        assert ended.fault.actor == "model"
        assert sandbox.run_code("print('on')").stdout == "on\n"


@pytest.mark.parametrize("mode", MODES)
def test_nothing_that_hides_outlives_its_sandbox(mode: str) -> None:
    """Closing ends sessions, second forks and what has cleared its signal."""
    sandbox = Sandbox(mode=mode, timeout_s=20).open()
    root = str(sandbox.workspace.root)
    sandbox.run_code(LEAVES)
    sandbox.close()
    assert processes_with(root) == []


@pytest.mark.parametrize("mode", MODES)
def test_a_cell_cannot_signal_the_host(mode: str) -> None:
    """Whatever number it kills, no process outside its box hears it."""
    heard: list[int] = []
    usual = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    try:
        code = (
            "import os\n"
            f"for pid in (0, -1, {os.getpid()}, {os.getppid()}, *range(2, 2000)):\n"
            "    try: os.kill(pid, 10)\n"
            "    except OSError: pass\n"
        )
        with Sandbox(mode=mode, timeout_s=20) as sandbox:
            sandbox.run_code(
                f"import signal\nsignal.signal(10, signal.SIG_IGN)\n{code}"
            )
            assert sandbox.run_code("print('on')").stdout == "on\n"
    finally:
        signal.signal(signal.SIGUSR1, usual)
    assert heard == []


def test_two_sandboxes_share_nothing_that_can_be_written() -> None:
    """Workspace, scratch, shared memory and abstract sockets are one's own."""
    leave = (
        "import socket\n"
        "for folder in ('/tmp', '/dev/shm', '/workspace'):\n"
        "    open(f'{folder}/left', 'w').write('x')\n"
        "end = socket.socket(socket.AF_UNIX)\nend.bind('\\0left')\nend.listen()\n"
    )
    look = (
        "import os, socket\n"
        "print([f for f in ('/tmp', '/dev/shm', '/workspace')"
        " if os.path.exists(f'{f}/left')])\n"
        "try: socket.socket(socket.AF_UNIX).connect('\\0left')\n"
        "except OSError as error: print(error.strerror)\n"
    )
    with (
        Sandbox(mode="kernel", timeout_s=20) as one,
        Sandbox(mode="kernel", timeout_s=20) as other,
    ):
        assert one.run_code(leave).success
        assert other.run_code(look).stdout == "[]\nConnection refused\n"
        assert "'/tmp', '/dev/shm', '/workspace'" in one.run_code(look).stdout


def test_a_cell_cannot_reach_the_workspace_of_another() -> None:
    """Not by a path of the host, and not by a link left in its own."""
    with Sandbox(timeout_s=20) as one, Sandbox(timeout_s=20) as other:
        one.write_file("secret", "of one")
        path = one.workspace.root / "secret"
        code = (
            f"import os\nos.symlink({str(path)!r}, 'link')\n"
            f"for path in ({str(path)!r}, 'link', '../secret', '/proc/1/root{path}'):\n"
            "    try: print(open(path).read())\n"
            "    except OSError as error: print(error.errno)\n"
        )
        assert "of one" not in other.run_code(code).stdout
        with pytest.raises(WorkspaceError):
            other.read_file("link")
