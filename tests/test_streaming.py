"""Output told while a call runs: to callbacks, and to whoever iterates."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest

from kern_tools import Sandbox, SandboxClosed, workspace_cap
from kern_tools.events import CallEvent, OutputEvent, ResultEvent
from kern_tools.result import ExecutionResult
from kern_tools.tools import tools_of
from tests.depth import crossed

from .adapters.cells import WAITS, Gate

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

MODES = ["fresh", "resident", "kernel"]
BOTH = (
    "import os\nfor byte in 'aé🙂'.encode(): os.write(1, bytes([byte]))\n"
    "os.write(2, b'oh')\nos.write(1, b'end')"
)
ANSWERED = (
    "import os\nfor n in range(5):\n    print(n, flush=True)\n"
    "    while not os.path.exists(f'seen{n}'): pass\n"
)
"""Goes on only once somebody saw what it printed."""
FLOOD = "import os\nfor _ in range(256): os.write(1, b'x' * 65536)\n"
FLOOD_BYTES = 1 << 24
ENDLESS = f"print('on', flush=True)\n{WAITS}"


@pytest.fixture(params=MODES)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox in each mode, in which no call ends by its limit."""
    with Sandbox(mode=request.param, timeout_s=60) as sandbox:
        yield sandbox


@pytest.fixture
def gate(sandbox: Sandbox) -> Iterator[Gate]:
    """What tells whether the cell `WAITS` runs."""
    gate = Gate(sandbox)
    yield gate
    gate.close()


def split(events: list[CallEvent]) -> tuple[str, str, ExecutionResult]:
    """Join the pieces of each stream; the last event is the result."""
    *pieces, last = events
    assert isinstance(last, ResultEvent)
    joined = {"stdout": "", "stderr": ""}
    for piece in pieces:
        assert isinstance(piece, OutputEvent)
        assert (piece.call_id, piece.dropped_bytes) == (last.call_id, 0)
        joined[piece.stream] += piece.text
    return joined["stdout"], joined["stderr"], last.result


async def collected(stream: Any) -> list[CallEvent]:
    """Iterate to the end, asynchronously."""
    return [event async for event in stream]


# iterating


@pytest.mark.parametrize("is_async", [False, True], ids=["for", "async for"])
def test_the_pieces_add_up_to_the_result(sandbox: Sandbox, is_async: bool) -> None:
    """Both streams, in whole characters however they were written."""
    stream = sandbox.stream_code(BOTH, call_id="mine")
    events = asyncio.run(collected(stream)) if is_async else list(stream)
    stdout, stderr, result = split(events)
    assert stdout == result.stdout == "aé🙂end"
    assert stderr == result.code_stderr == "oh"
    assert result.call_id == events[0].call_id == stream.call_id == "mine"


def test_pieces_come_while_the_call_runs(sandbox: Sandbox) -> None:
    """The code waits for each answer, so each piece came before the next."""
    seen: list[str] = []
    for event in sandbox.stream_code(ANSWERED):
        if isinstance(event, OutputEvent):
            seen.append(event.text)
            sandbox.write_file(f"seen{event.text.strip()}", "")
    assert seen == [f"{n}\n" for n in range(5)]


async def test_pieces_come_to_async_for_as_well(sandbox: Sandbox) -> None:
    """On the caller's event loop, which stays free."""
    seen: list[str] = []
    async for event in sandbox.stream_code(ANSWERED):
        if isinstance(event, OutputEvent):
            seen.append(event.text)
            sandbox.write_file(f"seen{event.text.strip()}", "")
    assert seen == [f"{n}\n" for n in range(5)]


def test_a_program_can_be_told_as_well(sandbox: Sandbox) -> None:
    """`stream` is to `run` what `stream_code` is to `run_code`."""
    events = list(sandbox.stream(["sh", "-c", "echo out; echo err >&2; exit 3"]))
    stdout, stderr, result = split(events)
    assert (stdout, stderr, result.exit_code) == ("out\n", "err\n", 3)


def test_output_before_a_timeout_is_told(sandbox: Sandbox) -> None:
    """The last event carries the fault."""
    code = "print('on', flush=True)\nimport time; time.sleep(60)"
    stdout, _, result = split(list(sandbox.stream_code(code, timeout_s=1)))
    assert (stdout, result.fault_type) == ("on\n", "timeout")


@pytest.mark.parametrize("is_async", [False, True], ids=["for", "async for"])
def test_code_makes_room_in_a_full_workspace(sandbox: Sandbox, is_async: bool) -> None:
    """It may look and remove; what adds to the files is stopped."""
    options: dict[str, Any] = {"mode": sandbox.config.mode, "workspace_max_bytes": 4096}

    def last(code: str) -> ExecutionResult:
        stream = full.stream_code(code)
        events = asyncio.run(collected(stream)) if is_async else list(stream)
        assert isinstance(events[-1], ResultEvent)
        return events[-1].result

    with Sandbox(**options) as full:
        full.write_file("big", bytes(1 << 16))
        assert last("import os\nprint(os.listdir())").stdout == "['big']\n"
        adding = "import time\nopen('more', 'wb').write(bytes(1 << 20))\ntime.sleep(60)"
        assert last(adding).fault_type == "workspace_full"
        assert last("import os\nos.remove('big')").success
        assert last("open('more', 'w').write('x')").success


def test_a_full_workspace_hides_no_other_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is told of it where nothing else ended the call, however quick it was."""
    monkeypatch.setattr(workspace_cap, "_PAUSE_S", 3600)
    write = "import ctypes\nopen('big', 'wb').write(bytes(1 << 16))\n"
    mount = "ctypes.CDLL(None).mount(b'n', b'/tmp', b'tmpfs', 0, 0)"
    with Sandbox(workspace_max_bytes=4096, prewarm=0) as full:
        assert full.run_code(write + mount).fault_type == "escape_blocked"
        full.write_file("big", b"")
        assert full.run_code(write).fault_type == "workspace_full"


async def test_streams_side_by_side_do_not_mix(sandbox: Sandbox) -> None:
    """Each iterator has its own call's pieces."""
    calls = [collected(sandbox.stream_code(f"print({n})")) for n in range(6)]
    for n, events in enumerate(await asyncio.gather(*calls)):
        assert split(events)[0] == f"{n}\n"


def test_nothing_begins_before_the_first_step(sandbox: Sandbox) -> None:
    """An iterator nobody reads is no call."""
    stream = sandbox.stream_code("open('made', 'w').close()")
    stream.close()
    asyncio.run(stream.aclose())
    assert list(stream) == []
    assert sandbox.list_files() == []


def test_it_is_read_in_one_way_and_once(sandbox: Sandbox) -> None:
    """`for` and `async for` on one call is a mistake, and is told."""
    stream = sandbox.stream_code("print(1)")
    assert isinstance(next(stream), OutputEvent)
    with pytest.raises(RuntimeError, match="use one of them"):
        asyncio.run(collected(stream))
    assert list(stream) == []


async def test_it_is_not_read_on_by_for(sandbox: Sandbox) -> None:
    """The other way round is the same mistake."""
    stream = sandbox.stream_code("print(1)")
    assert isinstance(await anext(stream), OutputEvent)
    with pytest.raises(RuntimeError, match="use one of them"):
        next(stream)
    assert await collected(stream) == []


# a reader that is too slow


def test_a_reader_that_stops_does_not_stall_the_box(sandbox: Sandbox) -> None:
    """The code ends while nobody reads; losses are told and the result is whole."""
    os.mkfifo(sandbox.workspace.root / "end")
    stream = sandbox.stream_code(f"{FLOOD}open('end', 'w').close()")
    first = next(stream)
    (sandbox.workspace.root / "end").read_bytes()  # until the code came to its end
    *pieces, last = [first, *stream]
    told = [piece for piece in pieces if isinstance(piece, OutputEvent)]
    read_bytes = sum(len(piece.text) for piece in told)
    assert read_bytes + sum(piece.dropped_bytes for piece in told) == FLOOD_BYTES
    assert read_bytes < FLOOD_BYTES
    assert isinstance(last, ResultEvent)
    assert (last.result.stdout_bytes, last.result.exit_code) == (FLOOD_BYTES, 0)
    assert last.result.stdout == "x" * len(last.result.stdout) != ""


# leaving early


def test_leaving_the_loop_ends_the_call(sandbox: Sandbox, gate: Gate) -> None:
    """The box is killed as soon as nothing refers to the iterator."""
    for _ in sandbox.stream_code(ENDLESS):
        assert gate.wait() == b"running"
        break
    assert gate.wait_end() == b""
    assert sandbox.run_code("print(7)").stdout == "7\n"
    assert "late" not in [file.path for file in sandbox.list_files()]


def test_leaving_a_with_block_waits_until_the_box_is_gone(
    sandbox: Sandbox, gate: Gate
) -> None:
    """As `close` does."""
    with sandbox.stream_code(ENDLESS) as stream:
        next(stream)
        assert gate.wait() == b"running"
    assert gate.is_gone()
    assert list(stream) == []


async def test_leaving_the_async_loop_ends_the_call(
    sandbox: Sandbox, gate: Gate
) -> None:
    """Also when it is not inside `async with`."""
    async for _ in sandbox.stream_code(ENDLESS):
        assert await asyncio.to_thread(gate.wait) == b"running"
        break
    assert await asyncio.to_thread(gate.wait_end) == b""
    assert (await sandbox.arun_code("print(7)")).stdout == "7\n"


async def test_aclose_waits_until_the_box_is_gone(sandbox: Sandbox, gate: Gate) -> None:
    """So does the end of an `async with` block."""
    stream = sandbox.stream_code(ENDLESS)
    await anext(stream)
    assert await asyncio.to_thread(gate.wait) == b"running"
    await stream.aclose()
    assert gate.is_gone()
    assert await collected(stream) == []


async def test_a_step_that_nobody_resumes_can_be_closed(
    sandbox: Sandbox, gate: Gate
) -> None:
    """It awaits nothing in its end, and the call is there to be ended."""
    stream = sandbox.stream_code(ENDLESS)
    assert isinstance(await anext(stream), OutputEvent)
    gate.wait()
    step = stream.__anext__()
    step.send(None)
    step.close()
    await stream.aclose()
    assert gate.is_gone()


async def test_cancelling_the_reader_ends_the_call(
    sandbox: Sandbox, gate: Gate
) -> None:
    """The cancellation goes on once the box is gone."""
    task = asyncio.create_task(collected(sandbox.stream_code(ENDLESS)))
    assert await asyncio.to_thread(gate.wait) == b"running"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.is_gone()


async def test_leaving_before_the_turn_comes_runs_nothing(
    sandbox: Sandbox, gate: Gate
) -> None:
    """A call that waits for another is dequeued, and the other goes on."""
    first = asyncio.create_task(sandbox.arun_code(WAITS))
    assert await asyncio.to_thread(gate.wait) == b"running"
    stream = sandbox.stream_code("open('ran', 'w').close()")
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not gate.is_gone()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert "ran" not in [file.path for file in sandbox.list_files()]


def test_an_event_loop_that_ends_leaves_no_box(sandbox: Sandbox, gate: Gate) -> None:
    """An iterator that is left as the loop closes is no trouble either."""

    async def leave() -> None:
        async for _ in sandbox.stream_code(ENDLESS):
            assert gate.wait() == b"running"
            return

    asyncio.run(leave())
    assert gate.wait_end() == b""


def test_closing_the_sandbox_ends_the_iteration(gate: Gate, sandbox: Sandbox) -> None:
    """The reader is told, as the caller of `run_code` is."""
    stream = sandbox.stream_code(ENDLESS)
    next(stream)
    assert gate.wait() == b"running"
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(sandbox.close)
        with pytest.raises(SandboxClosed):
            list(stream)
        closing.result()


def test_closing_from_another_thread_ends_a_reader_that_waits(
    sandbox: Sandbox, gate: Gate
) -> None:
    """Its call, behind another, never begins; the other goes on."""
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(sandbox.run_code, WAITS)
        assert gate.wait() == b"running"
        stream = sandbox.stream_code("open('ran', 'w').close()")
        reader = pool.submit(list, stream)
        if sandbox.config.mode != "fresh":
            while not stream._conduct:  # pyright: ignore[reportPrivateUsage]
                pass
        stream.close()
        left = reader.result(60)
        assert all(isinstance(event, ResultEvent) for event in left)
        assert not gate.is_gone()
        sandbox.interrupt()
        assert first.result(60).fault is None
    assert sandbox.run_code("print(7)").stdout == "7\n"


async def test_closing_from_another_task_ends_a_reader_that_waits(
    sandbox: Sandbox, gate: Gate
) -> None:
    """As from another thread."""
    first = asyncio.create_task(sandbox.arun_code(WAITS))
    assert await asyncio.to_thread(gate.wait) == b"running"
    stream = sandbox.stream_code("open('ran', 'w').close()")
    reader = asyncio.create_task(collected(stream))
    await asyncio.sleep(0)
    await stream.aclose()
    assert all(isinstance(event, ResultEvent) for event in await reader)
    sandbox.interrupt()
    assert (await first).fault is None
    assert (await sandbox.arun_code("print(7)")).stdout == "7\n"


# callbacks


def test_a_callback_that_blocks_holds_up_neither_box_nor_result(
    sandbox: Sandbox,
) -> None:
    """It is given up soon after the call has ended, and a warning says so."""
    released = threading.Event()
    with pytest.warns(RuntimeWarning, match="still at work"):
        result = sandbox.run_code(FLOOD, on_stdout=lambda _: released.wait())
    released.set()
    assert (result.stdout_bytes, result.exit_code) == (FLOOD_BYTES, 0)
    assert sandbox.run_code("print(7)").stdout == "7\n"


async def test_a_callback_that_blocks_holds_up_no_cancellation(
    sandbox: Sandbox, gate: Gate
) -> None:
    """A cancelled call waits for its box alone."""
    released = threading.Event()
    call = sandbox.arun_code(ENDLESS, on_stdout=lambda _: released.wait())
    task = asyncio.create_task(call)
    assert await asyncio.to_thread(gate.wait) == b"running"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.is_gone()
    released.set()


def test_callbacks_see_the_context_of_the_caller(sandbox: Sandbox) -> None:
    """A trace or a request id set around the call is set in them too."""
    request: ContextVar[str] = ContextVar("request")
    seen: list[str] = []
    request.set("r1")
    sandbox.run_code("print(1)", on_stdout=lambda _: seen.append(request.get()))
    assert seen == ["r1"]


def test_a_callback_that_raises_leaves_the_others_alone(sandbox: Sandbox) -> None:
    """The stream that has no trouble goes on."""

    def broken(_: str) -> None:
        raise SystemExit

    seen: list[str] = []
    with pytest.warns(RuntimeWarning, match="SystemExit"):
        result = sandbox.run_code(BOTH, on_stdout=broken, on_stderr=seen.append)
    assert (seen, result.stdout) == (["oh"], "aé🙂end")


def test_callbacks_of_the_sandbox_hear_a_streamed_call_too(sandbox: Sandbox) -> None:
    """What is configured once holds for every way of calling."""
    seen: list[str] = []
    with Sandbox(mode=sandbox.config.mode, on_stdout=seen.append) as heard:
        list(heard.stream_code("print(1)"))
    assert "".join(seen) == "1\n"


# tools


@pytest.mark.parametrize("is_async", [False, True], ids=["call", "acall"])
def test_a_tool_tells_what_its_code_writes(sandbox: Sandbox, is_async: bool) -> None:
    """The framework's id of the call is on every piece."""
    (tool,) = tools_of(sandbox, "run_code")
    told: list[OutputEvent] = []
    options: dict[str, Any] = {"call_id": "call_7", "on_output": told.append}
    if is_async:
        reply = asyncio.run(tool.acall({"code": BOTH}, **options))
    else:
        reply = tool.call({"code": BOTH}, **options)
    assert reply.result is not None
    last = ResultEvent("call_7", reply.result)
    assert split([*told, last]) == ("aé🙂end", "oh", reply.result)


def test_a_command_tells_what_it_writes(sandbox: Sandbox) -> None:
    """As `run_code` does."""
    (tool,) = tools_of(sandbox, "run_command")
    told: list[OutputEvent] = []
    reply = tool.call({"command": "echo out; echo err >&2"}, on_output=told.append)
    assert reply.result is not None
    last = ResultEvent(told[0].call_id, reply.result)
    assert split([*told, last])[:2] == ("out\n", "err\n")


def test_a_tool_tells_no_more_than_its_result_keeps(sandbox: Sandbox) -> None:
    """A framework's queue of events has no bound of its own."""
    options = {"max_output_bytes": 1001, "mode": sandbox.config.mode}
    told: list[OutputEvent] = []
    with Sandbox(**options) as small:
        (tool,) = tools_of(small, "run_code")
        code = {"code": "print('é' * 100_000, end='')"}
        reply = tool.call(code, on_output=told.append)
    assert reply.result is not None
    assert "".join(event.text for event in told) == reply.result.stdout == "é" * 500
    assert sum(event.dropped_bytes for event in told) == 199_000


def test_a_tool_without_output_tells_nothing(sandbox: Sandbox) -> None:
    """A listener is welcome everywhere."""
    told: list[OutputEvent] = []
    for tool in tools_of(sandbox, "files"):
        tool.call({}, on_output=told.append)
    assert told == []
