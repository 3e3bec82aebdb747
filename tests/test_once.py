"""Tools of which each call runs once: what is the same call, and what is remembered."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kern_tools import FaultPolicy, Sandbox, SandboxClosed, SandboxPool
from kern_tools.once import CallKey, Replies, replies_of
from kern_tools.reply import Reply, TextPart
from kern_tools.source import Pool
from kern_tools.tools import Tool, tools_of

from .hosts import innermost, wait_until

COUNTS = "open('n', 'a').write('1')\nprint(len(open('n').read()))"
COUNT: dict[str, Any] = {"code": COUNTS}
WAITS = {
    "code": "import os\n"
    "if os.path.exists('on'): open('on', 'w').close()\n"
    "open('go').close()\n"
    "open('n', 'a').write('1')"
}
"""Says by one pipe that it runs, and waits at another."""


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A sandbox whose calls cost little."""
    with Sandbox(mode="resident", timeout_s=20) as sandbox:
        yield sandbox


def tool(sandbox: Sandbox | Pool, name: str = "run_code") -> Tool:
    """Give one tool of which each call runs once."""
    (found,) = tools_of(sandbox, name, idempotent=True)
    return found


@pytest.fixture
def pipes(sandbox: Sandbox) -> Path:
    """The folder in which `WAITS` has its pipes."""
    for name in ("on", "go"):
        os.mkfifo(sandbox.workspace.root / name)
    return sandbox.workspace.root


def until_it_runs(pipes: Path) -> None:
    """Block until `WAITS` runs; the next run of it says nothing."""
    with (pipes / "on").open("rb"):
        (pipes / "on").unlink()


def let_go(pipes: Path) -> None:
    """Block until `WAITS` waits, and let it go on."""
    (pipes / "go").open("wb").close()


def runs(sandbox: Sandbox) -> int:
    """Say how often `COUNTS` ran."""
    return len(sandbox.read_file("n")) if sandbox.list_files() else 0


# which calls are the same


def test_a_call_under_the_same_id_gives_the_first_reply(sandbox: Sandbox) -> None:
    """It is the very same one, and the code did not run again."""
    counting = tool(sandbox)
    first = counting.call(COUNT, call_id="a")
    second = counting.call(COUNT, call_id="a")
    assert replace(second, replayed=False) == replace(first, stored=None)
    assert (first.replayed, second.replayed, runs(sandbox)) == (False, True, 1)


async def test_the_async_way_remembers_the_same(sandbox: Sandbox) -> None:
    """A call may be made one way and again in the other."""
    counting = tool(sandbox)
    first = await counting.acall(COUNT, call_id="a")
    again = await counting.acall(COUNT, call_id="a")
    other = counting.call(COUNT, call_id="a")
    assert first.artifact == again.artifact == other.artifact
    assert (first.replayed, again.replayed, other.replayed) == (False, True, True)
    assert runs(sandbox) == 1


def test_other_calls_run(sandbox: Sandbox) -> None:
    """Another id, other arguments, another tool, or no id at all."""
    counting = tool(sandbox)
    (plain,) = tools_of(sandbox, "run_code")
    shell = tool(sandbox, "run_command")
    replies = [
        counting.call(COUNT, call_id="a"),
        counting.call(COUNT, call_id="b"),
        counting.call({"code": COUNTS + "\n"}, call_id="a"),
        counting.call({**COUNT, "language": "python"}, call_id="a"),
        shell.call({"command": "printf 1 >> n"}, call_id="a"),
        counting.call(COUNT),
        counting.call(COUNT),
        counting.call(COUNT, call_id=""),
        counting.call(COUNT, call_id=""),
        plain.call(COUNT, call_id="a"),
    ]
    assert not any(reply.replayed for reply in replies)
    assert runs(sandbox) == len(replies)


def test_by_default_nothing_is_remembered(sandbox: Sandbox) -> None:
    """Servers that count their ids anew in each turn would be answered wrongly."""
    (plain,) = tools_of(sandbox, "run_code")
    for _ in range(2):
        plain.call(COUNT, call_id="a")
    assert runs(sandbox) == 2


def test_tools_made_anew_remember(sandbox: Sandbox) -> None:
    """A server that builds its agent for each request goes on with what there is."""
    tool(sandbox).call(COUNT, call_id="a")
    assert tool(sandbox).call(COUNT, call_id="a").replayed


def test_arguments_written_in_another_way_are_the_same(sandbox: Sandbox) -> None:
    """What counts is what is run; repairs are told both times."""
    counting = tool(sandbox)
    counting.call({"code": f"{COUNTS}\n"}, call_id="a")
    fenced = {"code": f"```python\n{COUNTS}\n```"}
    again = counting.call(fenced, call_id="a")
    assert (again.replayed, "note:" in again.text, runs(sandbox)) == (True, True, 1)


def test_a_file_is_written_once(sandbox: Sandbox) -> None:
    """What came later is not undone."""
    write = tool(sandbox, "write_file")
    write.call({"path": "n", "content": "old"}, call_id="a")
    write.call({"path": "n", "content": "new"}, call_id="b")
    assert write.call({"path": "n", "content": "old"}, call_id="a").replayed
    assert sandbox.read_file("n") == b"new"


def test_conversations_of_a_pool_are_told_apart() -> None:
    """One id in two of them is two calls."""
    with SandboxPool(mode="resident", timeout_s=20) as pool:
        counting = tool(pool)
        replies = [
            counting.call(COUNT, call_id="a", conversation=name)
            for name in ("one", "two", "one")
        ]
        assert [reply.replayed for reply in replies] == [False, False, True]


# calls at once


def test_a_call_that_runs_already_is_waited_for(sandbox: Sandbox, pipes: Path) -> None:
    """Threads that send the same call at once share one run of it."""
    waiting = tool(sandbox)
    with ThreadPoolExecutor(4) as threads:
        sent = [threads.submit(waiting.call, WAITS, call_id="a") for _ in range(4)]
        until_it_runs(pipes)
        let_go(pipes)
        replies = [each.result() for each in sent]
    assert sorted(reply.replayed for reply in replies) == [False, True, True, True]
    assert sandbox.read_file("n") == b"1"


async def test_a_cancelled_call_runs_when_it_is_made_again(
    sandbox: Sandbox, pipes: Path
) -> None:
    """It has no reply that could be given; who waited for it makes it."""
    waiting = tool(sandbox)
    first = asyncio.create_task(waiting.acall(WAITS, call_id="a"))
    await asyncio.to_thread(until_it_runs, pipes)
    second = asyncio.create_task(waiting.acall(WAITS, call_id="a"))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await asyncio.to_thread(let_go, pipes)
    assert not (await second).replayed
    assert sandbox.read_file("n") == b"1"


async def test_a_waiter_can_be_cancelled(sandbox: Sandbox, pipes: Path) -> None:
    """The call itself goes on."""
    waiting = tool(sandbox)
    first = asyncio.create_task(waiting.acall(WAITS, call_id="a"))
    await asyncio.to_thread(until_it_runs, pipes)
    second = asyncio.create_task(waiting.acall(WAITS, call_id="a"))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    await asyncio.to_thread(let_go, pipes)
    assert not (await first).replayed
    assert (await waiting.acall(WAITS, call_id="a")).replayed


# which replies are remembered


@pytest.mark.parametrize(
    "arguments",
    [
        {"code": "open('n', 'a').write('1')\n1/0"},
        {
            "code": "open('n', 'a').write('1')\nimport time; time.sleep(60)",
            "timeout_s": 1,
        },
    ],
    ids=["failure", "timeout"],
)
def test_what_failed_is_not_tried_again(
    sandbox: Sandbox, arguments: dict[str, Any]
) -> None:
    """It may have done something before it did."""
    failing = tool(sandbox)
    first = failing.call(arguments, call_id="a")
    second = failing.call(arguments, call_id="a")
    assert (second.text, second.replayed, runs(sandbox)) == (first.text, True, 1)


def test_what_never_ran_is_run(tmp_path: Path) -> None:
    """A box that could not start did nothing."""
    folder = tmp_path / "data"
    folder.mkdir()
    with Sandbox(mounts={str(folder): "/data"}, prewarm=0, timeout_s=20) as sandbox:
        folder.rmdir()
        failed = tool(sandbox).call(COUNT, call_id="a")
        folder.mkdir()
        ran = tool(sandbox).call(COUNT, call_id="a")
    assert (failed.fault_type, ran.fault_type) == ("startup_failed", None)
    assert not ran.replayed


def test_unusable_arguments_are_answered_each_time(sandbox: Sandbox) -> None:
    """There is nothing to remember: the answer is the same."""
    replies = [tool(sandbox).call({"code": 5}, call_id="a") for _ in range(2)]
    assert [reply.error for reply in replies] == ["bad_arguments"] * 2


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_failure_given_again_is_no_repeat(sandbox: Sandbox, count: int) -> None:
    """A policy counts what ran, not what was asked for."""
    watch = FaultPolicy(max_repeats=1, retry_pause_s=0).start()
    failing = tool(sandbox)
    for _ in range(count):
        reply = watch.call(failing, {"code": "1/0"}, call_id="a")
        assert (reply.repeats, watch.stopped) == (0, None)
    watch.call(failing, {"code": "1/0"}, call_id="b")
    assert watch.stopped is not None


def test_more_time_from_a_policy_makes_no_other_call(sandbox: Sandbox) -> None:
    """A call that timed out under this id has its reply."""
    watch = FaultPolicy().start()
    code = {
        "code": "open('n', 'a').write('1')\nimport time; time.sleep(60)",
        "timeout_s": 1,
    }
    replies = [watch.call(tool(sandbox), code, call_id="a") for _ in range(2)]
    assert [reply.fault_type for reply in replies] == ["timeout"] * 2
    assert (replies[1].replayed, runs(sandbox)) == (True, 1)


# bounds


def reply_of(size_chars: int) -> Callable[[], Reply]:
    """Make a run whose reply has so much text."""
    return lambda: Reply(name="run_code", parts=(TextPart("x" * size_chars),))


def kept(replies: Replies, *keys: CallKey) -> list[bool]:
    """Say which calls are remembered; those that are not run now."""
    return [replies.once(key, reply_of(0)).replayed for key in keys]


def keys(count: int) -> list[CallKey]:
    """Make the keys of calls."""
    return [CallKey(f"c{n}", "run_code", "") for n in range(count)]


def test_the_oldest_are_forgotten() -> None:
    """One that was asked for again is younger for that."""
    replies = Replies(calls_kept=2)
    first, second, third = keys(3)
    for key in (first, second, first, third):
        replies.once(key, reply_of(1))
    assert kept(replies, first, third) == [True, True]
    assert kept(replies, second) == [False]


def test_large_replies_leave_room_for_few() -> None:
    """However large, the newest is remembered."""
    replies = Replies(bytes_kept=100)
    first, second, third = keys(3)
    replies.once(first, reply_of(40))
    replies.once(second, reply_of(60))
    assert kept(replies, first, second) == [True, True]
    replies.once(third, reply_of(1_000))
    assert kept(replies, third) == [True]
    assert kept(replies, first, second) == [False, False]


def test_the_memory_of_a_closed_sandbox_goes_with_it() -> None:
    """Nothing but the sandbox itself keeps what its calls came to."""
    sandbox = Sandbox()
    memory = weakref.ref(replies_of(sandbox))
    assert memory() is replies_of(sandbox)
    del sandbox
    gc.collect()
    assert memory() is None


# calls that come to nothing


def test_a_call_that_raised_holds_up_no_other(sandbox: Sandbox) -> None:
    """It has no reply that could be given: whoever makes it again makes it."""
    counting = tool(sandbox)
    sandbox.close()
    with ThreadPoolExecutor(1) as threads:
        for _ in range(2):
            made = threads.submit(counting.call, COUNT, call_id="a")
            with pytest.raises(SandboxClosed):
                made.result(60)


def test_what_a_tool_refuses_is_not_remembered(sandbox: Sandbox) -> None:
    """Nothing ran, whichever part of it found out."""
    nothing = {"path": "n", "old": "same", "new": "same"}
    edit = tool(sandbox, "edit_file")
    replies = [edit.call(nothing, call_id="a") for _ in range(2)]
    assert [reply.error for reply in replies] == ["bad_arguments"] * 2
    assert not any(reply.replayed for reply in replies)


def test_who_waits_for_a_call_that_raises_makes_it() -> None:
    """The error is that of the one who made it first."""
    replies, (key,) = Replies(), keys(1)
    begun, go_on, waiting = threading.Event(), threading.Event(), Future[int]()

    def raise_late() -> Reply:
        begun.set()
        assert go_on.wait(60)
        raise SandboxClosed("closed")

    def again() -> Reply:
        waiting.set_result(threading.get_ident())
        return replies.once(key, reply_of(3))

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(replies.once, key, raise_late)
        assert begun.wait(60)
        second = threads.submit(again)
        ident = waiting.result(60)
        wait_until(lambda: innermost(ident)[:3] == ["wait", "result", "once"])
        go_on.set()
        assert isinstance(first.exception(60), SandboxClosed)
        assert (second.result(60).text, second.result().replayed) == ("xxx", False)
