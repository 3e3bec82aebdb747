"""Sandboxes and pools that nobody closed, and nobody can close any more."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kern_tools import Sandbox, SandboxPool
from kern_tools.engine import engine
from kern_tools.events import CallEvent, ResultEvent
from kern_tools.sandbox_contract import box_processes
from kern_tools.streaming import CallStream

from .depth import depth
from .hosts import ended, wait_until

MODES = ["fresh", "resident", "kernel"]
each_mode = pytest.mark.parametrize("mode", MODES)


@contextmanager
def unclosed(what: str = "unclosed sandbox", count: int = 1) -> Generator[None]:
    """Have the block lose something, and be told so as files and sockets tell it."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [each.category for each in warned] == [ResourceWarning] * count
    assert all(what in str(each.message) for each in warned)


def used(**options: Any) -> tuple[Sandbox, Path, list[int]]:
    """Open a sandbox and use it; give its workspace and what runs in its boxes."""
    sandbox = Sandbox(timeout_s=60, **options).open()
    assert sandbox.run_code("print(1)").stdout == "1\n"
    if sandbox.config.mode == "fresh":
        sandbox.wait_ready()
    boxes = box_processes(sandbox)
    assert boxes
    return sandbox, sandbox.workspace.root, boxes


def wait_until_gone(*paths: Path, boxes: Iterable[int] = ()) -> None:
    """Go on once neither workspaces nor boxes are there."""
    places = [*paths, *(Path(f"/proc/{pid}") for pid in boxes)]
    wait_until(lambda: not any(place.exists() for place in places))


@each_mode
def test_a_lost_sandbox_is_closed_once_it_is_collected(mode: str) -> None:
    """Its boxes end and its workspace goes, long before the process ends."""
    with unclosed():
        sandbox, root, boxes = used(mode=mode)
        del sandbox
    wait_until_gone(root, boxes=boxes)


@each_mode
def test_callbacks_that_know_the_sandbox_do_not_keep_it(mode: str) -> None:
    """A cycle through the options is collected like any other."""

    class Agent:
        def __init__(self) -> None:
            self.heard: list[str] = []
            self.sandbox, self.root, self.boxes = used(mode=mode, on_stdout=self.hear)

        def hear(self, text: str) -> None:
            self.heard.append(text)

    with unclosed():
        agent = Agent()
        assert "".join(agent.heard) == "1\n"
        root, boxes = agent.root, agent.boxes
        del agent
    wait_until_gone(root, boxes=boxes)


@each_mode
def test_the_thread_that_ends_boxes_may_be_the_one_that_collects(mode: str) -> None:
    """It cannot wait for itself; so nothing waits there."""
    collected = threading.Event()

    def collect() -> None:
        gc.collect()
        collected.set()

    with unclosed():
        gc.disable()
        try:
            sandbox, root, boxes = used(mode=mode)
            cycle: list[object] = [sandbox]
            cycle.append(cycle)
            del sandbox, cycle
            engine().post(collect)
            assert collected.wait(60)
        finally:
            gc.enable()
    wait_until_gone(root, boxes=boxes)
    with Sandbox(prewarm=0) as sandbox:
        assert sandbox.run_code("print(1)").stdout == "1\n"


def test_a_closed_sandbox_is_not_lost() -> None:
    """Closing is what was asked for; nothing is warned of, which would be an error."""
    with Sandbox(prewarm=0):
        pass
    sandbox = Sandbox(prewarm=0).open()
    sandbox.close()
    del sandbox
    Sandbox()
    gc.collect()


@pytest.mark.parametrize("is_async", [False, True], ids=["for", "async for"])
def test_a_call_that_is_read_keeps_its_sandbox(is_async: bool) -> None:
    """A stream alone refers to what it runs in, until it has ended."""

    async def read(stream: CallStream) -> list[CallEvent]:
        return [event async for event in stream]

    with unclosed():
        stream = Sandbox(prewarm=0).open().stream_code("print(1)\nprint(2)")
        gc.collect()
        *_, last = asyncio.run(read(stream)) if is_async else list(stream)
        assert isinstance(last, ResultEvent)
        assert last.result.stdout == "1\n2\n"
        del stream


def test_a_call_that_runs_keeps_its_sandbox() -> None:
    """Neither thread nor coroutine needs another name for it."""
    with unclosed():
        assert Sandbox(prewarm=0).open().run_code("print(1)").stdout == "1\n"
    with unclosed():
        code = "import time\ntime.sleep(0.1)\nprint(1)"
        result = asyncio.run(Sandbox(prewarm=0).open().arun_code(code))
        assert result.stdout == "1\n"


def test_a_workspace_of_yours_stays(tmp_path: Path) -> None:
    """Only what was made for the sandbox goes with it."""
    with unclosed():
        sandbox, _, boxes = used(workspace=tmp_path)
        sandbox.write_file("a.txt", "kept")
        del sandbox
    wait_until_gone(boxes=boxes)
    assert (tmp_path / "a.txt").read_text() == "kept"


def test_a_lost_pool_keeps_what_it_would_keep(tmp_path: Path) -> None:
    """It is closed as a whole, after a snapshot where those are kept."""

    def lose(pool: SandboxPool) -> list[Path]:
        for key in ("t1", "t2"):
            pool.get(key).write_file("a.txt", key)
        return [pool.get(key).workspace.root for key in ("t1", "t2")]

    with unclosed("unclosed pool of 2"):
        roots = lose(SandboxPool(prewarm=0, snapshots=tmp_path, idle_timeout_s=600))
    wait_until_gone(*roots)
    with SandboxPool(prewarm=0, snapshots=tmp_path) as pool:
        assert pool.get("t2").read_file("a.txt") == b"t2"


def test_a_lost_pool_without_sandboxes_is_no_loss() -> None:
    """Nothing is warned of, and its threads end."""
    SandboxPool(idle_timeout_s=600)
    pool = SandboxPool(prewarm=0, idle_timeout_s=600)
    with pool.lease("t1") as sandbox:
        sandbox.close()
    pool.drop("t1")
    del pool, sandbox
    gc.collect()
    idle = "kern-tools-pool-idle"
    wait_until(lambda: all(t.name != idle for t in threading.enumerate()))


def lines_of(script: str) -> list[str]:
    """Run a script in which every warning of ours is shown as a line."""
    shown = (
        "import gc, warnings\n"
        "warnings.simplefilter('always')\n"
        "warnings.showwarning = lambda m, c, *_: say(c.__name__)\n"
    )
    return ended(shown + script)


def test_a_forked_child_loses_nothing_of_its_parents() -> None:
    """There the sandbox is the parent's to close, and to be warned of."""
    lines = lines_of(
        "sandbox = Sandbox(prewarm=0).open()\n"
        "root = sandbox.workspace.root\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    del sandbox\n"
        "    gc.collect()\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "say(root.exists(), sandbox.run_code('print(1)').stdout.strip())\n"
        "del sandbox\n"
        "while root.exists(): time.sleep(0.001)\n"
        "say('gone')\n"
    )
    assert lines == ["True 1", "ResourceWarning", "gone"]


def test_what_is_open_at_the_end_of_a_process_is_closed_without_a_word() -> None:
    """A script may keep its sandbox in a name of its module."""
    *said, root = lines_of(
        "sandbox = Sandbox(mode='kernel').open()\n"
        "sandbox.run_code('1')\n"
        "say(sandbox.workspace.root)\n"
    )
    assert said == []
    assert not Path(root).exists()


def test_a_warning_that_is_an_error_costs_nothing() -> None:
    """With `-W error` it is raised where nobody can catch it; all is closed as well."""
    lines = ended(
        "import gc, warnings\n"
        "warnings.simplefilter('error')\n"
        "sys.unraisablehook = lambda told: say(told.exc_type.__name__)\n"
        "sandbox = Sandbox(prewarm=0).open()\n"
        "root = sandbox.workspace.root\n"
        "del sandbox\n"
        "while root.exists(): time.sleep(0.001)\n"
        "say('gone')\n"
    )
    assert lines == ["ResourceWarning", "gone"]


def test_sandboxes_lost_on_many_threads_are_all_closed() -> None:
    """Collectors, closers and openers of all threads get on with each other."""
    roots: list[Path] = []
    lost: list[object] = []

    def lose(number: int) -> None:
        sandbox = Sandbox(prewarm=0).open()
        roots.append(sandbox.workspace.root)
        if number % 2:
            sandbox.close()
        lost.append([sandbox, lost])
        del sandbox
        gc.collect()

    half = depth(6, 20)
    with unclosed(count=half):
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lose, range(2 * half)))
        lost.clear()
    wait_until_gone(*roots)
