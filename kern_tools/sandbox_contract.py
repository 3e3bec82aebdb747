"""What every sandbox holds, in every mode, as tests to inherit.

class TestMine(SandboxContract):
options = {"timeout_s": 20}
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest

from .faults import FaultType, SandboxClosed, WorkspaceError
from .result import ExecutionResult
from .sandbox import Sandbox

Make = Callable[..., Sandbox]

NAME = "the-call"
NAMED = f"open('/proc/self/comm', 'w').write({NAME!r})\n"
CLEAR_PARENT_DEATH = "import ctypes, os\nctypes.CDLL(None).prctl(1, 0)\n"
HIDERS = {
    "clears its parent-death signal": CLEAR_PARENT_DEATH,
    "starts a session": "import os\nif os.fork() == 0: os.setsid()\n",
    "forks away": "import os\nfor _ in range(3): os.fork()\n",
    "ignores every signal": "import signal\n"
    "for n in range(1, 32):\n"
    "    if n not in (9, 19): signal.signal(n, signal.SIG_IGN)\n",
}
LIES = {
    "kern's warning": "kern: warning: mine",
    "kern's note": "  kern: note: all is well",
    "a failed exec": "kern: cannot start 'node' in box: No such file or directory",
    "a failed start": "error: registry: manifest unknown",
    "an out of memory": "kern: the workload was killed by the OOM killer",
}


class Contract:
    """Refuses subclasses that change a clause."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        clauses = {
            name
            for base in cls.__mro__[1:]
            if base.__module__.startswith("kern_tools.")
            for name in vars(base)
            if name.startswith("test_")
        }
        if changed := sorted(clauses & vars(cls).keys()):
            raise TypeError(
                f"{cls.__name__} changes {', '.join(changed)} of a contract: make what "
                "is tested hold it, or do not inherit the contract"
            )


class SandboxContract(Contract):
    """The promises of `Sandbox`; a subclass sets `options` and changes no clause."""

    options: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture
    def make(self) -> Iterator[Make]:
        """Open sandboxes that are closed after the test."""
        with ExitStack() as opened:

            def make(**options: Any) -> Sandbox:
                chosen = {"timeout_s": 30, **self.options, **options}
                return opened.enter_context(Sandbox(**chosen))

            yield make

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
        """As in a notebook; a trailing semicolon keeps it in."""
        sandbox = make()
        (value,) = sandbox.run_code("x = 41\nx + 1").results
        assert value.text == "42"
        assert sandbox.run_code("x = 41\nx;").results == []

    def test_an_exception_is_a_result_with_its_source_lines(self, make: Make) -> None:
        """The traceback shows the code's frames alone, and is no fault."""
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
        """Numbers are exit codes; a message goes to stderr."""
        result = make().run_code(f"import sys\nsys.exit({argument})")
        assert (result.exit_code, result.code_stderr) == (code, said)
        assert result.fault is None

    def test_invalid_utf8_is_replaced_and_said(self, make: Make) -> None:
        """Bad bytes neither kill the call nor pass unnoticed."""
        code = "import sys\nsys.stdout.buffer.write(b'ok\\xff\\xfeend')\nNone"
        result = make().run_code(code)
        assert (result.stdout, result.lossy) == ("ok\ufffd\ufffdend", True)

    def test_output_over_the_cap_is_counted_and_dropped(self, make: Make) -> None:
        """The head is kept, cut between characters; the exit code is the code's."""
        result = make(max_output_bytes=1001).run_code("print('é' * 100_000, end='')")
        assert result.stdout == "é" * 500
        assert (result.stdout_bytes, result.truncated) == (200_000, True)
        assert result.exit_code == 0

    def test_callbacks_see_whole_characters_in_order(self, make: Make) -> None:
        """What a callback is given adds up to the stream."""
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
        """The call goes on; the trouble is told as a warning."""

        def broken(text: str) -> None:
            raise ValueError(text)

        with pytest.warns(RuntimeWarning, match="ValueError"):
            result = make().run_code("print(1)", on_stdout=broken)
        assert result.stdout == "1\n"

    def test_input_finds_an_empty_stdin(self, make: Make) -> None:
        """A question ends at once instead of at the deadline."""
        result = make().run_code("input('name? ')")
        assert "EOFError" in result.code_stderr
        assert result.fault is None

    # -- faults

    def test_a_timeout_keeps_what_was_printed(self, make: Make) -> None:
        """Also text that was never flushed."""
        code = "print('A' * 10, end='')\nimport time\ntime.sleep(60)"
        result = make().run_code(code, timeout_s=2)
        assert result.fault_type == FaultType.TIMEOUT
        assert (result.exit_code, result.stdout) == (137, "A" * 10)

    def test_a_blocked_system_call_is_escape_blocked(self, make: Make) -> None:
        """The kernel ends it, and kern's own bytes say so."""
        code = "import ctypes\nctypes.CDLL(None).mount(b'n', b'/tmp', b'tmpfs', 0, 0)"
        result = make().run_code(code)
        assert (result.fault_type, result.exit_code) == (FaultType.ESCAPE_BLOCKED, 159)

    def test_a_missing_interpreter_is_exec_failed(self, make: Make) -> None:
        """The message names the program and the image."""
        result = make().run_code("1", language="node")
        assert result.fault is not None
        assert (result.fault.type, result.fault.reason) == ("exec_failed", "not_found")
        assert "'node'" in result.fault.message
        assert result.exit_code == 127

    def test_a_file_that_cannot_be_executed_is_told_apart(self, make: Make) -> None:
        """Not found, not executable and a missing interpreter are three reasons."""
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
        """Someone on the host ended it; the operator is the one to act."""
        sandbox = make()
        began = threading.Event()

        def kill_when_it_runs() -> None:
            began.wait()
            for pid in kern_processes(sandbox):
                os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill_when_it_runs)
        killer.start()
        code = "import time\nprint('on', flush=True)\ntime.sleep(60)"
        result = sandbox.run_code(code, on_stdout=lambda _: began.set())
        killer.join()
        assert result.fault is not None
        assert (result.fault.type, result.fault.actor) == ("killed", "operator")

    def test_a_full_workspace_ends_the_call_and_bars_the_next(self, make: Make) -> None:
        """The limit is watched while code runs, and looked at before it does."""
        sandbox = make(workspace_max_bytes=8 << 20)
        code = (
            "with open('big', 'wb') as f:\n  while True: f.write(bytes(1 << 20)); "
            "f.flush()"
        )
        assert sandbox.run_code(code).fault_type == FaultType.WORKSPACE_FULL
        barred = sandbox.run_code("print(1)")
        assert (barred.fault_type, barred.stdout) == (FaultType.WORKSPACE_FULL, "")

    def test_a_crash_is_no_fault(self, make: Make) -> None:
        """A segmentation fault is the code's own, told by its signal."""
        result = make().run_code("import ctypes\nctypes.string_at(0)")
        assert (result.exit_code, result.signal) == (139, signal.SIGSEGV)
        assert result.fault is None

    # -- code that lies

    @pytest.mark.parametrize("code", [125, 126, 127, 137, 159])
    def test_an_exit_code_forges_no_fault(self, make: Make, code: int) -> None:
        """Whatever the code exits with, nobody but it ended the run."""
        sandbox = make()
        for source in (f"import os\nos._exit({code})", f"import sys\nsys.exit({code})"):
            result = sandbox.run_code(source)
            assert (result.exit_code, result.fault) == (code, None)

    @pytest.mark.parametrize("line", LIES.values(), ids=list(LIES))
    @pytest.mark.parametrize("code", [1, 125, 127])
    def test_what_the_code_prints_is_the_code_s(
        self, make: Make, line: str, code: int
    ) -> None:
        """No line moves from `code_stderr` to `runtime_notes`, or makes a fault."""
        source = f"import os\nos.write(2, {line!r}.encode() + b'\\n')\nos._exit({code})"
        result = make().run_code(source)
        assert result.code_stderr == line + "\n"
        assert line not in "\n".join(result.runtime_notes)
        assert (result.exit_code, result.fault) == (code, None)

    @pytest.mark.parametrize("hider", HIDERS.values(), ids=list(HIDERS))
    def test_no_trick_outlives_the_deadline(self, make: Make, hider: str) -> None:
        """The verdict is `timeout`; what a box may keep ends with the sandbox."""
        sandbox = make()
        root = str(sandbox.workspace.root)
        result = sandbox.run_code(hider + "while True: pass", timeout_s=2)
        assert result.fault_type == FaultType.TIMEOUT
        assert sandbox.run_code("print(1)").stdout == "1\n"
        if sandbox.config.mode == "fresh":
            assert len(box_processes(sandbox)) <= sandbox.config.prewarm
        sandbox.close()
        assert processes_with(root) == []

    # -- ending calls

    @pytest.mark.parametrize("hider", HIDERS.values(), ids=list(HIDERS))
    async def test_a_cancelled_call_is_gone_before_its_caller_hears(
        self, make: Make, hider: str
    ) -> None:
        """Nothing the code would have done afterwards can happen."""
        sandbox = make()
        began = asyncio.Event()
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(
            sandbox.arun_code(
                hider
                + "print('on', flush=True)\nwhile True: open('mark', 'a').write('x')",
                on_stdout=lambda _: loop.call_soon_threadsafe(began.set),
            )
        )
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert named_processes() == []
        assert (await sandbox.arun_code("print(7)")).stdout == "7\n"

    async def test_a_call_cancelled_before_it_begins_never_runs(
        self, make: Make
    ) -> None:
        """A queued call only leaves the queue."""
        sandbox = make()
        task = asyncio.create_task(sandbox.arun_code("open('late', 'w')"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sandbox.list_files() == []

    async def test_a_cancelled_call_leaves_its_siblings_alone(self, make: Make) -> None:
        """Only the box of the cancelled call is killed."""
        sandbox = make()
        wait = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
        tasks = [
            asyncio.create_task(sandbox.arun_code(f"{wait}print({n})"))
            for n in range(3)
        ]
        await asyncio.sleep(0)
        tasks[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
        sandbox.write_file("go", "")
        assert (await tasks[0]).stdout == "0\n"
        assert (await tasks[2]).stdout == "2\n"

    def test_closing_from_another_thread_ends_the_calls(self, make: Make) -> None:
        """The caller is told; box and workspace are gone when `close` returns."""
        sandbox = make()
        began = threading.Event()
        root = sandbox.workspace.root
        code = CLEAR_PARENT_DEATH + "print('on', flush=True)\nwhile True: pass"
        with ThreadPoolExecutor(1) as pool:
            call = pool.submit(sandbox.run_code, code, on_stdout=lambda _: began.set())
            began.wait()
            sandbox.close()
            with pytest.raises(SandboxClosed):
                call.result()
        assert not root.exists()
        assert processes_with(str(root)) == []

    def test_a_closed_sandbox_says_so(self, make: Make) -> None:
        """Use after close is the caller's mistake, told by its code."""
        sandbox = make()
        sandbox.close()
        sandbox.close()
        with pytest.raises(SandboxClosed):
            sandbox.run_code("1")

    # -- side by side

    def test_parallel_calls_do_not_mix(self, make: Make) -> None:
        """Every call gets its own output, and all of it."""
        sandbox = make()
        code = "for i in range(200): print('{0}', i)\n'{0}'"

        def run(n: int) -> ExecutionResult:
            return sandbox.run_code(code.format(f"call-{n}"))

        with ThreadPoolExecutor(8) as pool:
            for n, result in enumerate(pool.map(run, range(16))):
                assert set(result.stdout.split()[::2]) == {f"call-{n}"}
                assert result.results[0].text == f"'call-{n}'"

    def test_loops_and_threads_come_and_go(self, make: Make) -> None:
        """A sandbox outlives the thread and the event loop that used it first."""
        sandbox = make()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(sandbox.run_code, "print(1)").result().stdout == "1\n"
        for n in (2, 3):
            result = asyncio.run(sandbox.arun_code(f"print({n})"))
            assert result.stdout == f"{n}\n"
        assert sandbox.run_code("print(4)").stdout == "4\n"

    # -- the place the code runs in

    def test_files_stay_and_are_reported(self, make: Make) -> None:
        """What a call changed is listed with it; the next call finds it."""
        sandbox = make()
        sandbox.write_file("a.txt", "1")
        changed = sandbox.run_code("open('a.txt', 'w').write('22')\nopen('b', 'w');")
        assert [(f.path, f.change) for f in changed.files] == [
            ("a.txt", "modified"),
            ("b", "created"),
        ]
        assert sandbox.run_code("print(open('a.txt').read())").stdout == "22\n"
        with pytest.raises(WorkspaceError) as refused:
            sandbox.read_file("../outside")
        assert refused.value.code == "outside"

    def test_a_cell_sees_what_a_script_would(self, make: Make) -> None:
        """`__main__`, the folder first on the path, `exit`, and a working fork."""
        code = (
            "import sys, multiprocessing, mine\n"
            "def square(n): return n * n\n"
            "print(__name__, sys.path[0], sys.argv, mine.x)\n"
            "with multiprocessing.Pool(2) as pool: print(pool.map(square, [2, 3]))\n"
            "exit(4)"
        )
        sandbox = make()
        sandbox.write_file("mine.py", "x = 5")
        result = sandbox.run_code(code)
        assert result.stdout == "__main__ /workspace [''] 5\n[4, 9]\n"
        assert result.exit_code == 4

    def test_modules_in_the_workspace_do_not_reach_our_driver(self, make: Make) -> None:
        """A file named like one of Python's own breaks the code's import alone."""
        sandbox = make()
        for name in ("traceback", "linecache", "json", "io", "site", "posix"):
            sandbox.write_file(f"{name}.py", "raise SystemExit(99)")
        result = sandbox.run_code("print('on')\n1/0")
        assert (result.stdout, result.exit_code) == ("on\n", 1)
        assert "ZeroDivisionError" in result.code_stderr

    @pytest.mark.parametrize("language", ["bash", "sh"])
    def test_a_shell_runs_as_itself(self, make: Make, language: str) -> None:
        """Its streams and its exit code are its own; a long script fits."""
        sandbox = make()
        result = sandbox.run_code("echo out; echo err >&2; exit 3", language)
        assert (result.stdout, result.code_stderr) == ("out\n", "err\n")
        assert (result.exit_code, result.fault) == (3, None)
        long = "echo " + "x" * 300_000 + " | wc -c"
        assert sandbox.run_code(long, language).stdout == "300001\n"

    def test_the_network_is_off(self, make: Make) -> None:
        """Only the box's own loopback is there."""
        code = "import socket\nprint([name for _, name in socket.if_nameindex()])"
        assert make().run_code(code).stdout == "['lo']\n"


def processes_with(word: str) -> list[int]:
    """Give the pids whose command line holds `word`."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if word.encode() in line:
                found.append(int(entry.name))
    return found


def kern_processes(sandbox: Sandbox) -> list[int]:
    """Give the pids of the kern processes that hold the sandbox's boxes."""
    return processes_with(f"src={sandbox.workspace.root}")


def box_processes(sandbox: Sandbox) -> list[int]:
    """Give the pids of everything that runs in the sandbox's boxes."""
    root = sandbox.workspace.root.stat()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            seen = (entry / "root" / "workspace").stat()
        except OSError:
            continue
        if (seen.st_dev, seen.st_ino) == (root.st_dev, root.st_ino):
            found.append(int(entry.name))
    return found


def named_processes() -> list[int]:
    """Give the pids of the processes that a call named, its children included."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*/comm"):
        try:
            ended = (entry.parent / "stat").read_text().rpartition(")")[2][1] in "ZX"
            if entry.read_text() == f"{NAME}\n" and not ended:
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found
