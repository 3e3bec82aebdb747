"""Why code failed, as far as the sandbox is the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kern_tools.facts import SandboxFacts
from kern_tools.hints import HINTS, Hint, hint_for
from kern_tools.prompting import repair
from kern_tools.result import ExecutionResult

from .depth import examples

FACTS = SandboxFacts(image="host", host_python=True, python_version="3.12.4")
ADVICE_MAX_CHARS = 400
POPEN = """\
Traceback (most recent call last):
  File "/usr/local/lib/python3.12/subprocess.py", line 1950, in _execute_child
    raise child_exception_type(errno_num, err_msg, err_filename)
FileNotFoundError: [Errno 2] No such file or directory: 'git'
"""
PIP = """\
WARNING: Retrying: [Errno -3] Temporary failure in name resolution
Traceback (most recent call last):
subprocess.CalledProcessError: Command '['pip', 'install', 'x']' returned 1.
"""
NODE = """\
node:internal/modules/cjs/loader:1520
Error: Cannot find module 'lodash'
Require stack:
Node.js v24.19.0
"""


def failed(stderr: str, **more: Any) -> ExecutionResult:
    """Make the result of code that failed."""
    return ExecutionResult.model_validate(
        {"exit_code": 1, "code_stderr": f"Traceback (...):\n{stderr}", **more}
    )


@pytest.mark.parametrize(
    ("stderr", "name", "details"),
    [
        ("EOFError: EOF when reading a line\n", "no_stdin", {}),
        ("ModuleNotFoundError: No module named 'a.b'", "no_module", {"module": "a.b"}),
        ("NameError: name 'df' is not defined", "no_name", {"variable": "df"}),
        (
            "NameError: name 'df' is not defined. Did you mean: 'id'?",
            "no_name",
            {"variable": "df"},
        ),
        ("SyntaxError: unterminated string literal (detected at 1)", "cut_string", {}),
        ("MemoryError", "no_memory", {}),
        ("numpy._core._exceptions._ArrayMemoryError: Unable to", "no_memory", {}),
        ("OSError: [Errno 30] Read-only file system: '/x'", "read_only", {}),
        ("sh: 1: cannot create /usr/x: Read-only file system", "read_only", {}),
        ("OSError: [Errno 28] No space left on device", "no_space", {}),
        ("cp: error writing '/tmp/x': No space left on device", "no_space", {}),
        ("RuntimeError: can't start new thread", "no_processes", {}),
        ("bash: fork: retry: Resource temporarily unavailable", "no_processes", {}),
        ("FileNotFoundError: [Errno 2] No such file: '/mnt/data/a.csv'", "no_file", {}),
        ("cat: a.csv: No such file or directory", "no_file", {}),
        (POPEN, "no_program", {"program": "git"}),
        ("OSError: [Errno 101] Network is unreachable", "no_network", {}),
        ("Error: getaddrinfo EAI_AGAIN example.org", "no_network", {}),
        (PIP, "no_network", {}),
        (NODE, "no_node_module", {"module": "lodash"}),
    ],
)
def test_a_reason_is_recognised(
    stderr: str, name: str, details: dict[str, str]
) -> None:
    """By what Python, Node and the shells write at the end."""
    assert hint_for(failed(stderr), FACTS) == Hint(name, details)


@pytest.mark.parametrize(
    "line",
    ["bash: line 1: git: command not found", "sh: 1: git: not found", "git: not found"],
)
def test_a_missing_program_is_recognised_by_the_exit_code_too(line: str) -> None:
    """Each shell has words of its own; all exit with 127."""
    found = hint_for(failed(line, exit_code=127), FACTS)
    assert found == Hint("no_program", {"program": "git"})
    assert hint_for(failed(line), FACTS) is None


def test_every_hint_is_seen_here_and_rendered() -> None:
    """None is left that nothing leads to, and each has its words."""
    details = {"module": "x", "variable": "x", "program": "x"}
    for name in HINTS:
        told = repair(Hint(name, details), FACTS)
        assert told.splitlines() == [told]
        assert 20 < len(told) <= ADVICE_MAX_CHARS


@pytest.mark.parametrize(
    "result",
    [
        ExecutionResult(code_stderr="ModuleNotFoundError: No module named 'x'"),
        failed("ModuleNotFoundError: No module named 'x'\nand more"),
        failed("ValueError: 1"),
        failed(""),
        failed("MemoryError", fault={"type": "oom", "message": "it ended"}),
        failed(PIP, fault={"type": "oom", "message": "it ended"}),
        failed("MemoryError", fault={"type": "timeout", "message": "it ended"}),
    ],
    ids=["success", "not the end", "own", "silent", "oom", "oom online", "timeout"],
)
def test_what_is_not_the_sandbox_s_nature_gets_no_hint(result: ExecutionResult) -> None:
    """The traceback says enough, or the fault's own advice does."""
    assert hint_for(result, FACTS) is None


def test_a_wait_for_the_network_is_the_reason_of_a_timeout() -> None:
    """`pip` tries again until it is stopped, and would the next time."""
    waited = failed(PIP, fault={"type": "timeout", "message": "it ended"})
    assert hint_for(waited, FACTS) == Hint("no_network")
    assert hint_for(waited, replace(FACTS, network="on")) is None


def test_a_name_is_forgotten_where_names_are_not_kept() -> None:
    """In a kernel it is a slip of the pen, unless the kernel is a new one."""
    lost = failed("NameError: name 'df' is not defined")
    kernel = replace(FACTS, mode="kernel")
    assert hint_for(lost, kernel) is None
    new = lost.model_copy(update={"state_new": True})
    assert hint_for(new, kernel) == Hint("no_name", {"variable": "df"})


@examples(50, 1000)
@given(name=st.text(max_size=300), packages=st.lists(st.text(max_size=60), max_size=90))
def test_no_name_breaks_the_line_or_its_bound(name: str, packages: list[str]) -> None:
    """A module's name is the code's to choose, a package's the image's."""
    facts = replace(FACTS, packages=tuple((each[:20], "1") for each in packages))
    found = hint_for(failed(f"ModuleNotFoundError: No module named '{name}'"), facts)
    if found is not None:
        told = repair(found, facts)
        assert told.splitlines() == [told]
        assert len(told) <= 2 * ADVICE_MAX_CHARS
        assert not {"{", "}"} & set(told)
