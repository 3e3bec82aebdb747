"""A result in all its forms: rich values by name, JSON both ways, the node's names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from kern_tools import (
    ConfigError,
    ExecutionResult,
    FaultError,
    Sandbox,
    arun_code,
    run_code,
)

FORMS = """\
class Value:
    def __repr__(self): return 'plain'
    def _repr_html_(self): return '<b>1</b>'
    def _repr_markdown_(self): return '*1*'
    def _repr_svg_(self): return '<svg/>'
    def _repr_json_(self): return {'one': 1}
    def _repr_png_(self): return b'\\x89PNG'
    def _repr_jpeg_(self): return b'\\xff\\xd8'
"""
FIELDS = {
    *("stdout", "stderr", "codeStderr", "runtimeNotes", "exitCode", "durationMs"),
    *("success", "fault", "files", "results", "truncated"),
}
"""What the Node binding calls them."""


@pytest.fixture(scope="module", params=["fresh", "resident", "kernel"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Give one sandbox of each mode."""
    with Sandbox(mode=request.param) as opened:
        yield opened


def test_each_form_of_a_value_has_a_name(sandbox: Sandbox) -> None:
    """Text as text, images as bytes; nothing of it is in the streams."""
    result = sandbox.run_code(f"{FORMS}Value()")
    (value,) = result.results
    assert (value.text, value.html, value.markdown) == ("plain", "<b>1</b>", "*1*")
    assert (value.svg, value.png, value.jpeg) == ("<svg/>", b"\x89PNG", b"\xff\xd8")
    assert json.loads(value.json or "") == {"one": 1}
    assert len(value.formats()) == 7
    assert (result.stdout, result.code_stderr, result.exit_code) == ("", "", 0)


def test_values_come_in_the_order_they_were_shown(sandbox: Sandbox) -> None:
    """Those of `display`, then the last expression; also where the code fails."""
    shown = sandbox.run_code("display(1)\nprint('between')\ndisplay('two')\n3")
    assert [value.text for value in shown.results] == ["1", "'two'", "3"]
    assert shown.stdout == "between\n"
    failed = sandbox.run_code("display(1)\n1/0")
    assert [value.text for value in failed.results] == ["1"]
    assert failed.exit_code == 1


def test_a_form_that_is_missing_is_none(sandbox: Sandbox) -> None:
    """Asking for it is no error."""
    (value,) = sandbox.run_code("41 + 1").results
    assert (value.text, value.html, value.png, value.json) == ("42", None, None, None)


def test_json_reads_back_in_both_spellings(sandbox: Sandbox) -> None:
    """CamelCase as the Node binding has it, and the names of Python."""
    result = sandbox.run_code(f"{FORMS}open('a', 'w').close()\nValue()")
    camel = result.model_dump(mode="json", by_alias=True)
    snake = result.model_dump(mode="json")
    assert camel.keys() >= FIELDS
    assert {"exit_code", "code_stderr", "duration_ms"} <= snake.keys()
    for form in (camel, snake):
        assert ExecutionResult.model_validate(json.loads(json.dumps(form))) == result


def test_a_fault_reads_back(sandbox: Sandbox) -> None:
    """By its type, and one that a newer kern adds stays its own word."""
    result = sandbox.run_code("import time; time.sleep(60)", timeout_s=1)
    form: dict[str, Any] = result.model_dump(mode="json", by_alias=True)
    assert form["fault"]["type"] == "timeout"
    assert ExecutionResult.model_validate(form).fault_type == "timeout"
    form["fault"]["type"] = "frozen_solid"
    assert ExecutionResult.model_validate(form).fault_type == "frozen_solid"


def test_a_result_cannot_be_changed(sandbox: Sandbox) -> None:
    """Neither it nor what it holds takes another value."""
    result = sandbox.run_code("open('b', 'w').close()\n1")
    for model, field in ((result, "stdout"), (result.results[0], "data")):
        with pytest.raises(ValidationError):
            setattr(model, field, "other")


def test_each_stream_has_the_cap_for_itself() -> None:
    """One that floods costs the other nothing, and the code's end is its own."""
    code = (
        "import os\nfor n in (1, 2): os.write(n, bytes([64 + n]) * 5000)\nos._exit(3)"
    )
    with Sandbox(max_output_bytes=1000, prewarm=0) as sandbox:
        result = sandbox.run_code(code)
    assert (result.stdout, result.code_stderr) == ("A" * 1000, "B" * 1000)
    assert (result.stdout_bytes, result.stderr_bytes) == (5000, 5000)
    assert (result.truncated, result.exit_code) == (True, 3)


def test_the_duration_is_that_of_the_call(sandbox: Sandbox) -> None:
    """Wall-clock time in milliseconds, what it waited for others not included."""
    result = sandbox.run_code("import time\ntime.sleep(0.2)")
    assert result.duration_ms >= 200
    assert result.queued_ms >= 0


def test_one_call_needs_no_sandbox() -> None:
    """`run_code` at the top level has a throwaway one, with options of any kind."""
    result = run_code("print(sum(range(100)))")
    assert (result.stdout, result.success) == ("4950\n", True)
    assert run_code("exit 3", "sh", memory_mb=64).exit_code == 3
    assert run_code("1", language="python").results[0].text == "1"


async def test_one_call_needs_no_sandbox_in_an_event_loop_either() -> None:
    """`arun_code` has a throwaway one too, with a language and options of any kind."""
    result = await arun_code("exit 3", "sh", memory_mb=64)
    assert (result.exit_code, result.success) == (3, False)
    assert (await arun_code("1")).results[0].text == "1"


async def test_one_async_call_reports_a_sandbox_that_cannot_be_opened() -> None:
    """As its result, with the fault that says why, and no exception."""
    result = await arun_code("1", image="localhost/no-such-image:1", offline=True)
    assert result.fault is not None
    assert (result.fault.type, result.fault.reason) == ("startup_failed", "image")
    assert (result.exit_code, result.success) == (125, False)


@pytest.mark.parametrize("given", [{"timeout_s": -1}, {"packages": ["none"]}], ids=repr)
async def test_one_call_refuses_options_that_cannot_be_used(
    given: dict[str, Any],
) -> None:
    """A mistake of the program is no result of the code, whenever it is found."""
    with pytest.raises(ConfigError) as refused:
        run_code("1", **given)
    with pytest.raises(ConfigError) as again:
        await arun_code("1", **given)
    assert refused.value.option == again.value.option == next(iter(given))


def test_a_fault_is_raised_where_it_is_asked_for() -> None:
    """The error has the fault's own name and words, and carries the whole result."""
    result = run_code("print('begun', flush=True)\nwhile True: pass", timeout_s=1)
    with pytest.raises(FaultError) as raised:
        result.raise_for_fault()
    assert result.fault is not None
    assert raised.value.result is result
    assert raised.value.fault is result.fault
    assert (raised.value.code, result.stdout) == ("timeout", "begun\n")
    assert str(raised.value) == result.fault.message


def test_a_failure_of_the_code_is_no_fault_to_raise() -> None:
    """What the code did itself is read off the result."""
    result = run_code("exit 3", "sh")
    result.raise_for_fault()
    assert result.exit_code == 3
