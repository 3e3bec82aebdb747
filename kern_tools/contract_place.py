"""The place that code of a sandbox runs in: what it sees, and what stays."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from .contract import Make, SandboxClauses
from .faults import SnapshotError, WorkspaceError

_SEEN = "import os\nprint(set(os.listdir()) - {'.kern'}, open('d/a.txt').read())"

_KEEP = """\
import os, subprocess
open('file', 'w').close()
open('/tmp/scratch', 'w').close()
subprocess.Popen(['sleep', '600'], start_new_session=True)
name = 1
"""
_KEPT = """\
import glob, os
words = [open(path).read() for path in glob.glob('/proc/[0-9]*/comm')]
there = {
    'file': os.path.exists('file'),
    'scratch': os.path.exists('/tmp/scratch'),
    'process': 'sleep\\n' in words,
    'name': 'name' in globals(),
}
print(*(what for what, found in there.items() if found))
"""


class PlaceContract(SandboxClauses):
    """Files stay; code sees what a script would see, and no network."""

    def test_files_stay_and_are_reported(self, make: Make) -> None:
        """Files stay, and each result lists what its call changed."""
        sandbox = make()
        sandbox.write_file("a.txt", "1")
        changed = sandbox.run_code("open('a.txt', 'w').write('22')\nopen('b', 'w');")
        assert [(f.path, f.change) for f in changed.files] == [
            ("a.txt", "modified"),
            ("b", "created"),
        ]
        assert sandbox.run_code("print(open('a.txt').read())").stdout == "22\n"
        with pytest.raises(WorkspaceError) as refused:
            sandbox.read_file("../outside")
        assert refused.value.code == "outside"

    def test_a_cell_sees_what_a_script_would(self, make: Make) -> None:
        """Code sees what a script would: `__main__`, its path, `exit`, a fork."""
        code = (
            "import sys, multiprocessing, mine\n"
            "def square(n): return n * n\n"
            "print(__name__, sys.path[0], sys.argv, mine.x)\n"
            "forks = multiprocessing.get_context('fork')\n"
            "with forks.Pool(2) as pool: print(pool.map(square, [2, 3]))\n"
            "exit(4)"
        )
        sandbox = make()
        sandbox.write_file("mine.py", "x = 5")
        result = sandbox.run_code(code)
        assert result.stdout == "__main__ /workspace [''] 5\n[4, 9]\n"
        assert result.exit_code == 4

    def test_modules_in_the_workspace_do_not_reach_our_driver(self, make: Make) -> None:
        """A file named like a module of Python's breaks the code's import alone."""
        sandbox = make()
        for name in ("traceback", "linecache", "json", "io", "site", "posix"):
            sandbox.write_file(f"{name}.py", "raise SystemExit(99)")
        result = sandbox.run_code("print('on')\n1/0")
        assert (result.stdout, result.exit_code) == ("on\n", 1)
        assert "ZeroDivisionError" in result.code_stderr

    @pytest.mark.parametrize("language", ["bash", "sh"])
    def test_a_shell_runs_as_itself(self, make: Make, language: str) -> None:
        """Bash runs bash and sh runs sh, with their own streams and exit code."""
        sandbox = make()
        result = sandbox.run_code("echo out; echo err >&2; exit 3", language)
        assert (result.stdout, result.code_stderr) == ("out\n", "err\n")
        assert (result.exit_code, result.fault) == (3, None)
        long = "echo " + "x" * 300_000 + " | wc -c"
        assert sandbox.run_code(long, language).stdout == "300001\n"

    def test_the_network_is_off(self, make: Make) -> None:
        """Code has no network but the loopback of its own box."""
        code = "import socket\nprint([name for _, name in socket.if_nameindex()])"
        assert make().run_code(code).stdout == "['lo']\n"

    def test_a_call_keeps_what_its_mode_says(self, make: Make) -> None:
        """Files always stay; scratch and processes, or names too, as the mode says."""
        sandbox = make()
        assert sandbox.run_code(_KEEP).success
        seen = sandbox.run_code(_KEPT).stdout.split()
        kept = {
            "fresh": ["file"],
            "resident": ["file", "scratch", "process"],
            "kernel": ["file", "scratch", "process", "name"],
        }
        assert seen == kept[sandbox.config.mode]

    # -- files from the host

    @pytest.mark.parametrize(
        "data",
        [b"", b"one\r\ntwo\n", bytes(range(256)), "\ufeffé\r\n".encode()],
        ids=["empty", "line ends", "every byte", "text"],
    )
    def test_files_are_kept_byte_for_byte(self, make: Make, data: bytes) -> None:
        """Files pass between host and code byte for byte."""
        sandbox = make()
        sandbox.write_file("in/a.bin", data)
        code = "import shutil\nshutil.copy('in/a.bin', 'b.bin')"
        assert [f.path for f in sandbox.run_code(code).files] == ["b.bin"]
        assert sandbox.read_file("b.bin") == sandbox.read_file("in/a.bin") == data
        assert [(f.path, f.size) for f in sandbox.list_files()] == [
            ("b.bin", len(data)),
            ("in/a.bin", len(data)),
        ]

    @pytest.mark.parametrize(
        ("path", "code"),
        [
            ("../outside", "outside"),
            ("/etc/passwd", "outside"),
            ("a\0b", "bad_path"),
            ("pipe", "not_regular"),
            ("link", "not_regular"),
            ("linked/passwd", "not_regular"),
            ("folder", "is_directory"),
            ("absent", "not_found"),
        ],
    )
    def test_what_code_plants_leads_nowhere(
        self, make: Make, path: str, code: str
    ) -> None:
        """The host follows no link and waits for no pipe that code plants."""
        sandbox = make()
        planted = (
            "import os\nos.mkfifo('pipe')\nos.mkdir('folder')\n"
            "os.symlink('/etc/passwd', 'link')\nos.symlink('/etc', 'linked')"
        )
        assert sandbox.run_code(planted).success
        with pytest.raises(WorkspaceError) as refused:
            sandbox.read_file(path)
        assert refused.value.code == code

    def test_results_are_exported_as_plain_files(
        self, make: Make, tmp_path: Path
    ) -> None:
        """`export` copies regular files alone, and overwrites none unasked."""
        sandbox = make()
        sandbox.run_code(
            "import os\nos.mkdir('out')\nopen('out/a.txt', 'w').write('1')\n"
            "os.chmod('out/a.txt', 0o755)\nos.symlink('/etc/passwd', 'out/link')"
        )
        (copy,) = sandbox.export(tmp_path, "out")
        assert (copy.name, copy.read_text()) == ("a.txt", "1")
        assert not copy.stat().st_mode & 0o111
        with pytest.raises(WorkspaceError) as refused:
            sandbox.export(tmp_path, "out")
        assert refused.value.code == "exists"

    # -- snapshots

    def test_a_snapshot_goes_on_in_another_sandbox(
        self, make: Make, tmp_path: Path
    ) -> None:
        """A snapshot brings files back, and no links, secrets or names."""
        sandbox, kept = make(env={"TOKEN": "s3cret"}), tmp_path / "run.tar.gz"
        sandbox.run_code(
            "import os\nos.mkdir('d')\nopen('d/a.txt', 'w').write('kept')\n"
            "os.symlink('/etc/passwd', 'link')\nx = 1"
        )
        saved = sandbox.snapshot(kept)
        assert (saved.files, saved.left_out) == (1, 1)
        assert b"s3cret" not in gzip.decompress(kept.read_bytes())
        other = make()
        restored = other.restore(kept)
        assert (restored.files, restored.origin.config["mode"]) == (
            1,
            sandbox.config.mode,
        )
        seen = other.run_code(_SEEN)
        assert seen.stdout == "{'d'} kept\n"
        assert seen.files == []

    def test_what_is_no_snapshot_changes_nothing(
        self, make: Make, tmp_path: Path
    ) -> None:
        """What is no snapshot is refused before anything is written."""
        sandbox = make()
        sandbox.write_file("a.txt", "1")
        (tmp_path / "run.tar.gz").write_bytes(b"no archive")
        with pytest.raises(SnapshotError) as refused:
            sandbox.restore(tmp_path / "run.tar.gz")
        assert refused.value.code == "bad_snapshot"
        assert [f.path for f in sandbox.list_files()] == ["a.txt"]
