"""The demo: the same calls through every framework, on real data."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kern_tools import ExecutionResult, SandboxFault
from kern_tools.demo import CASES, CHART, Case, problems_of, run_demo
from kern_tools.frameworks import FRAMEWORKS, Carried

from .test_cli import invoke, on_a_terminal
from .test_transcript import SAFE_TAGS, Page

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
QUICK = CASES[-1]
PAGE = "demo.html"

# Eighteen calls that import pandas or wait for a deadline; the machine may be busy.
pytestmark = pytest.mark.timeout(400)

# Runs one quick call in an interpreter that lacks some modules.
WITHOUT = """\
import sys
sys.modules.update(dict.fromkeys({absent!r}))
from pathlib import Path
from kern_tools.demo import CASES, run_demo
sys.exit(0 if run_demo(Path({save!r}), CASES[-1:]) else 1)
"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, int]:
    """The whole demo, run once: where the chart went, what was printed, the code."""
    save = tmp_path_factory.mktemp("demo")
    done = invoke("demo", "--save", save, "--html", save / PAGE)
    return save, done.stdout, done.exit_code


def without(absent: list[str], save: Path) -> subprocess.CompletedProcess[str]:
    """Run a call where some modules cannot be imported."""
    code = WITHOUT.format(absent=absent, save=str(save))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def carried(text: str = "ok\nhi", **result: object) -> Carried:
    """Make the outcome of a call."""
    return Carried(text, 0, ExecutionResult.model_validate(result), 12.5)


CASE = Case("greeting", "exit 0", "print('hi')", {})


def test_all_calls_end_as_they_should(demo: tuple[Path, str, int]) -> None:
    """The exit code says that the frameworks agree."""
    assert demo[2] == 0, demo[1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_table_has_each_call_in_each_framework(
    demo: tuple[Path, str, int], case: Case, name: str
) -> None:
    """The verdict for code, the milliseconds and the model's first line stand there."""
    first = rf"(ok|exit |fault: {case.expected})"
    row = rf"{case.name} +{name} +{case.expected} +[\d,]+ +{first}"
    assert len(re.findall(f"^{row}", demo[1], re.M)) == 1


def test_the_chart_is_saved(demo: tuple[Path, str, int]) -> None:
    """It is a PNG, and its path is printed."""
    path = demo[0] / CHART
    assert path.read_bytes().startswith(b"\x89PNG")
    assert str(path) in demo[1]


def test_a_pipe_gets_plain_text(demo: tuple[Path, str, int]) -> None:
    """No colours and no frames, so that it can be kept and compared."""
    assert demo[1].isascii()
    assert "\x1b" not in demo[1]


def test_the_calls_are_saved_as_a_page(demo: tuple[Path, str, int]) -> None:
    """Each with its code, its verdict and its chart; safe to open."""
    page = Page((demo[0] / PAGE).read_text(encoding="utf-8"))
    assert all(case.name in page.text and case.expected in page.text for case in CASES)
    assert len(page.sources) == 1
    assert page.tags <= SAFE_TAGS


@pytest.mark.verify
def test_a_terminal_is_shown_each_call_before_the_table(tmp_path: Path) -> None:
    """Its code, and how it ended."""
    absent = ["langchain_core", "llama_index"]  # One is enough to be shown.
    code = WITHOUT.format(absent=absent, save=str(tmp_path))
    shown = COLOUR.sub("", on_a_terminal("-c", code, program=sys.executable))
    lines = [line.rstrip() for line in shown.splitlines()]
    assert f"1. {QUICK.name}" in lines
    assert "  import ctypes" in lines
    assert any(line.startswith(f"= {QUICK.expected}") for line in lines)


@pytest.mark.verify
def test_a_missing_framework_is_named_and_its_rows_are_marked(tmp_path: Path) -> None:
    """The others run, and the pip command is there."""
    done = without(["llama_index"], tmp_path)
    assert done.returncode == 0, done.stderr
    rows = re.findall(rf"^{QUICK.name} +(\w+) +(\w+)", done.stdout, re.M)
    assert dict(rows) == {
        "LangChain": QUICK.expected,
        "LlamaIndex": "not",
        "OpenAI": QUICK.expected,
    }
    assert "pip install 'kern-tools[llama-index]'" in done.stdout


@pytest.mark.verify
def test_with_no_framework_the_demo_fails(tmp_path: Path) -> None:
    """Nothing was shown, so nothing agrees."""
    done = without(["langchain_core", "llama_index", "openai"], tmp_path)
    assert done.returncode == 1, done.stderr
    for extra in ("langchain", "llama-index", "openai"):
        assert f"pip install 'kern-tools[{extra}]'" in done.stdout


def test_missing_packages_come_with_the_pip_command(tmp_path: Path) -> None:
    """Both are named at once, before anything runs."""
    done = without(["pandas", "matplotlib"], tmp_path)
    assert "pip install pandas matplotlib" in done.stderr
    assert done.stdout == ""


def test_a_verdict_that_was_not_expected_fails_the_demo(tmp_path: Path) -> None:
    """All frameworks may agree on what is wrong."""
    wrong = dataclasses.replace(QUICK, expected="timeout")
    assert not run_demo(tmp_path, [wrong])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ok\nhi", "ok, took 17.2 s of 30 s\nhi"),
        ("saved as .kern/img-call_7-1.png", "saved as .kern/img-c12-1.png"),
    ],
    ids=["time", "name of what was kept"],
)
def test_time_and_ids_may_differ(one: str, other: str) -> None:
    """The same words at another speed, or under another id, are the same."""
    same = {"A": carried(one), "B": carried(other)}
    assert list(problems_of(CASE, same)) == []


@pytest.mark.parametrize(
    "other",
    [
        carried("ok\nho"),
        dataclasses.replace(carried(), images=1),
    ],
    ids=["words", "images"],
)
def test_frameworks_that_differ_are_found_out(other: Carried) -> None:
    """Other words, or other images, are a problem."""
    assert len(list(problems_of(CASE, {"A": carried(), "B": other}))) == 1


def test_another_verdict_is_a_problem_of_its_own() -> None:
    """It is named for the framework that has it."""
    fault = SandboxFault(type="oom", message="over 512 MiB")
    other = carried(exit_code=137, fault=fault)
    problems = list(problems_of(CASE, {"A": carried(), "B": other}))
    assert len(problems) == 2
    assert "'oom'" in problems[0]
