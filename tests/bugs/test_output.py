"""Output: what the code wrote reaches code whole and the model in readable form."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kern_tools import Sandbox
from kern_tools.config import Budget
from kern_tools.testing import Adapter
from tests.depth import crossed

from .conftest import Through
from .reading import controls, ran, verdict

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

CODES = "\x1b[31mred\x1b[0m \x1b]0;title\x07 ok\x9b2K"
BYTES = r"ok\xff\xfe\x80end\n"
FLOOD = 5_000_000
FILES = 3_000
LINES = "print('head', *range(9999), 'tail', sep='\\n')"


@pytest.fixture(scope="module")
def plain_locale() -> Iterator[Sandbox]:
    """A sandbox whose code is told that there is nothing but ASCII."""
    with Sandbox(mode="resident", env={"LC_ALL": "C"}, timeout_s=20) as sandbox:
        yield sandbox


@pytest.mark.bug("terminal codes")
def test_no_terminal_code_of_the_output_reaches_the_model(adapter: Adapter) -> None:
    """Colours, titles and bells go, the words stay, and code finds the bytes.

    Source: https://github.com/cline/cline/issues/13346
    """
    outcome = adapter.call("run_code", {"code": f"print({CODES!r})"})
    assert controls(outcome.text) == set()
    assert "[31m" not in outcome.text
    assert "red" in outcome.text
    assert ran(outcome).stdout == f"{CODES}\n"


@pytest.mark.bug("terminal codes")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("run_command", {"command": "cat coloured"}),
        ("read_file", {"path": "coloured"}),
        ("search_files", {"pattern": "red"}),
        ("list_files", {}),
        ("find_files", {"glob": "*31*"}),
    ],
)
def test_no_terminal_code_of_a_file_reaches_the_model(
    adapter: Adapter, sandbox: Sandbox, tool: str, arguments: dict[str, str]
) -> None:
    """Neither of what a file holds nor of what it is called.

    Source: https://github.com/cline/cline/issues/13346
    """
    sandbox.write_file("coloured", CODES)
    sandbox.write_file("\x1b[31mname", "")
    outcome = adapter.call(tool, arguments)
    assert controls(outcome.text) == set()
    assert not outcome.is_error
    assert "red" in outcome.text or "name" in outcome.text


@pytest.mark.bug("bytes that are no text")
@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", f"import sys\nsys.stdout.buffer.write(b'{BYTES}')"),
        ("sh", f"printf '{BYTES}'".replace(r"\xff\xfe\x80", r"\377\376\200")),
    ],
)
def test_bytes_that_are_no_text_cost_no_output(
    through: Through, plain_locale: Sandbox, language: str, code: str
) -> None:
    """They are replaced, which the result says, and the run is what it was.

    Source: https://github.com/microsoft/autogen/issues/1745
    Source: https://github.com/UKGovernmentBEIS/inspect_k8s_sandbox/issues/206
    """
    arguments = {"code": code, "language": language}
    outcome = through(plain_locale).call("run_code", arguments)
    result = ran(outcome)
    assert result.stdout == "ok\ufffd\ufffd\ufffdend\n"
    assert (result.lossy, result.exit_code, result.fault) == (True, 0, None)
    assert "ok\ufffd\ufffd\ufffdend" in outcome.text


@pytest.mark.bug("bytes that are no text")
def test_a_host_without_a_locale_reads_the_same() -> None:
    """What encoding the host's own streams have is no matter.

    Source: https://github.com/microsoft/autogen/issues/1745
    """
    script = (
        "from kern_tools import run_code\n"
        "code = r\"import os; os.write(1, b'\\xc3\\xa4ok\\xff')\"\n"
        "result = run_code(code)\n"
        "print(ascii(result.stdout), result.lossy, result.exit_code)"
    )
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **plain},
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout == r"'\xe4ok\ufffd' True 0" + "\n"


@pytest.mark.bug("output before a timeout")
def test_output_before_a_timeout_is_kept(adapter: Adapter) -> None:
    """Also text that was never flushed, beside the fault.

    Source: https://github.com/microsoft/autogen/issues/3534
    Source: https://github.com/UKGovernmentBEIS/inspect_ai/blob/main/CHANGELOG.md
    """
    code = "print('A' * 10)\nimport time\ntime.sleep(60)"
    outcome = adapter.call("run_code", {"code": code, "timeout_s": 1})
    assert outcome.fault_type == "timeout"
    assert ran(outcome).stdout == "A" * 10 + "\n"
    assert "A" * 10 in outcome.text


@pytest.mark.bug("no final newline")
@pytest.mark.parametrize(
    ("language", "code", "stdout"),
    [
        ("sh", "printf abc", "abc"),
        ("bash", "printf 'a\\nb'; printf c >&2", "a\nb"),
        ("python", "print('x', end='')", "x"),
    ],
)
def test_output_without_a_final_newline_ends_the_call(
    through: Through,
    sandbox: Sandbox,
    kernel: Sandbox,
    language: str,
    code: str,
    stdout: str,
) -> None:
    """Nothing waits for an end of line that never comes; the text is exact.

    Source: https://github.com/langchain-ai/langchain/issues/37854
    """
    for session in (sandbox, kernel, sandbox, kernel):
        outcome = through(session).call(
            "run_code", {"code": code, "language": language}
        )
        assert (ran(outcome).stdout, outcome.fault_type) == (stdout, None)
        assert verdict(outcome).startswith("ok")


@pytest.mark.bug("boundless output")
def test_a_flood_is_cut_to_head_and_tail_and_counted(adapter: Adapter) -> None:
    """Of five million characters the model gets a few, the artifact some.

    Source: https://github.com/bytedance/deer-flow/issues/1677
    Source: https://github.com/QwenLM/Qwen-Agent/issues/794
    """
    code = f"print('head' + 'x' * {FLOOD} + 'tail')"
    outcome = adapter.call("run_code", {"code": code})
    result, budget = ran(outcome), Budget()
    assert len(outcome.text) <= budget.text_chars
    assert "head" in outcome.text
    assert (result.stdout_bytes, result.truncated) == (FLOOD + 9, True)
    assert len(result.stdout) <= budget.artifact_chars


@pytest.mark.bug("boundless output")
def test_output_within_the_capture_keeps_its_tail(adapter: Adapter) -> None:
    """What was cut out of the middle is in a file that the reply names.

    Source: https://github.com/bytedance/deer-flow/issues/1896
    """
    outcome = adapter.call("run_code", {"code": LINES})
    assert "head" in outcome.text
    assert "tail" in outcome.text
    (name,) = {
        word.strip("`,):") for word in outcome.text.split() if ".kern/out-" in word
    }
    kept = adapter.call("read_file", {"path": name})
    assert "\n0\n1\n2\n" in kept.text


@pytest.mark.bug("boundless output")
def test_values_without_end_are_counted(adapter: Adapter) -> None:
    """Ten thousand calls of `display` are some values and a number.

    Source: https://github.com/bytedance/deer-flow/issues/1677
    """
    code = "for n in range(10_000): display({'n': n})"
    outcome = adapter.call("run_code", {"code": code})
    result = ran(outcome)
    assert len(result.results) + result.results_omitted == 10_000
    assert len(outcome.text) <= Budget().text_chars


@pytest.mark.bug("boundless output")
def test_a_listing_of_many_files_is_cut_and_its_total_true(
    through: Through, many_files: Sandbox
) -> None:
    """The model reads some names and how many there are.

    Source: https://github.com/bytedance/deer-flow/issues/1677
    """
    adapter = through(many_files)
    outcome = adapter.call("list_files", {})
    assert len(outcome.text) <= Budget().text_chars
    assert f"{FILES:,}" in outcome.text


@pytest.fixture(scope="module")
def many_files() -> Iterator[Sandbox]:
    """A sandbox with more files than a reply can name."""
    with Sandbox(prewarm=0, timeout_s=20) as sandbox:
        for number in range(FILES):
            os.mknod(sandbox.workspace.root / f"file-{number}")
        yield sandbox
