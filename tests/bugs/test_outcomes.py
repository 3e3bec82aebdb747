"""Outcomes: who ended a call is told by fault and exit code, not by a stream."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kern_tools import Sandbox
from kern_tools.binary import find_kern
from kern_tools.hints import Hint
from kern_tools.prompting import repair
from kern_tools.sandbox_contract import kern_processes
from kern_tools.testing import Adapter
from tests.depth import crossed
from tests.hosts import wait_until

from .conftest import Through
from .reading import ran, verdict

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

TABLE = (
    "class Table:\n"
    "    def _repr_html_(self):\n"
    "        return '<table><tr><td>Oslo</td><td>7</td></tr></table>'\n"
    "Table()"
)
TELEMETRY = '{"metric": 1}'


# what a cell ends with


@pytest.mark.bug("nothing shown")
@pytest.mark.parametrize(
    ("code", "shown"),
    [("x = [1]\nx", "[1]"), (TABLE, "Oslo\t7"), ("x = 1", "no output")],
    ids=["value", "table", "nothing"],
)
def test_a_call_always_says_something(adapter: Adapter, code: str, shown: str) -> None:
    """The last value, the text of a table, or that there was no output.

    Source: https://github.com/langchain-ai/langchain/issues/586
    Source: https://github.com/open-webui/open-webui/issues/11755
    """
    outcome = adapter.call("run_code", {"code": code})
    assert verdict(outcome).startswith("ok")
    assert shown in outcome.text


@pytest.mark.bug("questions")
@pytest.mark.parametrize("mode", ["fresh", "kernel"])
def test_a_question_to_nobody_fails_at_once(
    through: Through, fresh: Sandbox, kernel: Sandbox, mode: str
) -> None:
    """It is the code's own error, with advice, long before any limit.

    Source: https://github.com/ipython/ipykernel/issues/400
    Source: https://github.com/langchain-ai/langchain/issues/586
    """
    adapter = through({"fresh": fresh, "kernel": kernel}[mode])
    outcome = adapter.call("run_code", {"code": "name = input('name? ')\nprint(name)"})
    assert (ran(outcome).exit_code, outcome.fault_type) == (1, None)
    assert "EOFError" in ran(outcome).code_stderr
    assert outcome.text.endswith(f"next: {repair(Hint('no_stdin'), fresh.describe())}")


@pytest.mark.bug("warnings")
def test_text_on_stderr_is_no_failure(adapter: Adapter) -> None:
    """Both streams are kept, apart, and the call went well.

    Source: https://github.com/openbraininstitute/neuroagent/issues/637
    Source: https://github.com/lookatitude/beluga-ai/issues/243
    """
    code = "import warnings\nwarnings.warn('old')\nprint('fine')"
    outcome = adapter.call("run_code", {"code": code})
    result = ran(outcome)
    assert (result.success, result.exit_code, outcome.is_error) == (True, 0, False)
    assert result.stdout == "fine\n"
    assert "UserWarning: old" in result.code_stderr
    assert verdict(outcome).startswith("ok")
    assert "UserWarning: old" in outcome.text


@pytest.mark.bug("exit codes")
@pytest.mark.parametrize(
    ("tool", "arguments", "exit_code"),
    [
        ("run_command", {"command": "grep nope /etc/passwd"}, 1),
        ("run_code", {"code": "import sys\nsys.exit(3)"}, 3),
        ("run_code", {"code": "exit 127", "language": "bash"}, 127),
    ],
    ids=["grep", "python", "bash"],
)
def test_an_exit_code_is_no_failure_of_the_tool(
    adapter: Adapter, tool: str, arguments: dict[str, str], exit_code: int
) -> None:
    """Code finds the number, the model reads it, and no framework is alarmed.

    Source: https://github.com/openclaw/openclaw/issues/110153
    Source: https://github.com/MCPJam/inspector/issues/2724
    """
    outcome = adapter.call(tool, arguments)
    result = ran(outcome)
    assert (result.exit_code, result.success) == (exit_code, False)
    assert (outcome.is_error, outcome.fault_type) == (False, None)
    assert verdict(outcome).startswith(f"exit {exit_code}")


# what a cell wrote before it failed


@pytest.mark.bug("lost tracebacks")
@pytest.mark.parametrize("mode", ["fresh", "kernel"])
def test_a_traceback_follows_what_stderr_had(
    through: Through, fresh: Sandbox, kernel: Sandbox, mode: str
) -> None:
    """The note and the traceback are there, in that order.

    Source: https://github.com/DougTrajano/pydantic-ai-skills/issues/69
    """
    adapter = through({"fresh": fresh, "kernel": kernel}[mode])
    code = "import sys\nsys.stderr.write('note\\n')\n1/0"
    outcome = adapter.call("run_code", {"code": code})
    lines = ran(outcome).code_stderr.splitlines()
    assert lines[:2] == ["note", "Traceback (most recent call last):"]
    assert lines[-1].startswith("ZeroDivisionError")
    assert "\n".join(lines) in outcome.text


@pytest.mark.bug("output before an exception")
@pytest.mark.parametrize("mode", ["fresh", "kernel"])
def test_output_before_an_exception_is_kept(
    through: Through, fresh: Sandbox, kernel: Sandbox, mode: str
) -> None:
    """What was printed, and values that were shown, come with the traceback.

    Source: https://github.com/microsoft/autogen/issues/6572
    """
    adapter = through({"fresh": fresh, "kernel": kernel}[mode])
    code = "print('step 1', end='')\ndisplay({'seen': 2})\nraise ValueError('x')"
    outcome = adapter.call("run_code", {"code": code})
    result = ran(outcome)
    assert (result.stdout, result.exit_code) == ("step 1", 1)
    assert [value.text for value in result.results] == ["{'seen': 2}"]
    for shown in ("step 1", "{'seen': 2}", "ValueError: x"):
        assert shown in outcome.text


# who ended a call


@pytest.fixture
def cold() -> Iterator[Sandbox]:
    """A sandbox whose only box is that of the call in hand."""
    with Sandbox(prewarm=0, timeout_s=60) as sandbox:
        os.mkfifo(sandbox.workspace.root / "on")
        yield sandbox


@pytest.mark.bug("telemetry as the cause")
def test_the_cause_is_the_fault_and_no_line_of_the_code(
    through: Through, cold: Sandbox
) -> None:
    """A box that the operator stopped was stopped, whatever the code said last.

    Source: https://github.com/vm0-ai/vm0/issues/33161
    """
    code = (
        f"import sys, time\nsys.stderr.write({TELEMETRY + chr(10)!r})\n"
        "sys.stderr.flush()\nopen('on', 'w').close()\ntime.sleep(50)"
    )
    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(through(cold).call, "run_code", {"code": code})
        (cold.workspace.root / "on").read_bytes()
        stop_boxes(cold)
        outcome = call.result()
    fault = ran(outcome).fault
    assert fault is not None
    assert (fault.type, fault.actor) == ("killed", "operator")
    assert TELEMETRY not in fault.message
    assert TELEMETRY not in verdict(outcome)
    assert ran(outcome).code_stderr == f"{TELEMETRY}\n"
    assert f"stderr:\n```\n{TELEMETRY}\n```" in outcome.text


def stop_boxes(sandbox: Sandbox) -> None:
    """Stop them as an operator does, by the name that `kern ps` shows.

    kern may enter a box into its list a little after the code there has begun.
    """
    words = [
        (Path("/proc") / str(pid) / "cmdline").read_bytes().split(b"\0")
        for pid in kern_processes(sandbox)
    ]
    names = {each[each.index(b"box") + 1] for each in words if b"box" in each}
    stop: list[str | bytes] = [str(find_kern()), "stop", *names]
    wait_until(lambda: subprocess.run(stop, capture_output=True).returncode == 0)
