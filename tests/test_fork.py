"""Sandboxes in a process that forks, as gunicorn, Celery and multiprocessing do."""

from __future__ import annotations

from .hosts import ended

FORK = """\
def forked(child):
    pid = os.fork()
    if pid == 0:
        try:
            child()
        except BaseException as error:
            say("child:", type(error).__name__, getattr(error, "code", None), error)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)

def printed(sandbox, code):
    result = sandbox.run_code(code)
    return (result.stdout + result.code_stderr + str(result.fault or "")).strip()
"""


def test_a_forked_child_cannot_use_the_sandbox_and_the_parent_goes_on() -> None:
    """The error says what to do, and nothing of the parent's is harmed."""
    lines = ended(
        FORK + "with Sandbox(prewarm=1) as sandbox:\n"
        "    sandbox.write_file('a', 'kept')\n"
        "    say(printed(sandbox, 'print(1)'))\n"
        "    for use in (lambda: sandbox.run_code('1'), sandbox.open,\n"
        "                lambda: sandbox.read_file('a'), sandbox.close):\n"
        "        forked(use)\n"
        "    say(printed(sandbox, 'print(open(\"a\").read())'))\n"
        "    say(sandbox.workspace.root.exists())\n"
    )
    assert lines[0] == "1"
    assert [line.split()[:3] for line in lines[1:4]] == 3 * [
        ["child:", "SandboxError", "forked"]
    ]
    assert "after the fork" in lines[1]
    assert lines[4:] == ["kept", "True"]


def test_a_forked_child_may_have_a_sandbox_of_its_own() -> None:
    """In every mode, also one that was made before the fork and not opened."""
    lines = ended(
        FORK + "early = Sandbox(prewarm=0)\n"
        "def child():\n"
        "    for mode in ('fresh', 'resident', 'kernel'):\n"
        "        with Sandbox(mode=mode, env={'PYTHONHASHSEED': '1'}) as own:\n"
        "            say(mode, printed(own, 'print(2)'))\n"
        "    with early:\n"
        "        say('early', printed(early, 'print(3)'))\n"
        "with Sandbox(env={'PYTHONHASHSEED': '1'}) as sandbox:\n"
        "    say(printed(sandbox, 'print(1)'))\n"
        "    forked(child)\n"
        "    say(printed(sandbox, 'print(4)'))\n"
    )
    assert lines == ["1", "fresh 2", "resident 2", "kernel 2", "early 3", "4"]


def test_a_forked_child_that_drops_a_stream_ends_nothing() -> None:
    """The call goes on, and the parent reads it to its end."""
    lines = ended(
        FORK + "with Sandbox(prewarm=0) as sandbox:\n"
        "    go = sandbox.workspace.root / 'go'\n"
        "    os.mkfifo(go)\n"
        "    code = 'print(1, flush=True); print(open(\"go\").read())'\n"
        "    streams = [sandbox.stream_code(code)]\n"
        "    say(next(streams[0]).text.strip())\n"
        "    forked(streams.clear)\n"
        "    go.write_text('2')\n"
        "    *_, last = streams[0]\n"
        "    say(last.result.exit_code, last.result.stdout.split())\n"
    )
    assert lines == ["1", "0 ['1', '2']"]


def test_a_childs_end_removes_nothing_of_its_parent() -> None:
    """Not even where the child leaves as an ordinary program does."""
    lines = ended(
        "sandbox = Sandbox(prewarm=0).open()\n"
        "sandbox.write_file('a', 'kept')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    sys.exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "say(sandbox.run_code('print(open(\"a\").read())').stdout.strip())\n"
    )
    assert lines == ["kept"]


def test_a_kernel_keeps_its_names_while_the_host_forks() -> None:
    """A fork in the middle of a call disturbs neither the call nor the next one."""
    lines = ended(
        FORK + "with Sandbox(mode='kernel') as sandbox:\n"
        "    sandbox.run_code('x = 41')\n"
        "    begun = threading.Event()\n"
        "    code = 'print(0, flush=True); import time; time.sleep(0.2); x + 1'\n"
        "    def call():\n"
        "        result = sandbox.run_code(code, on_stdout=lambda _: begun.set())\n"
        "        say(result.results[0].text)\n"
        "    thread = threading.Thread(target=call)\n"
        "    thread.start()\n"
        "    begun.wait()\n"
        "    forked(lambda: None)\n"
        "    thread.join()\n"
        "    say(sandbox.run_code('x').results[0].text)\n"
    )
    assert lines == ["42", "41"]


def test_a_child_that_lives_on_does_not_keep_the_parents_boxes() -> None:
    """What the child inherited holds no box open: closing ends them all."""
    lines = ended(
        FORK + "from kern_tools.processes import named_boxes\n"
        "sandbox = Sandbox(mode='kernel').open()\n"
        "sandbox.run_code('1')\n"
        "reader, writer = os.pipe()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os.close(writer)\n"
        "    os.read(reader, 1)\n"
        "    os._exit(0)\n"
        "boxes = lambda: list(named_boxes(f'kt-{owner().token}-'))\n"
        "say(len(boxes()) > 0)\n"
        "sandbox.close()\n"
        "say(boxes(), sandbox)\n"
        "os.close(writer)\n"
        "os.waitpid(pid, 0)\n"
    )
    assert lines[0] == "True"
    assert lines[1].startswith("[] ")


def test_workers_of_multiprocessing_have_sandboxes_of_their_own() -> None:
    """Each worker opens one after the fork."""
    lines = ended(
        "import multiprocessing\n"
        "def work(number):\n"
        "    with Sandbox(prewarm=0) as own:\n"
        "        return own.run_code(f'print({number} ** 2)').stdout.strip()\n"
        "with Sandbox() as sandbox:\n"
        "    sandbox.run_code('1')\n"
        "    with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "        say(*pool.map(work, range(4)))\n"
        "    say(sandbox.run_code('print(9)').stdout.strip())\n"
    )
    assert lines == ["0 1 4 9", "9"]
