"""Surroundings that hosts have: no home, odd folders, no locale."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

from kern_tools.image import ensure_image
from kern_tools.prune import prune
from tests.depth import partly

WORKS = """\
from kern_tools import Sandbox
for mode in ("fresh", "kernel"):
    with Sandbox(mode=mode, prewarm=0) as sandbox:
        sandbox.write_file("\\xe9.txt", "\\xfc")
        result = sandbox.run_code("print(open('\\xe9.txt').read(), 'on')")
        assert result.stdout == "\\xfc on\\n", result
        root = str(sandbox.workspace.root)
"""
IN_EACH = f"""\
import os, sys, tempfile
for place in sys.argv[1:]:
    os.environ["TMPDIR"], tempfile.tempdir = place, None
{indent(WORKS, "    ")}
    assert root.startswith(place), root
    assert os.listdir(place) == [], place
"""
DIES = (
    "import os\nfrom kern_tools import Sandbox\nsandbox = Sandbox(prewarm=0).open()\n"
    "print(ascii(str(sandbox.workspace.root)), flush=True)\nos.kill(os.getpid(), 9)"
)
CACHE = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
NOWHERE = "/proc"
"""A home in which nobody can write, root included."""
ODD = ["a b", "a,b", "a:b", "a=b", "a\nb", "a'b\"c", "$HOME`x`", "-rf", "é", "a::b[c]"]


def python(
    code: str, *words: str, **changes: str | None
) -> subprocess.CompletedProcess[str]:
    """Run code where variables have other values, or None: are not set."""
    ensure_image()
    env = {**os.environ, **changes}
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        env={name: value for name, value in env.items() if value is not None},
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="surrogateescape",
    )


UNSET = [
    {"XDG_RUNTIME_DIR": None},
    {"HOME": None, "XDG_CACHE_HOME": CACHE},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]
ODDLY_SET = [
    {"XDG_RUNTIME_DIR": "/nonexistent"},
    {"HOME": NOWHERE, "XDG_CACHE_HOME": CACHE},
    {"LC_ALL": "nothing.installed", "LANG": None},
    {"TZ": "Nowhere/Else", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
]


@pytest.mark.parametrize(
    "changes",
    partly([*UNSET, *ODDLY_SET], UNSET.__contains__),
    ids=lambda changes: ", ".join(f"{name}={value}" for name, value in changes.items()),
)
def test_sandboxes_work_where(changes: dict[str, str | None]) -> None:
    """None of these is needed, and text is UTF-8 whatever the locale is."""
    done = python(WORKS, **changes)
    assert done.returncode == 0, done.stderr


def test_temporary_files_may_lie_in_a_folder_of_any_name(tmp_path: Path) -> None:
    """A workspace there works, and nothing is left."""
    for name in ODD:
        (tmp_path / name).mkdir()
    done = python(IN_EACH, *(str(tmp_path / name) for name in ODD))
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == set(ODD)


@pytest.mark.parametrize("name", ["a b", "a\nb"])
def test_what_a_killed_process_left_in_an_odd_folder_is_found(
    tmp_path: Path, name: str
) -> None:
    """The next process, or prune, removes it there too."""
    (tmp_path / name).mkdir()
    done = python(DIES, TMPDIR=str(tmp_path / name))
    assert done.returncode == -9
    assert repr(str(tmp_path / name))[1:-1] in done.stdout
    assert list((tmp_path / name).iterdir()) != []
    prune()
    assert list((tmp_path / name).iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"HOME": None, "XDG_CACHE_HOME": None}, "set HOME or XDG_CACHE_HOME"),
        ({"HOME": NOWHERE, "XDG_CACHE_HOME": None}, "set XDG_CACHE_HOME to one that"),
    ],
    ids=["no home", "a home that cannot be written"],
)
def test_a_home_that_is_needed_is_asked_for(
    changes: dict[str, str | None], remedy: str
) -> None:
    """Images have to lie somewhere; the error says what to set."""
    done = python(WORKS, **changes)
    assert "HostError" in done.stderr
    assert remedy in done.stderr


def test_a_folder_that_kern_cannot_be_told_is_named(tmp_path: Path) -> None:
    """Kern reads UTF-8 alone; the error says what to set."""
    folder = os.fsencode(tmp_path) + b"/\xff"
    Path(os.fsdecode(folder)).mkdir()
    done = python(WORKS, TMPDIR=os.fsdecode(folder))
    assert "HostError" in done.stderr
    assert "set TMPDIR to another" in done.stderr
