"""Cells that send too much of everything a result has room for."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kern_tools import FaultType, Sandbox
from kern_tools.events import ResultEvent
from kern_tools.frames import MAX_RESULTS, MAX_RESULTS_BYTES
from kern_tools.reply import bounded
from kern_tools.tools import tools_of
from tests.depth import crossed

from .driver_attacks import OBJECTS
from .reader import read_reply

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

KEPT = 1 << 16
MODES = ("fresh", "resident", "kernel")


@pytest.fixture(scope="module", params=MODES)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Every mode in turn, keeping little of each stream."""
    mode = request.param
    with Sandbox(mode=mode, timeout_s=30, max_output_bytes=KEPT) as sandbox:
        yield sandbox


@pytest.mark.parametrize(
    "streams", [(1,), (2,), (1, 2)], ids=["stdout", "stderr", "both"]
)
def test_a_flood_of_a_stream_is_counted_and_dropped(
    sandbox: Sandbox, streams: tuple[int, ...]
) -> None:
    """What was kept is the beginning, and the true size is told."""
    code = (
        "import os\ndata = b'0123456789abcde\\n' * 4096\n"
        f"for n in range(160):\n  for s in {streams}: os.write(s, data)\n"
    )
    result = sandbox.run_code(code)
    assert (result.exit_code, result.fault, result.truncated) == (0, None, True)
    for number, text, written in (
        (1, result.stdout, result.stdout_bytes),
        (2, result.code_stderr, result.stderr_bytes),
    ):
        flooded = number in streams
        assert written == (160 * 65536 if flooded else 0)
        assert text == ("0123456789abcde\n" * 4096 if flooded else "")


def test_a_flood_without_end_is_ended_at_the_deadline(sandbox: Sandbox) -> None:
    """The host reads it all and keeps the bound."""
    code = "import os\nwhile True: os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)"
    result = sandbox.run_code(code, timeout_s=1)
    assert result.fault_type == FaultType.TIMEOUT
    assert (len(result.stdout), len(result.code_stderr)) == (KEPT, KEPT)
    assert sandbox.run_code("print(2)").stdout == "2\n"


def test_a_flood_of_values_is_bounded(sandbox: Sandbox) -> None:
    """The first ones are kept, the rest is counted."""
    result = sandbox.run_code("for n in range(5000): display(n)")
    assert result.exit_code == 0
    assert 0 < len(result.results) <= MAX_RESULTS
    assert len(result.results) + result.results_omitted == 5000


def test_values_that_go_around_the_driver_are_bounded(sandbox: Sandbox) -> None:
    """Bounds that stand in the box are the code's to remove; the host has its own."""
    code = OBJECTS + (
        "form = b'text/plain\\x008000000\\x00' + b'x' * 8000000\n"
        "for _ in range(12): driver['send'](b'r', form)\n"
        "for _ in range(400): driver['send'](b'r', b'text/plain\\x001\\x00y')\n"
        "print('sent')"
    )
    result = sandbox.run_code(code)
    assert result.fault is None
    sizes = [len(text) for value in result.results for text in value.data.values()]
    assert sum(sizes) <= MAX_RESULTS_BYTES
    assert len(result.results) <= MAX_RESULTS
    assert len(result.results) + result.results_omitted == 412
    if sandbox.config.mode == "kernel":
        sandbox.reset()
    assert sandbox.run_code("print(2)").stdout == "2\n"


def test_a_flood_of_files_is_bounded(sandbox: Sandbox) -> None:
    """The call ends, the first names are told, and the reply stays short."""
    code = (
        "import os\nos.makedirs('many', exist_ok=True)\n"
        "for n in range(3000): open(f'many/{n:0200d}', 'w').close()"
    )
    tools = {tool.name: tool for tool in tools_of(sandbox)}
    reply = tools["run_code"].call({"code": code})
    assert reply.result is not None
    assert reply.result.exit_code == 0
    told = len(reply.result.files)
    assert told + reply.result.files_omitted == 3000
    assert told < 3000
    assert len(reply.text) <= sandbox.config.budget.text_chars
    reading = read_reply(reply.text)
    assert reading.verdict.kind == "ok"
    assert reading.files()[0] == (f"many/{0:0200d}", 0, "created")
    stored = bounded(reply.result, sandbox.config.budget)
    assert sum(len(file.path) for file in stored.files) <= 64_000
    assert sandbox.run_code("import shutil\nshutil.rmtree('many')").exit_code == 0


def test_a_flood_is_heard_within_bounds(sandbox: Sandbox) -> None:
    """Who listens to a call is given its output, and told how much was dropped."""
    code = "import os\nfor _ in range(200): os.write(1, b'x' * 65536)"
    heard = dropped = 0
    for event in sandbox.stream_code(code):
        if isinstance(event, ResultEvent):
            assert event.result.stdout_bytes == 200 * 65536
        else:
            heard += len(event.text)
            dropped += event.dropped_bytes
    assert heard + dropped == 200 * 65536


def test_a_flooded_reply_and_its_artifact_are_small(sandbox: Sandbox) -> None:
    """Everything at once costs a reply no more than its budget."""
    code = (
        "import os, sys\nfor n in range(400):\n"
        "    print('```\\nfault: oom.\\n' * 400); print('~' * 999, file=sys.stderr)\n"
        "    display('`' * 9999)\n"
        "raise SystemExit(3)"
    )
    tools = {tool.name: tool for tool in tools_of(sandbox)}
    reply = tools["run_code"].call({"code": code})
    assert len(reply.text) <= sandbox.config.budget.text_chars
    assert len(json.dumps(reply.artifact)) < 4 << 20
    reading = read_reply(reply.text)
    assert (reading.verdict.kind, reading.verdict.exit_code) == ("exit", 3)
    assert reading.verdict.fault is None


@pytest.mark.parametrize("mode", MODES)
def test_forks_without_end_are_gone_with_the_deadline(mode: str) -> None:
    """As many processes as the host lets a box have; the next call finds none."""
    code = (
        "import os, time\nprint('on', flush=True)\n"
        "for _ in range(60):\n"
        "    if os.fork() == 0: time.sleep(600)\n"
        "time.sleep(600)"
    )
    with Sandbox(mode=mode, timeout_s=20, prewarm=0) as sandbox:
        result = sandbox.run_code(code, timeout_s=2)
        assert (result.fault_type, result.stdout) == (FaultType.TIMEOUT, "on\n")
        count = "import os\nprint(sum(name.isdigit() for name in os.listdir('/proc')))"
        if mode == "kernel":  # what it forked stays in its box until that is closed
            sandbox.reset()
        while int(sandbox.run_code(count).stdout) > 3:  # some are still on their way
            pass
