"""How calls of a sandbox end, and how they go on beside each other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from .contract import Make, SandboxClauses
from .contract_view import (
    CLEAR_PARENT_DEATH,
    HIDERS,
    NAMED,
    box_processes,
    named_processes,
    processes_with,
)
from .faults import FaultType, SandboxClosed
from .result import ExecutionResult
from .sandbox import Sandbox


class EndingContract(SandboxClauses):
    """Nothing outlives what it was begun for, and nothing disturbs its neighbour."""

    # -- ending calls

    @pytest.mark.parametrize("hider", HIDERS.values(), ids=list(HIDERS))
    async def test_a_cancelled_call_is_gone_before_its_caller_hears(
        self, make: Make, hider: str
    ) -> None:
        """A cancelled call is gone before its caller hears, and does nothing more."""
        sandbox = make()
        began = asyncio.Event()
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(
            sandbox.arun_code(
                NAMED
                + hider
                + "print('on', flush=True)\nwhile True: open('mark', 'a').write('x')",
                on_stdout=lambda _: loop.call_soon_threadsafe(began.set),
            )
        )
        task.add_done_callback(lambda _: began.set())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert named_processes() == []
        assert (await sandbox.arun_code("print(7)")).stdout == "7\n"

    async def test_a_call_cancelled_before_it_begins_never_runs(
        self, make: Make
    ) -> None:
        """A call that is cancelled before it begins never runs."""
        sandbox = make()
        task = asyncio.create_task(sandbox.arun_code("open('late', 'w')"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sandbox.list_files() == []

    async def test_a_cancelled_call_leaves_its_siblings_alone(self, make: Make) -> None:
        """Cancelling a call leaves those beside it alone."""
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
        """`close` from any thread ends the calls; box and files are then gone."""
        sandbox = make()
        began = threading.Event()
        root = sandbox.workspace.root
        code = CLEAR_PARENT_DEATH + "print('on', flush=True)\nwhile True: pass"
        with ThreadPoolExecutor(1) as pool:
            call = pool.submit(sandbox.run_code, code, on_stdout=lambda _: began.set())
            call.add_done_callback(lambda _: began.set())
            began.wait()
            sandbox.close()
            with pytest.raises(SandboxClosed):
                call.result()
        assert not root.exists()
        assert processes_with(str(root)) == []

    def test_a_closed_sandbox_says_so(self, make: Make) -> None:
        """A closed sandbox refuses calls, with a code of its own."""
        sandbox = make()
        sandbox.close()
        sandbox.close()
        with pytest.raises(SandboxClosed):
            sandbox.run_code("1")

    @pytest.mark.parametrize("hider", HIDERS.values(), ids=list(HIDERS))
    def test_no_trick_outlives_the_deadline(self, make: Make, hider: str) -> None:
        """No trick outlives the deadline, or the sandbox what a box may keep."""
        sandbox = make()
        root = str(sandbox.workspace.root)
        code = hider + "import time\nwhile True: time.sleep(9)"
        result = sandbox.run_code(code, timeout_s=2)
        assert result.fault_type == FaultType.TIMEOUT
        assert sandbox.run_code("print(1)").stdout == "1\n"
        if sandbox.config.mode == "fresh":
            assert len(box_processes(sandbox)) <= sandbox.config.prewarm
        sandbox.close()
        assert processes_with(root) == []

    # -- on request

    def test_leaving_a_stream_ends_its_call(self, make: Make) -> None:
        """Leaving a stream ends its call, and the next one is as any other."""
        sandbox = make()
        code = f"{NAMED}print('on', flush=True)\nwhile True: pass"
        with sandbox.stream_code(code) as stream:
            next(stream)
        assert named_processes() == []
        assert sandbox.run_code("print(7)").stdout == "7\n"

    async def test_leaving_an_async_stream_ends_its_call(self, make: Make) -> None:
        """Leaving an async stream ends its call as well."""
        sandbox = make()
        code = f"{NAMED}print('on', flush=True)\nwhile True: pass"
        async with sandbox.stream_code(code) as stream:
            await anext(stream)
        assert named_processes() == []
        assert (await sandbox.arun_code("print(7)")).stdout == "7\n"

    def test_an_interrupt_is_seen_by_the_code(self, make: Make) -> None:
        """An interrupt reaches the code as Ctrl-C would, and is no fault."""
        sandbox = make()
        code = (
            "try:\n    print('on', flush=True)\n    while True: pass\n"
            "finally:\n    print('cleaned')"
        )
        stopped = _during(sandbox, code, sandbox.interrupt)
        assert (stopped.exit_code, stopped.fault) == (130, None)
        assert stopped.stdout == "on\ncleaned\n"
        assert "KeyboardInterrupt" in stopped.code_stderr
        assert (stopped.state_lost, stopped.state_new) == (False, False)
        after = sandbox.run_code("print(7)")
        assert (after.stdout, after.state_new) == ("7\n", False)

    def test_an_interrupt_finds_nobody_between_calls(self, make: Make) -> None:
        """An interrupt between calls is not kept for the next one."""
        sandbox = make()
        sandbox.interrupt()
        sandbox.run_code("1")
        sandbox.interrupt()
        assert sandbox.run_code("print(7)").stdout == "7\n"

    def test_a_reset_keeps_files_and_nothing_else(self, make: Make) -> None:
        """A reset keeps files and nothing else, and the next call says so."""
        sandbox = make()
        keeps = sandbox.config.mode != "fresh"
        sandbox.run_code("open('kept', 'w').close()\nopen('/tmp/gone', 'w').close()")
        sandbox.reset()
        after = sandbox.run_code("import os\nprint(os.listdir(), os.listdir('/tmp'))")
        assert (after.stdout, after.state_new) == ("['kept'] []\n", keeps)
        assert not sandbox.run_code("1").state_new

    def test_a_reset_lets_a_running_call_end(self, make: Make) -> None:
        """A reset lets a running call end as it would."""
        sandbox = make()
        code = (
            "import os\nprint('on', flush=True)\n"
            "while not os.path.exists('go'): pass\nprint('end')"
        )

        def reset() -> None:
            sandbox.reset()
            sandbox.write_file("go", "")

        result = _during(sandbox, code, reset)
        assert (result.stdout, result.fault) == ("on\nend\n", None)
        assert not result.state_lost
        assert sandbox.run_code("1").state_new == (sandbox.config.mode != "fresh")

    # -- side by side

    def test_parallel_calls_do_not_mix(self, make: Make) -> None:
        """Calls side by side get their own output, and all of it."""
        sandbox = make()
        code = "for i in range(200): print('{0}', i)\n'{0}'"

        def run(n: int) -> ExecutionResult:
            return sandbox.run_code(code.format(f"call-{n}"))

        with ThreadPoolExecutor(8) as pool:
            for n, result in enumerate(pool.map(run, range(16))):
                assert set(result.stdout.split()[::2]) == {f"call-{n}"}
                assert result.results[0].text == f"'call-{n}'"

    def test_loops_and_threads_come_and_go(self, make: Make) -> None:
        """A sandbox serves any thread and event loop, whichever came first."""
        sandbox = make()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(sandbox.run_code, "print(1)").result().stdout == "1\n"
        for n in (2, 3):
            result = asyncio.run(sandbox.arun_code(f"print({n})"))
            assert result.stdout == f"{n}\n"
        assert sandbox.run_code("print(4)").stdout == "4\n"


def _during(sandbox: Sandbox, code: str, act: Callable[[], object]) -> ExecutionResult:
    """Do something once the code has printed, and give the result of its call."""
    began = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(sandbox.run_code, code, on_stdout=lambda _: began.set())
        call.add_done_callback(lambda _: began.set())
        began.wait()
        act()
        return call.result()
