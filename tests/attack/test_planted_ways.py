"""What a cell leaves in the way of every tool that touches files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from kern_tools import Sandbox, WorkspaceError
from kern_tools.reply import Reply
from kern_tools.tools import Tool, tools_of
from tests.depth import crossed

from .reader import read_reply

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

PLANT = """\
import os, socket
os.makedirs('d', exist_ok=True)
os.mkfifo('pipe')
os.symlink('/etc/passwd', 'link')
os.symlink('/etc', 'away')
os.symlink('loop', 'loop')
os.symlink('/proc/self/environ', 'environ')
os.symlink('/dev/zero', 'endless')
os.symlink('d/real.txt', 'inside')
os.symlink('..', 'up')
socket.socket(socket.AF_UNIX).bind('socket')
open('d/real.txt', 'w').write('needle of the workspace\\n')
for folder in ('d', '.'):
    for name in ('a', 'b'): os.mkfifo(f'{folder}/{name}.txt')
print('planted')
"""
NOT_FILES = ("pipe", "link", "loop", "environ", "endless", "inside", "socket", "a.txt")
THROUGH = ("away/passwd", "link/x", "pipe/x", "up/x", "loop/x", "socket/x")
MODES = ("fresh", "resident", "kernel")


@pytest.fixture(scope="module", params=MODES)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox whose workspace a cell has mined, and a device besides."""
    with Sandbox(mode=request.param, timeout_s=20) as sandbox:
        assert sandbox.run_code(PLANT).stdout == "planted\n"
        if os.geteuid() == 0:  # a box has no leave to make one
            device = sandbox.workspace.root / "device"
            os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
        yield sandbox


def tool(sandbox: Sandbox, name: str) -> Tool:
    """Give a tool of the coding set."""
    return next(each for each in tools_of(sandbox, "coding") if each.name == name)


def assert_refused(reply: Reply, *codes: str) -> None:
    """Check that a tool answered at once, with one line that names the reason."""
    assert reply.error in codes
    assert reply.text.startswith(f"error: {reply.error}. ")
    assert len(reply.text.splitlines()) == 1
    assert "root:" not in reply.text


def in_the_way() -> list[str]:
    """Give what stands where a file is wanted, the device where there can be one."""
    return [*NOT_FILES, *(["device"] if os.geteuid() == 0 else []), *THROUGH]


@pytest.mark.parametrize("path", in_the_way())
def test_no_tool_reads_or_writes_through_what_was_planted(
    sandbox: Sandbox, path: str
) -> None:
    """Pipes are not waited for, links not followed, and nothing is replaced."""
    before = os.lstat(sandbox.workspace.root / path.split("/")[0])
    for name, more in (
        ("read_file", {}),
        ("write_file", {"content": "x"}),
        ("edit_file", {"old": "root", "new": "x"}),
        ("list_files", {}),
    ):
        reply = tool(sandbox, name).call({"path": path, **more})
        assert_refused(reply, "not_regular")
    after = os.lstat(sandbox.workspace.root / path.split("/")[0])
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)


@pytest.mark.parametrize("path", in_the_way())
def test_a_search_sees_what_its_box_sees(sandbox: Sandbox, path: str) -> None:
    """It runs as code of the sandbox: a link leads to files of the image at most."""
    own = sandbox.run_code("print(open('/etc/passwd').read())").stdout
    reply = tool(sandbox, "search_files").call({"path": path, "pattern": "root|needle"})
    assert reply.fault_type is None
    shown = [
        line.partition(": ")[2] for line in reply.text.splitlines() if "root" in line
    ]
    assert all(line in own for line in shown)
    assert "needle of" not in reply.text


def test_tools_that_walk_show_regular_files_only(sandbox: Sandbox) -> None:
    """A listing, a search and a pattern pass by what was planted."""
    listed = tool(sandbox, "list_files").call({})
    assert listed.text.split("\n")[0].startswith("ok, 1 file")
    assert "d/real.txt" in listed.text
    found = tool(sandbox, "search_files").call({"pattern": "needle|root:"})
    assert "d/real.txt" in found.text
    assert "root:x" not in found.text
    named = tool(sandbox, "find_files").call({"pattern": "**/*.txt"})
    assert "d/real.txt" in named.text
    assert "a.txt" not in named.text


def test_a_long_output_is_kept_past_what_was_planted(sandbox: Sandbox) -> None:
    """Our own directory is the code's to plant as well, and nothing leads out of it."""
    code = (
        "import os, shutil\nshutil.rmtree('.kern', ignore_errors=True)\n"
        "os.symlink('/etc', '.kern')\nprint('x' * 50_000)"
    )
    reply = tool(sandbox, "run_code").call({"code": code}, call_id="planted")
    kept = read_reply(reply.text).shown["stdout"].kept_in
    assert kept == ".kern/out-planted.txt"
    assert not (sandbox.workspace.root / ".kern").is_symlink()
    assert b"x" * 50_000 in sandbox.read_file(kept)


def test_what_was_planted_is_neither_exported_nor_kept(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """An export copies regular files, and a snapshot holds nothing of the host's."""
    copies = sandbox.export(tmp_path / "out")
    names = {path.relative_to(tmp_path / "out").as_posix() for path in copies}
    assert names == {"d/real.txt"}
    sandbox.snapshot(tmp_path / "kept.tar.gz")
    with Sandbox(timeout_s=20, prewarm=0) as other:
        other.restore(tmp_path / "kept.tar.gz")
        with pytest.raises(WorkspaceError):
            other.read_file("link")
        assert [file.path for file in other.list_files()] == ["d/real.txt"]


def test_names_that_change_under_a_tool_lead_nowhere(tmp_path: Path) -> None:
    """A process of the box swaps files, links and pipes while the host reads them."""
    swaps = """\
import os
if os.fork() == 0:
    os.setsid()
    while not os.path.exists('stop'):
        for make in (
            lambda: open('new', 'w').write('harmless'),
            lambda: os.symlink('/etc/passwd', 'new'),
            lambda: os.mkfifo('new'),
        ):
            make()
            os.rename('new', 'name')
    os._exit(0)
"""
    with Sandbox(mode="resident", timeout_s=20) as sandbox:
        sandbox.run_code(swaps)
        read, write = tool(sandbox, "read_file"), tool(sandbox, "write_file")
        for _ in range(150):
            for reply in (
                read.call({"path": "name"}),
                write.call({"path": "name", "content": "harmless"}),
            ):
                assert reply.error in (None, "not_regular", "not_found")
                assert "root:" not in reply.text
        sandbox.write_file("stop", "")
    assert "harmless" not in Path("/etc/passwd").read_text(encoding="utf-8")


def test_a_workspace_full_of_everything_is_still_served(sandbox: Sandbox) -> None:
    """Deep, wide and long names cost a tool its bounds and no more."""
    code = (
        "import os\nos.makedirs('full', exist_ok=True)\nos.chdir('full')\n"
        "for n in range(1500): open(f'{n}', 'w').close()\n"
        "for _ in range(200):\n"
        "    os.mkdir('x' * 250); os.chdir('x' * 250)\n"
        "os.chdir('/workspace')"
    )
    assert sandbox.run_code(code).exit_code == 0
    listed = tool(sandbox, "list_files").call({"path": "full"})
    assert listed.text.startswith("ok, 1,500 files")
    assert len(listed.text) <= sandbox.config.budget.text_chars
    assert sandbox.read_file("full/7") == b""
    assert sandbox.run_code("import shutil\nshutil.rmtree('full')").exit_code == 0
