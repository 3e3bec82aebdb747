"""Boxes whose network kern could not filter at first, for a race between its own parts.

See `Box._start_again`: such a box is started once more, as no code has run in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kern_tools import Sandbox

from .refusals import FILTERED, Refusals


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Refusals:
    """Give one test a kern that can refuse."""
    refusals = Refusals(tmp_path)
    monkeypatch.setenv("KERN_BIN", str(refusals.program))
    return refusals


@pytest.fixture(params=["fresh", "resident", "kernel"])
def mode(request: pytest.FixtureRequest) -> Any:
    """Give each mode."""
    return request.param


def test_a_box_that_could_not_be_filtered_is_started_again(
    refusals: Refusals, mode: Any
) -> None:
    """The call knows nothing of it, nor does the next."""
    with Sandbox(mode=mode, prewarm=0, **FILTERED) as sandbox:
        refusals.plan(1)
        result = sandbox.run_code("import os; print(os.environ['HTTPS_PROXY'])")
        assert (result.stdout, result.fault) == ("http://127.0.0.1:3128\n", None)
        assert refusals.starts == 2
        assert sandbox.run(["echo", "next"]).stdout == "next\n"


def test_what_python_is_started_with_is_there_the_second_time(
    refusals: Refusals, mode: Any
) -> None:
    """And the refusal is in kern's own words, though the call ran."""
    options = {"env": {"PYTHONHASHSEED": "7", "A": "b"}, **FILTERED}
    with Sandbox(mode=mode, prewarm=0, **options) as sandbox:
        refusals.plan(1)
        code = "import os; print(os.environ['A'], os.environ['PYTHONHASHSEED'])"
        result = sandbox.run_code(code)
        assert (result.stdout, result.fault) == ("b 7\n", None)
        assert "the port never came up" in "\n".join(result.runtime_notes)


def test_code_finds_the_filter_at_work(mode: Any) -> None:
    """A first request is not refused because it came too early."""
    code = "import socket; socket.create_connection(('127.0.0.1', 3128), 30).close()"
    with Sandbox(mode=mode, prewarm=0, **FILTERED) as sandbox:
        result = sandbox.run_code(code)
        assert result.success, result.code_stderr


def test_a_second_refusal_is_told(refusals: Refusals, mode: Any) -> None:
    """With kern's own words; the sandbox is as usable as before."""
    with Sandbox(mode=mode, prewarm=0, **FILTERED) as sandbox:
        refusals.plan(2)
        result = sandbox.run_code("print('never')")
        assert result.fault is not None
        assert (result.fault.type, result.fault.reason) == ("startup_failed", "host")
        assert result.stdout == ""
        assert "the port never came up" in "\n".join(result.runtime_notes)
        assert refusals.starts == 2
        assert sandbox.run_code("print('later')").stdout == "later\n"


def test_a_box_without_a_filter_is_not_started_again(
    refusals: Refusals, mode: Any
) -> None:
    """What kern refuses there it would refuse again."""
    with Sandbox(mode=mode, prewarm=0) as sandbox:
        refusals.plan(1)
        result = sandbox.run_code("print('never')")
        assert result.fault is not None
        assert result.fault.type == "startup_failed"
        assert refusals.starts == 1


def test_a_warm_box_that_was_refused_waits_all_the_same(refusals: Refusals) -> None:
    """The next call finds it."""
    refusals.plan(1)
    with Sandbox(prewarm=1, **FILTERED) as sandbox:
        assert sandbox.wait_ready(60)
        assert refusals.starts == 2
        assert sandbox.run_code("print('warm')").stdout == "warm\n"


def test_the_setup_code_of_a_box_that_was_refused_is_run(refusals: Refusals) -> None:
    """In the box that took its place, once."""
    code = "open('said', 'a').write('x')"
    refusals.plan(1)
    with Sandbox(mode="kernel", setup_code=code, **FILTERED) as sandbox:
        assert sandbox.run_code("print(open('said').read())").stdout == "x\n"
        assert refusals.starts == 2
