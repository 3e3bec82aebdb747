"""One run on the command line: drawn on a terminal, saved as a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .test_cli import USAGE, invoke, kern_tools, on_a_terminal, run
from .test_transcript import SAFE_TAGS, Page

CODE = """\
import sys
print("one", flush=True)
print(r"<script>alert(1)</script>")
print("\\x1b]0;title\\x07\\x9b31mred", file=sys.stderr)
open("left.txt", "w").write("x")
"""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A file that prints what should do nothing."""
    path = tmp_path / "script.py"
    path.write_text(CODE)
    return path


def test_a_terminal_is_shown_the_run(script: Path) -> None:
    """What it printed behind bars, the verdict, the files; not the script itself."""
    shown = COLOUR.sub("", on_a_terminal("run", str(script)))
    lines = [line.rstrip() for line in shown.splitlines()]
    assert lines[0].startswith("> run_code")
    assert {"| one", "| <script>alert(1)</script>", "err| red"} <= set(lines)
    assert any(line.startswith("= exit 0") for line in lines)
    assert "files: left.txt (1 byte, created)" in lines
    assert "import sys" not in shown


def test_what_a_program_prints_cannot_steer_a_terminal_that_is_drawn_on(
    script: Path,
) -> None:
    """The only commands are colours, and they are ours."""
    shown = COLOUR.sub("", on_a_terminal("run", str(script)))
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", shown)


def test_json_on_a_terminal_is_json_alone(script: Path) -> None:
    """Nothing is drawn between."""
    assert on_a_terminal("run", str(script), "--json").lstrip().startswith("{")


def test_a_run_is_saved_as_a_page(script: Path, tmp_path: Path) -> None:
    """With its code, and safe to open; stdout stays what it was."""
    page = tmp_path / "run.html"
    done = invoke("run", script, "--html", page)
    assert done.stdout.startswith("ok")
    assert str(page) in done.stderr
    shown = Page(page.read_text(encoding="utf-8"))
    assert "import sys" in shown.text
    assert "<script>alert(1)</script>" in shown.text
    assert shown.tags <= SAFE_TAGS


def test_a_fault_is_saved_too(tmp_path: Path) -> None:
    """A run that failed is the one to look at."""
    page = tmp_path / "run.html"
    run("import time; time.sleep(60)", "--timeout-s", "1", "--html", page)
    assert "timeout" in Page(page.read_text(encoding="utf-8")).text


def test_a_page_that_cannot_be_saved_is_known_before_anything_runs(
    script: Path, tmp_path: Path
) -> None:
    """The command line is wrong, then."""
    done = invoke("run", script, "--html", tmp_path / "none" / "run.html")
    assert (done.exit_code, done.stdout) == (USAGE, "")


def test_stdin_can_be_recorded(tmp_path: Path) -> None:
    """The page is named for what was run."""
    page = tmp_path / "run.html"
    kern_tools("run", "-", "--html", str(page), stdin="print(1)")
    assert "print(1)" in Page(page.read_text(encoding="utf-8")).text


def test_a_folder_that_cannot_be_made_is_known_before_anything_runs(
    script: Path,
) -> None:
    """The command line is wrong there too, and says which option."""
    done = invoke("run", script, "--save", script / "charts")
    assert (done.exit_code, done.stdout) == (USAGE, "")
    assert "--save" in done.stderr
