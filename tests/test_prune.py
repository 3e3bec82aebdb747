"""What a process leaves when it ends or is killed, and who removes it."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import json
import os
import sys
from math import inf
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kern_tools import Sandbox
from kern_tools.cli import app
from kern_tools.faults import HostError
from kern_tools.ownership import dead_owner, owned_folder, owner, tokens
from kern_tools.processes import _first_line, box_process
from kern_tools.prune import PruneReport, _prune_ours
from kern_tools.prune import prune as prune_all

from .depth import partly
from .hosts import ORDINARY, STUBBORN, alive, calling, ended, wait_all_gone

JOIN = """\
for thread in threading.enumerate():
    if thread.name == "kern-tools-prune":
        thread.join()
"""


@pytest.fixture
def marks(fresh_cache: Path) -> Path:
    """Give the folder of marks of this test's processes alone."""
    return fresh_cache / "owners"


def prune(dry_run: bool = False) -> PruneReport:
    """Look for what processes left; the images are those of whoever runs the tests."""
    return prune_all(dry_run, older_than_days=inf)


def killed(code: str = ORDINARY) -> tuple[str, Path]:
    """Have a process killed in the middle of a call; give its token and workspace."""
    with calling(code) as host:
        boxes = host.boxes()
        host.kill()
        if code == STUBBORN:
            assert alive(boxes)
        else:
            assert wait_all_gone(boxes)
        return host.token, host.workspace


# The end of a process


ENDS = {
    "falls off": "",
    "exits": "sys.exit(0)\n",
    "closes": "sandbox.close()\n",
    "forgets": "del sandbox\n",
}
PAIRS = [(mode, end) for mode in ("fresh", "resident", "kernel") for end in ENDS]


TAKEN = {
    *(("fresh", "falls off"), ("fresh", "forgets"), ("resident", "exits")),
    *(("kernel", "closes"), ("kernel", "falls off")),
}


# Each mode and each end at least once; `make verify` takes every pair.
@pytest.mark.parametrize(
    ("mode", "end"),
    partly(PAIRS, TAKEN.__contains__),
)
def test_a_process_that_ends_leaves_nothing(marks: Path, mode: str, end: str) -> None:
    """Whether it closed its sandbox or not."""
    script = (
        f"sandbox = Sandbox(mode={mode!r}, env={{'PYTHONHASHSEED': '1'}}).open()\n"
        'sandbox.run_code(\'open("a", "w")\')\n'
        "say(sandbox.workspace.root)\n"
        "from kern_tools.launch import private_folder\n"
        "say(private_folder())\n"
    )
    paths = [Path(line) for line in ended(script + ENDS[end])]
    assert [path.exists() for path in paths] == [False, False]
    assert list(marks.iterdir()) == []


def test_a_workspace_of_yours_stays(marks: Path, tmp_path: Path) -> None:
    """Only what was made for the sandbox goes with it."""
    script = f"Sandbox(workspace={str(tmp_path)!r}).open().write_file('a', 'kept')\n"
    ended(script)
    assert (tmp_path / "a").read_text() == "kept"


# A killed process


@pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
def test_ordinary_code_ends_with_its_host(marks: Path, mode: str) -> None:
    """Long before its own time limit, with nobody there to end it."""
    with calling(ORDINARY, mode=mode) as host:
        boxes = host.boxes()
        assert boxes
        host.kill()
        assert wait_all_gone(boxes)
        assert host.workspace.exists()


def test_what_a_killed_process_left_is_pruned(marks: Path) -> None:
    """Its workspace and its mark; a second look finds nothing."""
    token, workspace = killed()
    report = prune()
    assert (report.processes, report.workspaces) == (1, (workspace,))
    assert not workspace.exists()
    assert not (marks / token).exists()
    assert prune().empty


def test_a_box_that_outlived_its_host_is_ended(marks: Path) -> None:
    """Code that cleared its parent-death signal is found by its box's name."""
    token, workspace = killed(STUBBORN)
    report = prune()
    assert [name.startswith(f"kt-{token}-") for name in report.boxes] == [True]
    assert not workspace.exists()
    assert prune().empty


def test_a_dry_run_only_looks(marks: Path) -> None:
    """It finds the same as the run that follows."""
    _, workspace = killed(STUBBORN)
    seen = prune(dry_run=True)
    assert (seen.dry_run, seen.kern, workspace.exists()) == (True, None, True)
    done = prune()
    assert (done.boxes, done.workspaces) == (seen.boxes, seen.workspaces)


def test_nothing_of_a_living_process_is_touched(marks: Path) -> None:
    """Neither another one's, in the middle of a call, nor our own."""
    with calling(STUBBORN) as host, Sandbox(prewarm=0) as sandbox:
        report = prune()
        assert report.empty
        assert host.workspace.is_dir()
        assert alive(host.boxes())
        assert sandbox.run_code("print(1)").stdout == "1\n"
        host.kill()
        assert prune().workspaces == (host.workspace,)
        assert sandbox.run_code("print(2)").stdout == "2\n"


def test_a_process_that_starts_removes_what_others_left(marks: Path) -> None:
    """At its first sandbox, on a thread of its own."""
    token, workspace = killed(STUBBORN)
    ended(f"Sandbox(prewarm=0).open()\n{JOIN}")
    assert not workspace.exists()
    assert not (marks / token).exists()
    assert prune().empty


def test_a_look_that_finds_no_kern_any_more_says_so(
    marks: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes on beside whatever the process does, which it does not disturb."""
    _, workspace = killed()
    monkeypatch.setenv("KERN_BIN", sys.executable)
    _prune_ours()
    assert not workspace.exists()
    (said,) = caplog.records
    assert isinstance(said.args, tuple)
    assert isinstance(said.args[0], HostError)


def test_whatever_code_wrote_is_removed(marks: Path) -> None:
    """A workspace without permissions, and with a link that leads elsewhere."""
    trap = (
        "import os; os.makedirs('a/b'); os.symlink('/etc', 'a/link')\n"
        f"os.chmod('a', 0); {ORDINARY}"
    )
    _, workspace = killed(trap)
    assert prune().workspaces == (workspace,)
    assert not workspace.exists()
    assert Path("/etc").is_dir()


def test_copies_of_environments_are_removed(
    marks: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They hold `env`; kern keeps those of boxes that did not end by themselves."""
    token, _ = killed()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    kept = tmp_path / "kern" / "env"
    kept.mkdir(parents=True)
    (kept / f"kt-{token}-0123-77").write_text("A=b")
    (kept / "kt-another-77").write_text("A=b")
    files = prune().files
    assert kept / f"kt-{token}-0123-77" in files
    assert all(token in path.name and not path.exists() for path in files)
    assert [path.name for path in kept.iterdir()] == ["kt-another-77"]


def test_a_folder_of_another_name_is_not_ours(marks: Path, tmp_path: Path) -> None:
    """A mark names directories to look in, and only our names in them count."""
    marks.mkdir(parents=True)
    token = "0123456789abcdef"
    (marks / token).write_bytes(os.fsencode(tmp_path) + b"\0")
    ours = tmp_path / f"kern-tools-ws-{token}-abc"
    others = [tmp_path / "kern-tools-ws-fedcba9876543210-abc", tmp_path / token]
    for folder in (ours, *others):
        folder.mkdir()
    assert prune().workspaces == (ours,)
    assert [folder.exists() for folder in (ours, *others)] == [False, True, True]


def test_a_mark_is_only_taken_from_the_dead() -> None:
    """Our own cannot be had by anyone while we live."""
    folder = owned_folder("ws")
    try:
        assert owner().token not in tokens()
        with dead_owner(owner().token, keep=True) as dead:
            assert dead is None
    finally:
        folder.rmdir()


def test_a_name_is_read_from_a_file_alone(tmp_path: Path) -> None:
    """Code in a box may put anything in the place of what tells its name."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "file").write_bytes(b"kt-\xff\nnext")
    for name in ("pipe", "link", ".", "none"):
        assert _first_line(tmp_path / name) == ""
    assert _first_line(tmp_path / "file") == "kt-\ufffd"


def test_a_process_that_is_gone_has_no_box() -> None:
    """It may end in any moment of a look."""
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    assert box_process(most + 1) is None


# The command


def test_the_command_says_what_it_removed(marks: Path) -> None:
    """First what it would do, then that it did it, then that nothing is left."""
    _, workspace = killed()
    runner, command = CliRunner(), ["prune", "--older-than", "inf"]
    looked = runner.invoke(app, [*command, "--dry-run"])
    assert f"would remove workspace {workspace}\n" in looked.stdout
    done = runner.invoke(app, command)
    assert f"removed workspace {workspace}\n" in done.stdout
    nothing = runner.invoke(app, command).stdout
    assert nothing.startswith("nothing was left by killed processes")
    again = json.loads(runner.invoke(app, [*command, "--json"]).stdout)
    assert (again["processes"], again["workspaces"]) == (0, [])
