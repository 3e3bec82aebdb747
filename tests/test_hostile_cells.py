"""Cells that lie, fork and flood, and what is believed of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kern_tools import FaultType, Sandbox
from kern_tools.frames import FrameReader, rich_result
from tests.depth import crossed

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()


@pytest.fixture(params=["fresh", "resident", "kernel"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """The same cells in every mode."""
    with Sandbox(mode=request.param, timeout_s=20) as sandbox:
        yield sandbox


FORKS = {
    "exits": "sys.exit(0)",
    "raises": "raise ValueError('the child')",
    "runs to the end": "pass",
}


@pytest.mark.parametrize("child", FORKS.values(), ids=list(FORKS))
def test_a_fork_of_the_cell_does_not_end_the_call(sandbox: Sandbox, child: str) -> None:
    """The parent's outcome counts, as in a script; the child's value is not shown."""
    code = (
        "import os, sys, time\npid = os.fork()\n"
        f"if pid == 0: {child}\n"
        "else:\n  os.waitpid(pid, 0)\n  print('parent')\n  sys.exit(7)\n'value'"
    )
    result = sandbox.run_code(code)
    assert (result.exit_code, result.fault) == (7, None)
    assert result.stdout == "parent\n"
    assert result.results == []
    assert sandbox.run_code("print(2)").stdout == "2\n"


def _write_to_socket(frames: str) -> str:
    """Give a cell that finds its control socket and writes to it."""
    return (
        "import os, socket\n"
        "for n in range(3, 40):\n"
        "  try: s = socket.socket(fileno=n)\n"
        "  except OSError: continue\n"
        f"  s.sendall({frames})\n"
        "  s.detach()\n"
        "print('on')"
    )


FLOODS = {
    "a frame that never ends": "b'r' + (2**32 - 1).to_bytes(4, 'little')",
    "a frame of nothing but forms": "b'r' + (16_000_000).to_bytes(4, 'little')"
    " + b'a\\x000\\x00' * 4_000_000",
    "a forged exec failure": "b'e' + (9).to_bytes(4, 'little') + b'2\\x001\\x00/bin'",
    "letters that mean nothing": "b'?' * 100_000",
    "a process that is not there": "b'p' + (0).to_bytes(4, 'little')",
}


@pytest.mark.parametrize("frames", FLOODS.values(), ids=list(FLOODS))
def test_what_a_cell_writes_to_its_socket_makes_no_fault(frames: str) -> None:
    """It can spoil its own call, within the deadline; the next one is fine."""
    with Sandbox(timeout_s=10) as sandbox:
        result = sandbox.run_code(_write_to_socket(frames))
        assert result.fault_type in (None, FaultType.TIMEOUT)
        assert result.fault_type != FaultType.EXEC_FAILED
        assert sandbox.run_code("print(2)").stdout == "2\n"


def test_a_cell_that_says_done_early_is_ended() -> None:
    """Nothing that it does afterwards happens."""
    done = "b'x' + (1).to_bytes(4, 'little') + b'0'"
    code = _write_to_socket(done) + "\nimport time\ntime.sleep(60)"
    with Sandbox(timeout_s=20) as sandbox:
        assert sandbox.run_code(code).fault is None
        assert sandbox.run_code("print(2)").stdout == "2\n"


def test_a_rich_value_keeps_its_good_forms() -> None:
    """One that is not base64 is left out, the others stay."""
    payload = b"text/plain\0002\0hiimage/png\0004\0????text/html\0001\0x"
    value = rich_result(payload)
    assert value is not None
    assert value.data == {"text/plain": "hi", "text/html": "x"}


@pytest.mark.parametrize(
    "payload",
    [b"", b"x", b"\0", b"a\0", b"a\0x\0", b"a\0-1\0", b"\0" * 99, b"a" * 9999],
)
def test_a_payload_that_is_no_value_is_none(payload: bytes) -> None:
    """Whatever the bytes are, reading them ends."""
    assert rich_result(payload) is None


def test_a_frame_over_the_bound_ends_the_reading() -> None:
    """The reader says that it is broken and reads no more."""
    reader = FrameReader()
    assert reader.feed(b"r\xff\xff\xff\xff") == []
    assert reader.broken
    assert reader.feed(b"x\x01\0\0\x000") == []


def test_a_path_of_the_workspace_gives_no_code_a_start_before_ours() -> None:
    """A module that every interpreter imports first is Python's own all the same."""
    with Sandbox(env={"PYTHONPATH": "/workspace"}) as sandbox:
        sandbox.write_file("encodings/__init__.py", "import posix\nposix._exit(9)")
        sandbox.write_file("mine.py", "x = 5")
        for _ in range(2):
            result = sandbox.run_code("import mine\nprint(mine.x)")
            assert (result.stdout, result.exit_code) == ("5\n", 0)


def test_interpreter_variables_are_heeded() -> None:
    """What only the start of an interpreter can read, it reads."""
    env = {"PYTHONHASHSEED": "0", "PYTHONWARNINGS": "error"}
    with Sandbox(env=env) as sandbox:
        hashes = {sandbox.run_code("print(hash('a'))").stdout for _ in range(2)}
        assert len(hashes) == 1
        raised = sandbox.run_code("import warnings\nwarnings.warn('x')")
        assert "UserWarning" in raised.code_stderr
        assert raised.exit_code == 1


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("x = 1\rx\r\nx", 0),
        ("\ufeffx = 1", 0),
        ("import sys\nsys.exit(10**30)", 255),
        ("class E:\n  def __str__(self): 1/0\nraise SystemExit(E())", 1),
    ],
    ids=["lone CR", "byte order mark", "huge exit code", "unprintable exit"],
)
def test_odd_sources_run_as_in_python(
    sandbox: Sandbox, code: str, exit_code: int
) -> None:
    """None of our own frames shows up, and nothing is lost."""
    result = sandbox.run_code(code)
    assert (result.exit_code, result.fault) == (exit_code, None)
    assert "driver" not in result.code_stderr


VALUES = {
    "JSON that is none": "def _repr_json_(self): return {1, 2}",
    "a bundle that is none": "def _repr_mimebundle_(self, **kw): return 5",
    "a PNG that is text": "def _repr_png_(self): return 'no'",
    "a form that raises": "def _repr_html_(self): 1/0",
}


@pytest.mark.parametrize("method", VALUES.values(), ids=list(VALUES))
def test_a_broken_form_costs_only_itself(sandbox: Sandbox, method: str) -> None:
    """The value's text is shown and the cell's outcome stays."""
    code = f"class V:\n  def __repr__(self): return 'plain'\n  {method}\nV()"
    result = sandbox.run_code(code)
    assert (result.exit_code, result.fault) == (0, None)
    assert result.results[0].text == "plain"


def test_a_huge_value_shows_its_head(sandbox: Sandbox) -> None:
    """As much as a stream would be given."""
    (value,) = sandbox.run_code("'x' * 50_000_000").results
    assert value.text is not None
    assert value.text.startswith("'xxx")
    assert len(value.text) <= (1 << 20) + 1
