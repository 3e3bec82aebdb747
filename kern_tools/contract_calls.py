"""What every call of a sandbox gives back: output, values, faults, and no lies."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence

import pytest

from .contract import Make, SandboxClauses
from .contract_view import kern_processes
from .events import CallEvent, OutputEvent, ResultEvent
from .faults import FaultType

LIES = {
    "kern's warning": "kern: warning: mine",
    "kern's note": "  kern: note: all is well",
    "a failed exec": "kern: cannot start 'node' in box: No such file or directory",
    "a failed start": "error: registry: manifest unknown",
    "an out of memory": "kern: the workload was killed by the OOM killer",
}

_BOTH = (
    "import os\nfor byte in 'aé🙂'.encode(): os.write(1, bytes([byte]))\n"
    "os.write(2, b'oh')\nos.write(1, b'end')"
)
_ANSWERED = (
    "import os\nfor n in range(3):\n    print(n, flush=True)\n"
    "    while not os.path.exists(f'seen{n}'): pass\n"
)
_FLOOD_BYTES = 1 << 23
_FLOOD = f"import os\nfor _ in range({_FLOOD_BYTES >> 16}): os.write(1, b'x' * 65536)\n"


class CallContract(SandboxClauses):
    """A result says what the code did, and who ended it."""

    # -- output

    def test_streams_are_kept_apart_and_exact(self, make: Make) -> None:
        """Each stream arrives byte for byte, the children's output included."""
        code = (
            "import os, sys\nprint('out')\nprint('err', file=sys.stderr)\n"
            "os.system('echo child; echo cerr >&2')\nprint('end', end='')"
        )
        result = make().run_code(code)
        assert result.stdout == "out\nchild\nend"
        assert result.code_stderr == "err\ncerr\n"
        assert result.success

    def test_the_value_of_the_last_expression_comes_back(self, make: Make) -> None:
        """The last expression's value is a result, unless a semicolon ends it."""
        sandbox = make()
        (value,) = sandbox.run_code("x = 41\nx + 1").results
        assert value.text == "42"
        assert sandbox.run_code("x = 41\nx;").results == []

    def test_an_exception_is_a_result_with_its_source_lines(self, make: Make) -> None:
        """A traceback shows the code's own frames and lines, and is no fault."""
        result = make().run_code("def f():\n    return 1 / 0\nprint('before')\nf()")
        assert (result.exit_code, result.fault) == (1, None)
        assert result.stdout == "before\n"
        assert "return 1 / 0" in result.code_stderr
        assert "ZeroDivisionError" in result.code_stderr
        assert "driver" not in result.code_stderr

    @pytest.mark.parametrize(
        ("argument", "code", "said"),
        [("", 0, ""), ("3", 3, ""), ("'bye'", 1, "bye\n"), ("256", 0, "")],
    )
    def test_sys_exit_means_what_it_means_in_a_script(
        self, make: Make, argument: str, code: int, said: str
    ) -> None:
        """`sys.exit` of a number is the exit code, of a message goes to stderr."""
        result = make().run_code(f"import sys\nsys.exit({argument})")
        assert (result.exit_code, result.code_stderr) == (code, said)
        assert result.fault is None

    def test_invalid_utf8_is_replaced_and_said(self, make: Make) -> None:
        """Bytes that are no text neither end the call nor pass unnoticed."""
        code = "import sys\nsys.stdout.buffer.write(b'ok\\xff\\xfeend')\nNone"
        result = make().run_code(code)
        assert (result.stdout, result.lossy) == ("ok\ufffd\ufffdend", True)

    def test_output_over_the_cap_is_counted_and_dropped(self, make: Make) -> None:
        """Output over the cap is cut between characters, counted, and costs no call."""
        result = make(max_output_bytes=1001).run_code("print('é' * 100_000, end='')")
        assert result.stdout == "é" * 500
        assert (result.stdout_bytes, result.truncated) == (200_000, True)
        assert result.exit_code == 0

    def test_callbacks_see_whole_characters_in_order(self, make: Make) -> None:
        """What a callback is given are whole characters that add up to the stream."""
        out: list[str] = []
        err: list[str] = []
        code = (
            "import os\nfor byte in 'aé🙂'.encode(): os.write(1, bytes([byte]))\n"
            "os.write(2, b'oh')"
        )
        result = make().run_code(code, on_stdout=out.append, on_stderr=err.append)
        assert "".join(out) == "aé🙂" == result.stdout
        assert "".join(err) == "oh"

    def test_a_callback_that_raises_costs_no_result(self, make: Make) -> None:
        """A callback that raises is told as a warning, and the call goes on."""

        def broken(text: str) -> None:
            raise ValueError(text)

        with pytest.warns(RuntimeWarning, match="ValueError"):
            result = make().run_code("print(1)", on_stdout=broken)
        assert result.stdout == "1\n"

    def test_input_finds_an_empty_stdin(self, make: Make) -> None:
        """`input()` fails at once instead of waiting for the deadline."""
        result = make().run_code("input('name? ')")
        assert "EOFError" in result.code_stderr
        assert result.fault is None

    # -- while it runs

    def test_an_iterator_tells_the_output_and_then_the_result(self, make: Make) -> None:
        """The pieces that an iterator tells add up to the result that it ends with."""
        *pieces, last = make().stream_code(_BOTH, call_id="mine")
        _assert_whole(pieces, last)

    async def test_an_async_iterator_tells_the_same(self, make: Make) -> None:
        """`async for` tells the same pieces, on the caller's own event loop."""
        stream = make().stream_code(_BOTH, call_id="mine")
        *pieces, last = [event async for event in stream]
        _assert_whole(pieces, last)

    def test_output_is_told_while_the_code_runs(self, make: Make) -> None:
        """Output is told while the code runs: here it waits for each answer."""
        sandbox = make()
        seen: list[str] = []
        for event in sandbox.stream_code(_ANSWERED):
            if isinstance(event, OutputEvent):
                seen.append(event.text.strip())
                sandbox.write_file(f"seen{seen[-1]}", "")
        assert seen == ["0", "1", "2"]

    def test_a_program_is_heard_as_code_is(self, make: Make) -> None:
        """`run` takes the same callbacks, and `stream` tells the same events."""
        sandbox, command = make(), ["sh", "-c", "echo out; echo err >&2; exit 3"]
        out: list[str] = []
        err: list[str] = []
        result = sandbox.run(command, on_stdout=out.append, on_stderr=err.append)
        assert ("".join(out), "".join(err)) == ("out\n", "err\n")
        *pieces, last = sandbox.stream(command)
        assert isinstance(last, ResultEvent)
        assert _joined(pieces) == {"stdout": "out\n", "stderr": "err\n"}
        assert last.result.exit_code == result.exit_code == 3

    def test_a_reader_that_is_too_slow_costs_no_result(self, make: Make) -> None:
        """A slow reader loses pieces, which are counted, and holds up no box."""
        stream = make(max_output_bytes=1 << 24).stream_code(_FLOOD)
        first = next(stream)
        assert isinstance(first, OutputEvent)
        *pieces, last = [first, *stream]
        assert isinstance(last, ResultEvent)
        assert len(last.result.stdout) == _FLOOD_BYTES
        told = sum(len(p.text) + p.dropped_bytes for p in _outputs(pieces))
        assert told == _FLOOD_BYTES

    # -- faults

    def test_a_timeout_keeps_what_was_printed(self, make: Make) -> None:
        """A timeout keeps what was printed until then, also what was not flushed."""
        code = "print('A' * 10, end='')\nimport time\ntime.sleep(60)"
        result = make().run_code(code, timeout_s=2)
        assert result.fault_type == FaultType.TIMEOUT
        assert (result.exit_code, result.stdout) == (137, "A" * 10)

    def test_a_blocked_system_call_is_escape_blocked(self, make: Make) -> None:
        """The kernel ends a forbidden system call, and the fault says so."""
        code = "import ctypes\nctypes.CDLL(None).mount(b'n', b'/tmp', b'tmpfs', 0, 0)"
        result = make().run_code(code)
        assert (result.fault_type, result.exit_code) == (FaultType.ESCAPE_BLOCKED, 159)

    def test_a_missing_interpreter_is_exec_failed(self, make: Make) -> None:
        """A missing interpreter is `exec_failed`, with the program named."""
        result = make().run_code("1", language="node")
        assert result.fault is not None
        assert (result.fault.type, result.fault.reason) == ("exec_failed", "not_found")
        assert "'node'" in result.fault.message
        assert result.exit_code == 127

    def test_a_file_that_cannot_be_executed_is_told_apart(self, make: Make) -> None:
        """Not found, not executable and no interpreter are three reasons."""
        sandbox = make()
        sandbox.write_file("plain", "text")
        sandbox.write_file("script", "#!/no/such/interpreter\n")
        sandbox.run_code("chmod +x script", "sh")
        reasons = {
            name: fault.reason
            for name in ("absent", "plain", "script")
            if (fault := sandbox.run([f"/workspace/{name}"]).fault) is not None
        }
        assert reasons == {
            "absent": "not_found",
            "plain": "not_executable",
            "script": "interpreter",
        }

    def test_a_box_killed_from_outside_is_killed(self, make: Make) -> None:
        """A box that someone on the host killed is `killed`, for the operator."""
        sandbox = make()
        began = threading.Event()

        def kill_when_it_runs() -> None:
            began.wait()
            for pid in kern_processes(sandbox):
                os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill_when_it_runs)
        killer.start()
        code = "import time\nprint('on', flush=True)\ntime.sleep(60)"
        try:
            result = sandbox.run_code(code, on_stdout=lambda _: began.set())
        finally:
            began.set()
            killer.join()
        assert result.fault is not None
        assert (result.fault.type, result.fault.actor) == ("killed", "operator")

    def test_a_full_workspace_ends_what_adds_to_it(self, make: Make) -> None:
        """A full workspace ends calls that add to it; others may make room."""
        sandbox = make(workspace_max_bytes=8 << 20)
        code = (
            "with open('{}', 'wb') as f:\n  while True: f.write(bytes(1 << 20)); "
            "f.flush()"
        )
        for name in ("big", "more"):
            fault = sandbox.run_code(code.format(name)).fault_type
            assert fault == FaultType.WORKSPACE_FULL
        room = "import os\nfor name in ('big', 'more'): os.remove(name)\nprint('on')"
        assert sandbox.run_code(room).stdout == "on\n"
        assert sandbox.run_code("open('small', 'w').write('x')").success

    def test_a_crash_is_no_fault(self, make: Make) -> None:
        """A segmentation fault is the code's own, told by its signal."""
        result = make().run_code("import ctypes\nctypes.string_at(0)")
        assert (result.exit_code, result.signal) == (139, signal.SIGSEGV)
        assert result.fault is None

    # -- code that lies

    @pytest.mark.parametrize("code", [125, 126, 127, 137, 159])
    def test_an_exit_code_forges_no_fault(self, make: Make, code: int) -> None:
        """Whatever code exits with, it makes no fault."""
        sandbox = make()
        for source in (f"import os\nos._exit({code})", f"import sys\nsys.exit({code})"):
            result = sandbox.run_code(source)
            assert (result.exit_code, result.fault) == (code, None)

    @pytest.mark.parametrize("line", LIES.values(), ids=list(LIES))
    @pytest.mark.parametrize("code", [1, 125, 127])
    def test_what_the_code_prints_is_the_code_s(
        self, make: Make, line: str, code: int
    ) -> None:
        """No line that code prints passes for one of kern's, or makes a fault."""
        source = f"import os\nos.write(2, {line!r}.encode() + b'\\n')\nos._exit({code})"
        result = make().run_code(source)
        assert result.code_stderr == line + "\n"
        assert line not in "\n".join(result.runtime_notes)
        assert (result.exit_code, result.fault) == (code, None)


def _outputs(events: Sequence[CallEvent]) -> list[OutputEvent]:
    return [event for event in events if isinstance(event, OutputEvent)]


def _joined(events: Sequence[CallEvent]) -> dict[str, str]:
    joined = {"stdout": "", "stderr": ""}
    for event in _outputs(events):
        joined[event.stream] += event.text
    return joined


def _assert_whole(pieces: Sequence[CallEvent], last: CallEvent) -> None:
    assert isinstance(last, ResultEvent)
    assert {event.call_id for event in _outputs(pieces)} == {"mine"}
    assert not any(event.dropped_bytes for event in _outputs(pieces))
    assert _joined(pieces) == {"stdout": "aé🙂end", "stderr": "oh"}
    assert (last.result.stdout, last.result.code_stderr) == ("aé🙂end", "oh")
    assert last.result.call_id == "mine"
