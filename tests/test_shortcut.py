"""A call that its caller's own thread serves for its first moments, and what then."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import fcntl
import gc
import select
import signal
import termios
import threading
import time
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from kern_tools import ExecutionResult, Sandbox, SandboxClosed, shortcut
from kern_tools.box import Box
from kern_tools.call import Call
from kern_tools.engine import engine
from kern_tools.lending import Lender
from kern_tools.processes import wait_gone
from kern_tools.service import Service
from kern_tools.shortcut import HERE_S, serve_here

from .hosts import wait_until

NET_S = 60  # what hangs ends the test; nothing is measured
SLOW = f"import time\nprint('begun', flush=True)\ntime.sleep({50 * HERE_S})\n'slept'"
ENDLESS = "import time\ntry:\n    time.sleep(3600)\nfinally:\n    seen = True"


@pytest.fixture(scope="module")
def kernel() -> Generator[Sandbox]:
    """Open a kernel for all tests here."""
    with Sandbox(mode="kernel") as sandbox:
        yield sandbox


@contextmanager
def engine_held_up() -> Generator[None]:
    """Have the engine do nothing: a caller that is lent a box keeps it."""
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        go_on.wait(NET_S)

    engine().post(hold)
    held.wait(NET_S)
    try:
        yield
    finally:
        go_on.set()


def shown(result: ExecutionResult) -> list[str | None]:
    """Give the values of a call that went well."""
    assert result.success, result
    return [value.text for value in result.results]


@pytest.fixture
def own_kernel() -> Generator[Sandbox]:
    """Open a kernel for one test, with its box."""
    with Sandbox(mode="kernel") as sandbox:
        sandbox.run_code("1")
        yield sandbox


@pytest.fixture
def fresh() -> Generator[Sandbox]:
    """Open a sandbox that has a box ready."""
    with Sandbox(prewarm=1) as sandbox:
        assert sandbox.wait_ready(NET_S)
        yield sandbox


@pytest.fixture(params=["fresh", "own_kernel"])
def lending(request: pytest.FixtureRequest) -> Sandbox:
    """Give a sandbox that could lend a box at once."""
    sandbox: Sandbox = request.getfixturevalue(request.param)
    return sandbox


def carrier_of(sandbox: Sandbox) -> Lender:
    """Give what holds the boxes."""
    opened = sandbox._opened
    assert opened is not None
    carrier = opened.dispatch._carrier
    assert isinstance(carrier, Lender)
    return carrier


def descriptors() -> int:
    """Count those that this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def unread(box: Box) -> bool:
    """Whether a box has yet to read what it was sent."""
    assert box.control is not None
    return fcntl.ioctl(box.control, termios.TIOCOUTQ, bytes(4)) != bytes(4)


def is_lent(sandbox: Sandbox) -> bool:
    """Whether a caller has the box at this moment."""
    return bool(carrier_of(sandbox).guests)


def test_a_short_call_is_over_while_the_engine_stands_still(
    kernel: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it needs another thread."""
    monkeypatch.setattr(shortcut, "HERE_S", NET_S)  # also on a busy machine
    kernel.run_code("1")
    with engine_held_up():
        results = [kernel.run_code(f"{n} + 1") for n in range(3)]
    assert [shown(result) for result in results] == [["1"], ["2"], ["3"]]


def test_a_call_that_takes_longer_is_taken_back_whole(kernel: Sandbox) -> None:
    """What it printed, its value and the names around it are there."""
    kernel.run_code("kept = 1")
    result = kernel.run_code(SLOW)
    assert (result.stdout, shown(result)) == ("begun\n", ["'slept'"])
    assert shown(kernel.run_code("kept")) == ["1"]


def test_a_caller_sleeps_while_a_cell_takes_long(kernel: Sandbox) -> None:
    """It is awake for the first moment alone, and only where it is the only one."""
    kernel.run_code("import time")
    before_s = time.thread_time()
    assert kernel.run_code("time.sleep(1)").success
    assert time.thread_time() - before_s < 0.5
    assert not shortcut._listening


def test_callers_that_listen_at_once_hear_their_own(kernel: Sandbox) -> None:
    """Then they sleep, which changes nothing in what they hear."""
    with Sandbox(mode="kernel") as other, ThreadPoolExecutor(2) as threads:
        for _ in range(20):
            ours = threads.submit(kernel.run_code, "'ours'")
            theirs = threads.submit(other.run_code, "'theirs'")
            assert shown(ours.result(NET_S)) == ["'ours'"]
            assert shown(theirs.result(NET_S)) == ["'theirs'"]


def test_what_answers_the_next_call_is_left_to_it(
    own_kernel: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine, which takes a call back that is over, reads no further than that."""
    (box,) = carrier_of(own_kernel)._boxes
    seconds: list[Future[ExecutionResult]] = []
    end_service = Box.end_service

    def wait_for_answer() -> None:
        assert box.control is not None
        assert select.select([box.control], [], [], NET_S)[0]

    def end_slowly(ended: Box) -> None:
        end_service(ended)
        if not seconds:
            seconds.append(threads.submit(own_kernel.run_code, "'second'"))
            wait_for_answer()

    monkeypatch.setattr(Box, "end_service", end_slowly)
    monkeypatch.setattr(shortcut, "HERE_S", 0)  # no caller listens at all
    with ThreadPoolExecutor(2) as threads:
        with engine_held_up():
            first = threads.submit(own_kernel.run_code, "'first'")
            wait_for_answer()
        assert shown(first.result(NET_S)) == ["'first'"]
        wait_until(lambda: bool(seconds))
        assert shown(seconds[0].result(NET_S)) == ["'second'"]


def test_an_interrupt_reaches_a_call_whose_caller_has_the_box(kernel: Sandbox) -> None:
    """However early it comes; the kernel keeps its names."""
    kernel.run_code("kept = 1")
    interrupt_at_once(kernel)
    assert shown(kernel.run_code("kept, seen")) == ["(1, True)"]


def test_an_interrupt_reaches_a_call_that_has_a_box_of_its_own(fresh: Sandbox) -> None:
    """Likewise."""
    interrupt_at_once(fresh)


def interrupt_at_once(sandbox: Sandbox) -> None:
    """Interrupt a cell while its caller has the box."""
    with ThreadPoolExecutor(1) as threads, engine_held_up():
        call = threads.submit(sandbox.run_code, ENDLESS)
        wait_until(lambda: is_lent(sandbox))
        sandbox.interrupt()
    assert call.result(NET_S).exit_code == 130


def test_a_short_call_of_a_warm_box_needs_no_other_thread(
    fresh: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its box is gone by then, and the next call has another."""
    monkeypatch.setattr(shortcut, "HERE_S", NET_S)  # also on a busy machine
    with engine_held_up():
        result = fresh.run_code("import os\nos.environ['LEFT'] = '1'\nprint('here')")
    assert (result.stdout, result.warm, result.exit_code) == ("here\n", True, 0)
    assert shown(fresh.run_code("import os\nos.environ.get('LEFT', '')")) == ["''"]


def test_a_call_of_a_warm_box_that_takes_longer_is_whole(fresh: Sandbox) -> None:
    """The engine goes on where its caller left."""
    result = fresh.run_code(SLOW)
    assert (result.stdout, shown(result)) == ("begun\n", ["'slept'"])


def test_what_claims_to_be_over_is_over(fresh: Sandbox) -> None:
    """A cell that sends the driver's last word lives no longer than its call."""
    result = fresh.run_code(
        "import os, socket, subprocess\n"
        "open('mine', 'w').close()\n"
        "subprocess.Popen(['sh', '-c', 'while :; do echo on >>its; done'])\n"
        "while not os.path.exists('its'): pass\n"
        "for number in range(3, 64):\n"
        "    try:\n"
        "        control = socket.socket(fileno=number)\n"
        "        control.send(b'x\\x01\\0\\0\\x007')\n"
        "    except OSError: pass\n"
        "while True: open('mine', 'a').write('.')"
    )
    assert result.exit_code == 7

    def sizes() -> list[int]:
        return [(fresh.workspace.root / n).stat().st_size for n in ("mine", "its")]

    left = sizes()
    assert fresh.run_code("import time").files == []
    assert sizes() == left


def test_no_more_calls_run_than_may_while_their_callers_have_the_boxes() -> None:
    """Those that came too many run afterwards."""
    cell = (
        "import os\n"
        "os.mkdir('here')\n"
        "for _ in range(2_000): os.listdir('.')\n"
        "os.rmdir('here')"
    )
    with (
        Sandbox(prewarm=4, max_running=1) as sandbox,
        ThreadPoolExecutor(8) as threads,
    ):
        assert sandbox.wait_ready(NET_S)
        calls = [threads.submit(sandbox.run_code, cell) for _ in range(16)]
        results = [call.result(NET_S) for call in calls]
    assert [result.code_stderr for result in results] == [""] * 16


def test_each_of_several_callers_has_a_box_of_its_own() -> None:
    """However they come together."""
    with Sandbox(prewarm=4) as sandbox, ThreadPoolExecutor(8) as threads:
        for _ in range(3):
            assert sandbox.wait_ready(NET_S)
            calls = [
                threads.submit(sandbox.run_code, f"import os\n{n}, os.getpid()")
                for n in range(8)
            ]
            said = [shown(call.result(NET_S)) for call in calls]
            assert said == [[f"({n}, 1)"] for n in range(8)]


def test_closing_ends_a_call_whose_caller_has_the_box(lending: Sandbox) -> None:
    """Its caller is told, and nothing is left."""
    sandbox = lending
    with ThreadPoolExecutor(2) as threads:
        with engine_held_up():
            call = threads.submit(sandbox.run_code, ENDLESS)
            wait_until(lambda: is_lent(sandbox))
            closing = threads.submit(sandbox.close)
        closing.result(NET_S)
        assert isinstance(call.exception(NET_S), SandboxClosed)


def test_closing_is_told_where_the_box_is_gone_before_its_caller_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is no fault of the call's, however slow its caller's thread is."""
    go_on = threading.Event()

    def serve_slowly(box: Box, call: Call) -> None:
        serve_here(box, call)
        go_on.wait(NET_S)

    with Sandbox(mode="kernel") as sandbox, ThreadPoolExecutor(2) as threads:
        sandbox.run_code("1")
        monkeypatch.setattr(shortcut, "serve_here", serve_slowly)
        call = threads.submit(sandbox.run_code, ENDLESS)
        wait_until(lambda: is_lent(sandbox))
        (box,) = carrier_of(sandbox)._boxes
        closing = threads.submit(sandbox.close)
        wait_until(lambda: box.evidence.reaped)
        go_on.set()
        closing.result(NET_S)
        assert isinstance(call.exception(NET_S), SandboxClosed)


def test_a_box_that_is_killed_before_its_hello_is_read_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No descriptor is left open, nor does one keep the engine busy for ever."""
    start, killed = Box.start, threading.Event()

    def start_in_vain(box: Box, call: Call | None = None) -> None:
        start(box, call)
        if not killed.is_set():
            assert box.control is not None
            assert select.select([box.control], [], [], NET_S)[0]
            box.kill()
            killed.set()

    with Sandbox(prewarm=0) as sandbox:
        sandbox.run_code("1")
    before = descriptors()
    monkeypatch.setattr(Box, "start", start_in_vain)
    with Sandbox(prewarm=1) as sandbox:
        assert killed.wait(NET_S)
        assert shown(sandbox.run_code("1")) == ["1"]
    wait_until(lambda: descriptors() <= before)
    assert engine()._poll.poll(0) == []


async def test_a_call_that_ends_before_its_process_is_named_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver sends a descriptor of that process, which is of no use by then."""
    hand_over = Service.hand_over

    def end_at_once(service: Service) -> None:
        hand_over(service)
        box = service._box
        assert box.control is not None
        assert select.select([box.control], [], [], NET_S)[0]
        service.end("cancel")
        assert wait_gone(box.inside, NET_S)
        box._on_gone()

    async with Sandbox(mode="resident") as sandbox:
        await sandbox.arun_code("1")
        before = descriptors()
        monkeypatch.setattr(Service, "hand_over", end_at_once)
        await sandbox.arun_code("2")
        monkeypatch.undo()
        assert (await sandbox.arun_code("3")).state_new
        wait_until(lambda: descriptors() <= before)


@pytest.mark.parametrize("code", ["'kept?'", SLOW])
def test_nothing_keeps_a_call_that_is_over(kernel: Sandbox, code: str) -> None:
    """Its results may be large."""
    kernel.run_code("1")
    code += "  # this very call"
    assert kernel.run_code(code).success

    def is_gone() -> bool:
        gc.collect()
        calls = [each for each in gc.get_objects() if isinstance(each, Call)]
        return code not in [each.work.code for each in calls]

    wait_until(is_gone)


@pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
def test_threads_that_show_values_at_once_show_them_whole(mode: str) -> None:
    """None is within another, and the call comes to its end."""
    with Sandbox(mode=mode) as sandbox:
        result = sandbox.run_code(
            "import threading\n"
            "def show(n):\n"
            "    for _ in range(3):\n"
            "        display({'text/plain': str(n) * 300_000}, raw=True)\n"
            "threads = [threading.Thread(target=show, args=(n,)) for n in range(4)]\n"
            "for t in threads: t.start()\nfor t in threads: t.join()"
        )
    texts = [text or "" for text in shown(result)]
    assert sorted(texts) == sorted([str(n) * 300_000 for n in range(4)] * 3)


def test_a_command_that_is_missing_is_told_while_threads_show_values() -> None:
    """What the command's process says is within nothing that they send."""
    with Sandbox(mode="kernel") as sandbox:
        sandbox.run_code(
            "import threading\n"
            "def show():\n"
            "    while True: display({'text/plain': 'y' * 100_000}, raw=True)\n"
            "for _ in range(3): threading.Thread(target=show, daemon=True).start()"
        )
        missing = [sandbox.run(["no-such-command"]) for _ in range(3)]
        assert [each.fault_type for each in missing] == ["exec_failed"] * 3
        assert not any(each.state_lost for each in missing)


@pytest.mark.parametrize("code", ["x = '\\d'", "'\\d'"])
def test_a_cell_is_warned_of_once(code: str) -> None:
    """However often its parser looks at it."""
    with Sandbox(env={"PYTHONWARNINGS": "always"}, prewarm=0) as sandbox:
        said = sandbox.run_code(code).code_stderr
    assert said.count("invalid escape sequence") == 1


def test_a_reset_waits_for_a_call_whose_caller_has_the_box(kernel: Sandbox) -> None:
    """The call goes on to its end; the next has a new box."""
    kernel.run_code("kept = 1")
    with ThreadPoolExecutor(1) as threads, engine_held_up():
        call = threads.submit(kernel.run_code, f"{SLOW}, kept")
        wait_until(lambda: is_lent(kernel))
        kernel.reset()
    assert shown(call.result(NET_S)) == ["('slept', 1)"]
    assert kernel.run_code("kept").exit_code == 1


def test_a_reset_in_the_moment_of_lending_costs_no_call(
    own_kernel: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The box that it ends is lent to nobody by then."""
    lend, kill = Box.lend, Box.kill
    killing, answered = threading.Event(), threading.Event()

    def lend_late(box: Box, call: Call) -> bool:
        if not answered.is_set():
            own_kernel.reset()
            assert killing.wait(NET_S)
        try:
            return lend(box, call)
        finally:
            answered.set()

    def kill_late(box: Box) -> None:
        killing.set()
        assert answered.wait(NET_S)
        kill(box)

    monkeypatch.setattr(Box, "lend", lend_late)
    monkeypatch.setattr(Box, "kill", kill_late)
    result = own_kernel.run_code("1")
    assert (shown(result), result.state_new) == (["1"], True)


def test_a_box_that_cannot_be_asked_any_more_is_replaced(kernel: Sandbox) -> None:
    """Code that closed the box's socket costs the names, and fails no later call."""
    kernel.run_code("import os\nos.closerange(3, 100)")
    result = kernel.run_code("print(1)")
    assert (result.stdout, result.fault, result.state_new) == ("1\n", None, True)


def test_a_box_that_is_killed_before_it_was_heard_is_no_trouble_of_ours(
    own_kernel: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it was asked lies unread in its socket, which the system says in its way."""
    (box,) = carrier_of(own_kernel)._boxes
    signal.pidfd_send_signal(box.inside, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as threads, engine_held_up():
        call = threads.submit(own_kernel.run_code, "1")
        wait_until(lambda: unread(box))
        for ended in (box._kern.pidfd, box.inside):  # each holds the socket's other end
            signal.pidfd_send_signal(ended, signal.SIGKILL)
            assert wait_gone(ended, NET_S)
    assert call.result(NET_S).fault_type == "killed"
    assert own_kernel.run_code("1").state_new
    assert capsys.readouterr().err == ""


def test_values_that_are_shown_while_nobody_listens_are_all_there(
    kernel: Sandbox,
) -> None:
    """The engine, which takes the call back, reads until it has heard them."""
    code = (
        f"import time\ntime.sleep({10 * HERE_S})\n"
        "for n in range(40):\n    display(str(n) + 1000 * ' ')\n"
        "open('shown', 'w').close()"
    )
    kernel.run_code("1")
    with ThreadPoolExecutor(1) as threads, engine_held_up():
        call = threads.submit(kernel.run_code, code)
        wait_until((kernel.workspace.root / "shown").exists)
    said = [text.strip("' ") for text in shown(call.result(NET_S)) if text]
    assert said == [str(n) for n in range(40)]


def test_a_call_that_ends_its_box_at_once_says_so(kernel: Sandbox) -> None:
    """The end comes as fast as an answer would."""
    result = kernel.run_code("import os\nos._exit(7)")
    assert (result.exit_code, result.fault, result.state_lost) == (7, None, True)
    assert kernel.run_code("1").state_new


def test_what_ends_a_warm_box_at_once_is_known(fresh: Sandbox) -> None:
    """It is no end of the cell's own."""
    result = fresh.run_code("import os\nos.kill(os.getpid(), 11)\nos._exit(7)")
    assert (result.exit_code, result.fault) == (7, None)
    result = fresh.run_code("import ctypes\nctypes.string_at(0)")
    assert (result.exit_code, result.signal, result.fault) == (139, 11, None)


def test_what_a_thread_shows_between_calls_is_in_no_result(kernel: Sandbox) -> None:
    """Nor does it delay the next."""
    kernel.run_code(
        "import os, threading\n"
        "def late():\n"
        "    while not os.path.exists('go'):\n        pass\n"
        "    display('late')\n    open('done', 'w').close()\n"
        "threading.Thread(target=late, daemon=True).start()"
    )
    kernel.write_file("go", "")
    wait_until((kernel.workspace.root / "done").exists)
    assert shown(kernel.run_code("1")) == ["1"]


@pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
def test_a_process_that_prints_without_end_holds_up_nobody(mode: str) -> None:
    """A call is over when its code is, and what comes after it is not read."""
    with Sandbox(mode=mode, prewarm=0) as sandbox:
        result = sandbox.run_code(
            "import subprocess\nsubprocess.Popen(['yes'])\nprint(1)"
        )
        assert (result.exit_code, result.fault) == (0, None)
        assert sandbox.run_code("print(2)").stdout == "2\n"
