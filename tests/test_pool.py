"""One sandbox for each conversation, however many calls, threads and loops ask."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from uuid import UUID

import pytest

from kern_tools import (
    ConfigError,
    PoolFull,
    Sandbox,
    SandboxClosed,
    SandboxError,
    SandboxPool,
    keeping,
)
from kern_tools.conversations import Conversation
from kern_tools.facts import SandboxFacts
from kern_tools.lease import until_left
from kern_tools.sandbox_contract import box_processes
from kern_tools.seats import Seat

from .hosts import innermost, wait_until
from .standstill import Standstill

AT_ONCE = 16
WATCH = "kern-tools-pool-idle"


def pool_of(max_sandboxes: int = 8, **options: object) -> SandboxPool:
    """Make a pool whose sandboxes cost little."""
    settings = {"prewarm": 0, "timeout_s": 20, **options}
    return SandboxPool(max_sandboxes=max_sandboxes, **settings)  # type: ignore[arg-type]


def ran(sandbox: Sandbox, code: str) -> str:
    """Run code that must work; give what it printed."""
    result = sandbox.run_code(code)
    assert result.success, result
    return result.stdout


# exactly one


def test_racing_first_calls_get_one_sandbox() -> None:
    """Threads that come first at once all get the sandbox that one of them opens."""
    start = threading.Barrier(AT_ONCE)

    def first(_: int) -> Sandbox:
        start.wait()
        return pool.get("t1")

    with pool_of() as pool, ThreadPoolExecutor(AT_ONCE) as threads:
        found = list(threads.map(first, range(AT_ONCE)))
        assert len({id(sandbox) for sandbox in found}) == len(pool) == 1


def test_racing_event_loops_get_one_sandbox() -> None:
    """So do the tasks of several loops, beside threads that block."""
    start = threading.Barrier(4)

    async def tasks() -> list[Sandbox]:
        return await asyncio.gather(*(pool.aget("t1") for _ in range(4)))

    def first(number: int) -> list[Sandbox]:
        start.wait()
        return asyncio.run(tasks()) if number % 2 else [pool.get("t1")]

    with pool_of() as pool, ThreadPoolExecutor(4) as threads:
        found = [each for some in threads.map(first, range(4)) for each in some]
        assert len({id(sandbox) for sandbox in found}) == len(pool) == 1


def test_conversations_do_not_see_each_other() -> None:
    """Each has a workspace of its own, and finds it again."""
    with pool_of() as pool:
        pool.get("t1").write_file("mine.txt", "1")
        assert pool.get("t2").list_files() == []
        assert ran(pool.get("t1"), "print(open('mine.txt').read())") == "1\n"


def test_one_id_of_two_tenants_is_two_conversations() -> None:
    """Who can choose an id cannot reach what another tenant has under it."""
    with pool_of() as pool:
        pool.get("t1", tenant="a").write_file("mine.txt", "a")
        assert pool.get("t1", tenant="b").list_files() == []
        assert pool.get("t1").list_files() == []
        assert pool.get("t1", tenant="a").read_file("mine.txt") == b"a"
        assert len(pool) == 3


def test_parallel_conversations_keep_their_output() -> None:
    """Nothing of one call turns up in another's result."""

    def call(number: int) -> str:
        with pool.lease(f"t{number}") as sandbox:
            return ran(sandbox, f"print('t{number}')")

    with pool_of(max_sandboxes=8) as pool, ThreadPoolExecutor(8) as threads:
        said = list(threads.map(call, range(8)))
    assert said == [f"t{number}\n" for number in range(8)]


async def test_a_cancelled_first_call_leaves_the_sandbox_to_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The opening goes on, holds nothing, and the next call finds it."""
    async with pool_of(1, mode="kernel", setup_code="1") as pool:
        pool.describe()  # asks kern about this machine
        with Standstill(monkeypatch, tmp_path).held():
            task = asyncio.create_task(pool.aget("t1"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        first = await pool.aget("t1")
        assert first is await pool.aget("t1")
        assert await pool.aget("t2") is pool.peek("t2")


# keys


@pytest.mark.parametrize(
    "key",
    [None, "", "  ", "None", "null", True, 1.5, ["t1"], "\ud800", "a\0b", "x" * 1025],
    ids=lambda key: repr(key)[:12],
)
def test_there_is_no_default_conversation(key: object) -> None:
    """What stands for no id is refused, and nothing is opened."""
    with pool_of() as pool:
        for ask in (pool.get, pool.lease, pool.peek, pool.drop):
            with pytest.raises(ConfigError) as refused:
                ask(key)
            assert refused.value.option == "conversation"
        with pytest.raises(ConfigError) as refused:
            pool.get("t1", tenant=key if key is not None else "")
        assert refused.value.option == "tenant"
        assert len(pool) == 0


def test_numbers_and_uuids_are_ids_as_their_text() -> None:
    """Frameworks store them as text, so both find one conversation."""
    uuid = UUID(int=7)
    with pool_of() as pool:
        assert pool.get(7) is pool.get("7")
        assert pool.get(uuid) is pool.get(str(uuid))


def test_names_do_not_show_keys(tmp_path: Path) -> None:
    """Listings and snapshots are named by what only the secret can make again."""
    key = "ann@example.org"
    with pool_of(snapshots=tmp_path, secret="s1") as pool:
        pool.get(key, tenant="acme")
        (name,) = pool.names()
        assert name == pool.name_of(key, tenant="acme")
        assert pool.name_of("acme", tenant=key) != name
        assert key not in f"{pool!r} {pool.get(key, tenant='acme')!r}"
    (kept,) = tmp_path.iterdir()
    assert kept.name.startswith(name)
    with pool_of(secret="s2") as other:
        assert other.name_of(key, tenant="acme") != name


# room


def test_the_least_recently_used_sandbox_makes_room() -> None:
    """Not the oldest one: a use counts, and so does a call."""
    with pool_of(max_sandboxes=3) as pool:
        first, second, third = (pool.get(key) for key in ("t1", "t2", "t3"))
        ran(first, "1")
        with pool.lease("t2"):
            pass
        pool.get("t4")
        assert [each.is_open for each in (first, second, third)] == [True, True, False]
        pool.get("t5")
        assert [each.is_open for each in (first, second)] == [False, True]
        assert len(pool) == 3


def test_a_look_is_no_use() -> None:
    """`peek` opens nothing and keeps nothing open."""
    with pool_of(max_sandboxes=2) as pool:
        assert pool.peek("t1") is None
        first = pool.get("t1")
        pool.get("t2")
        assert pool.peek("t1") is first
        pool.get("t3")
        assert pool.peek("t1") is None
        assert not first.is_open


def test_a_leased_sandbox_is_not_closed() -> None:
    """Where all are leased there is no room, which is said as such."""
    with pool_of(max_sandboxes=1) as pool:
        with pool.lease("t1") as sandbox:
            with pytest.raises(PoolFull) as full, pool.lease("t2"):
                pass
            assert full.value.code == "pool_full"
            assert full.value.fault is not None
            assert full.value.fault.retryable
            assert ran(sandbox, "print(1)") == "1\n"
        assert pool.get("t2").is_open
        assert not sandbox.is_open


def test_a_sandbox_that_runs_a_call_is_not_closed() -> None:
    """Also where nobody leased it."""
    with pool_of(max_sandboxes=1) as pool, ThreadPoolExecutor(1) as threads:
        sandbox = pool.get("t1")
        gate = sandbox.workspace.root / "gate"
        os.mkfifo(gate)
        running = threads.submit(sandbox.run_code, "print(open('gate').read())")
        with gate.open("w") as holding:
            with pytest.raises(PoolFull):
                pool.get("t2")
            holding.write("kept")
        assert running.result().stdout == "kept\n"
        assert pool.get("t2").is_open


def test_a_tenant_has_room_among_its_own() -> None:
    """Its limit closes no other tenant's sandbox, and is told apart from the pool's."""
    with pool_of(max_sandboxes=8, max_per_tenant=1) as pool:
        other = pool.get("t1", tenant="b")
        first = pool.get("t1", tenant="a")
        pool.get("t2", tenant="a")
        assert (first.is_open, other.is_open) == (False, True)
        with pool.lease("t2", tenant="a"), pytest.raises(PoolFull) as full:
            pool.get("t3", tenant="a")
        assert full.value.code == "tenant_full"


def test_racing_conversations_stay_within_the_bound() -> None:
    """Never more than allowed are open, and nobody is given a closed one."""
    most, opened, lock = 3, set[Sandbox](), threading.Lock()

    def call(number: int) -> str | None:
        try:
            with pool.lease(f"t{number % 6}") as sandbox:
                with lock:
                    opened.add(sandbox)
                    assert sum(each.is_open for each in opened) <= most
                return ran(sandbox, f"print({number})")
        except PoolFull:
            return None

    with pool_of(max_sandboxes=most) as pool, ThreadPoolExecutor(6) as threads:
        said = list(threads.map(call, range(24)))
        assert len(pool) <= most
    assert all(text in (None, f"{number}\n") for number, text in enumerate(said))
    assert not any(sandbox.is_open for sandbox in opened)


def test_unused_sandboxes_are_closed() -> None:
    """After the idle time-out, but not while one is held."""
    gone: dict[str, threading.Event] = {key: threading.Event() for key in "ab"}

    def evicted(sandbox: Sandbox, key: str, tenant: str | None) -> None:
        assert (sandbox.is_open, tenant) == (True, None)
        gone[key].set()

    with (
        pool_of(idle_timeout_s=0.05, on_evict=evicted) as pool,
        pool.lease("a") as held,
    ):
        pool.get("b")
        assert gone["b"].wait(60)
        assert held.is_open
        assert not gone["a"].is_set()


def test_who_comes_back_while_another_is_closed_finds_the_own_sandbox() -> None:
    """However long an `on_evict` takes, the unused others are as they were."""
    reached, go_on = threading.Event(), threading.Event()

    def evicted(sandbox: Sandbox, key: str, tenant: str | None) -> None:
        if key == "a":
            reached.set()
            go_on.wait(60)

    with (
        ThreadPoolExecutor(1) as threads,
        pool_of(idle_timeout_s=0.05, on_evict=evicted) as pool,
    ):
        pool.get("a")
        kept = pool.get("b")
        assert reached.wait(60)
        try:
            assert threads.submit(pool.get, "b").result(30) is kept
        finally:
            go_on.set()


class HeldEviction:
    """A pool with room for two that is held up once while one is to leave.

    Args:
        end: What the one `on_evict` that is held up ends with.
    """

    def __init__(self, end: BaseException | None = None) -> None:
        self._end = end
        self._reached, self._go_on = threading.Event(), threading.Event()
        self.pool = pool_of(2, on_evict=self._on_evict)
        self.first = self.pool.get("t1")
        self.pool.get("t2")

    def _on_evict(self, sandbox: Sandbox, key: str, tenant: str | None) -> None:
        if not self._reached.is_set():
            assert (sandbox, key, tenant) == (self.first, "t1", None)
            self._reached.set()
            assert self._go_on.wait(60)
            if self._end is not None:
                raise self._end

    def let_go(self) -> None:
        """Have the one that is held up go on."""
        self._go_on.set()

    def third(self) -> Sandbox:
        """Take the room of the first."""
        return self.pool.get("t3")

    @contextmanager
    def under_way(self) -> Generator[Future[Sandbox]]:
        """Have a third conversation take the room of the first."""
        with self.pool, ThreadPoolExecutor(1) as threads:
            try:
                taken = threads.submit(self.third)
                assert self._reached.wait(60)
                yield taken
            finally:
                self.let_go()


def test_who_comes_back_while_the_own_sandbox_is_closed_gets_a_new_one() -> None:
    """It is waited for, and not given out again."""
    held, mine = HeldEviction(), Future[int]()

    def back() -> Sandbox:
        mine.set_result(threading.get_ident())
        return held.pool.get("t1")

    with held.under_way() as third, ThreadPoolExecutor(1) as threads:
        again = threads.submit(back)
        ident = mine.result(60)
        wait_until(lambda: innermost(ident)[:3] == ["wait", "result", "__enter__"])
        held.let_go()
        assert again.result(60) is not held.first
        assert again.result().is_open
        assert not held.first.is_open
        assert third.result(60) is not again.result()


async def test_the_event_loop_is_free_while_the_own_sandbox_is_closed() -> None:
    """Who comes back by `aget` waits as well, and holds nobody up."""
    held = HeldEviction()
    with held.under_way():
        again = asyncio.create_task(held.pool.aget("t1"))
        await asyncio.sleep(0)
        assert not again.done()
        held.let_go()
        sandbox = await again
        assert sandbox is not held.first
        assert (sandbox.is_open, held.first.is_open) == (True, False)


async def test_who_waits_for_the_own_sandbox_gets_it_where_it_stays() -> None:
    """An `on_evict` that fails keeps it, with all that is in it."""
    held = HeldEviction(OSError("disk full"))
    held.first.write_file("a.txt", "1")
    with held.under_way() as third:
        again = asyncio.create_task(held.pool.aget("t1"))
        await asyncio.sleep(0)
        assert not again.done()
        held.let_go()
        assert await again is held.first
        assert held.first.read_file("a.txt") == b"1"
        with pytest.raises(SandboxError):
            third.result(60)


async def test_an_opener_that_is_interrupted_leaves_the_opening_to_who_waits() -> None:
    """The interruption is its own; the others' call opens the sandbox."""
    held, mine = HeldEviction(KeyboardInterrupt()), Future[int]()

    def same() -> Sandbox:
        mine.set_result(threading.get_ident())
        return held.third()

    with held.under_way() as third, ThreadPoolExecutor(1) as threads:
        blocking = threads.submit(same)
        ident = mine.result(60)
        wait_until(lambda: innermost(ident)[:3] == ["wait", "result", "__enter__"])
        waiting = asyncio.create_task(held.pool.aget("t3"))
        await asyncio.sleep(0)
        assert not waiting.done()
        held.let_go()
        sandbox = await waiting
        assert sandbox.is_open
        assert blocking.result(60) is sandbox
        assert isinstance(third.exception(60), KeyboardInterrupt)


def test_an_on_evict_that_exits_ends_no_watch() -> None:
    """It keeps its sandbox, and the others are still closed."""
    gone = threading.Event()

    def evicted(sandbox: Sandbox, key: str, tenant: str | None) -> None:
        if key == "a":
            raise SystemExit
        gone.set()

    with pool_of(idle_timeout_s=0.05, on_evict=evicted) as pool:
        kept = pool.get("a")
        pool.get("b")
        assert gone.wait(60)
        assert kept.is_open


# coming back


def test_who_comes_back_without_a_snapshot_is_told() -> None:
    """The first result says that files and names are gone; the next one does not."""
    with pool_of(max_sandboxes=1) as pool:
        pool.get("t1").write_file("a.txt", "1")
        pool.get("t2")
        sandbox = pool.get("t1")
        first, second = sandbox.run_code("1"), sandbox.run_code("1")
        assert (first.state_new, first.files_lost) == (True, True)
        assert (second.state_new, second.files_lost) == (False, False)
        new = pool.get("t3").run_code("1")
        assert (new.state_new, new.files_lost) == (False, False)


def test_who_left_long_ago_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of so many closed conversations only the last are remembered."""
    monkeypatch.setattr(keeping, "REMEMBERED_MOST", 2)
    with pool_of(max_sandboxes=1) as pool:
        for name in ("t1", "t2", "t3", "t4"):
            pool.get(name)
        assert not pool.get("t1").run_code("1").files_lost
        assert pool.get("t4").run_code("1").files_lost


@pytest.mark.parametrize("mode", ["fresh", "kernel"])
def test_who_comes_back_to_a_snapshot_has_the_files(tmp_path: Path, mode: str) -> None:
    """Names are gone, which the first result says; in another process too."""
    with pool_of(max_sandboxes=1, snapshots=tmp_path, mode=mode) as pool:
        ran(pool.get("t1"), "x = open('a.txt', 'w').write('kept')")
        pool.get("t2")
        result = pool.get("t1").run_code("print(open('a.txt').read())")
        assert (result.stdout, result.state_new) == ("kept\n", True)
        assert not result.files_lost
    with pool_of(snapshots=f"file://{tmp_path}", mode=mode) as again:
        result = again.get("t1").run_code("print(open('a.txt').read())")
        assert (result.stdout, result.state_new) == ("kept\n", True)


def test_a_dropped_conversation_starts_anew(tmp_path: Path) -> None:
    """Its sandbox, its snapshot and the memory of it are gone."""
    with pool_of(max_sandboxes=1, snapshots=tmp_path) as pool:
        first = pool.get("t1")
        first.write_file("a.txt", "1")
        pool.get("t2")
        pool.get("t1")
        assert pool.drop("t1")
        assert not pool.drop("t1")
        sandbox = pool.get("t1")
        assert sandbox.list_files() == []
        assert not sandbox.run_code("1").state_new


async def test_a_conversation_is_dropped_without_blocking(tmp_path: Path) -> None:
    """The event loop is free while its sandbox is closed."""
    async with pool_of(snapshots=tmp_path) as pool:
        sandbox = await pool.aget("t1")
        assert await pool.adrop("t1")
        assert not sandbox.is_open
        assert not await pool.adrop("t1")


def test_a_sandbox_that_cannot_be_kept_stays(tmp_path: Path) -> None:
    """Room is not made by losing files: whoever wants it is told why there is none."""
    place = tmp_path / "file"
    place.write_text("no folder")
    with pool_of(max_sandboxes=1, snapshots=place) as pool:
        # What cannot be saved cannot be looked for either.
        with pytest.raises(SandboxError) as failed:
            pool.get("t1")
        assert failed.value.fault is not None
        assert failed.value.fault.type == "startup_failed"
    calls: list[str] = []

    def refuse(sandbox: Sandbox, key: str, tenant: str | None) -> None:
        calls.append(key)
        raise OSError("disk full")

    with pool_of(max_sandboxes=1, on_evict=refuse) as pool:
        sandbox = pool.get("t1")
        with pytest.raises(SandboxError) as failed:
            pool.get("t2")
        assert (failed.value.code, calls) == ("on_evict", ["t1"])
        assert isinstance(failed.value.__cause__, OSError)
        assert sandbox.is_open
        assert pool.get("t1") is sandbox


def test_a_sandbox_that_its_user_closed_is_opened_again() -> None:
    """`with pool.get(...)` closes it; the pool does not hand out what is closed."""
    with pool_of() as pool:
        with pool.get("t1"):
            pass
        assert pool.get("t1").run_code("1").files_lost


def test_a_sandbox_that_its_user_closed_makes_room() -> None:
    """Nobody can use it any more, however lately it was used."""
    with pool_of(max_sandboxes=2) as pool:
        kept = pool.get("t1")
        with pool.lease("t1"):
            pool.get("t2").close()
            pool.get("t3")
        assert pool.get("t1") is kept


def test_a_seat_that_is_not_being_left_is_not_waited_for() -> None:
    """It was left, or kept after all, since somebody asked for it."""
    assert until_left(Seat(Conversation(None, "t1"))).done()


# life


def test_closing_leaves_nothing() -> None:
    """No box, thread, descriptor or folder, also of a call that runs."""
    threads = {thread.ident for thread in threading.enumerate()}
    pool = pool_of(mode="kernel", idle_timeout_s=600)
    with pool, ThreadPoolExecutor(1) as caller:
        roots = [pool.get(key).workspace.root for key in ("t1", "t2")]
        sandbox = pool.get("t1")
        gate = sandbox.workspace.root / "gate"
        os.mkfifo(gate)
        code = "open('gate', 'w').write('on')\nimport time\ntime.sleep(60)"
        running = caller.submit(sandbox.run_code, code)
        assert gate.read_text() == "on"
        boxes = box_processes(sandbox)
        assert boxes
        pool.close()
        assert isinstance(running.exception(), SandboxClosed)
    assert not any(root.exists() for root in roots)
    assert not any(Path(f"/proc/{pid}").exists() for pid in boxes)
    left = {t.name for t in threading.enumerate() if t.ident not in threads}
    assert left <= {"kern-tools-engine"}
    with pytest.raises(SandboxClosed):
        pool.get("t1")
    with pytest.raises(SandboxClosed):
        asyncio.run(pool.aget("t1"))
    pool.close()


def test_closing_waits_for_what_is_being_opened() -> None:
    """A sandbox that is on its way when the pool closes does not outlive it."""
    pool = pool_of(max_sandboxes=AT_ONCE)
    start = threading.Barrier(5)

    def first(number: int) -> Sandbox | None:
        start.wait()
        try:
            return pool.get(f"t{number}")
        except SandboxClosed:
            return None

    with ThreadPoolExecutor(4) as threads:
        opening = [threads.submit(first, number) for number in range(4)]
        start.wait()
        pool.close()
        found = [future.result() for future in opening]
    assert not any(sandbox.is_open for sandbox in found if sandbox is not None)
    assert len(pool) == 0


def test_a_pool_is_not_pickled() -> None:
    """A graph's state holds ids, never what is alive."""
    with pool_of() as pool, pytest.raises(TypeError, match="id"):
        pickle.dumps(pool)


FORKED = """
import os
from kern_tools import SandboxError, SandboxPool

with SandboxPool(prewarm=0) as pool:
    pool.get("t1")
    child = os.fork()
    if child == 0:
        try:
            pool.get("t1")
        except SandboxError as error:
            print(error.code, flush=True)
        pool.close()
        os._exit(0)
    os.waitpid(child, 0)
    print(pool.get("t1").run_code("print(7)").stdout)
"""


def test_a_pool_that_is_closed_at_once_ends_its_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the thread, which the first sandbox begins, takes its time."""
    start, join, joined = Thread.start, Thread.join, threading.Event()
    here = threading.get_ident()

    def is_closing() -> bool:  # it waits in our own lines, or has not waited
        return innermost(here)[:2] == ["close", "close"] or joined.is_set()

    def start_late(thread: Thread) -> None:
        if thread.name == WATCH:
            wait_until(is_closing)
        start(thread)

    def join_any(thread: Thread, timeout: float | None = None) -> None:
        if thread.name == WATCH:
            joined.set()
        join(thread, timeout)

    monkeypatch.setattr(Thread, "start", start_late)
    monkeypatch.setattr(Thread, "join", join_any)
    pool = pool_of(idle_timeout_s=600)
    with ThreadPoolExecutor(1) as threads:
        opened = threads.submit(pool.get, "t1")
        wait_until(lambda: pool.peek("t1") is not None)
        pool.close()
        opened.result()
    assert WATCH not in [thread.name for thread in threading.enumerate()]


def test_a_forked_child_is_told_what_to_do() -> None:
    """The parent's sandboxes stay the parent's."""
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "forked\n7\n\n", done.stderr


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"max_sandboxes": 0}, "max_sandboxes"),
        ({"max_sandboxes": "2"}, "max_sandboxes"),
        ({"max_per_tenant": 0}, "max_per_tenant"),
        ({"idle_timeout_s": 0}, "idle_timeout_s"),
        ({"workspace": "/tmp/shared"}, "workspace"),
        ({"max_sandbox": 2}, "max_sandbox"),
    ],
    ids=str,
)
def test_options_that_cannot_be_used_are_refused(
    options: dict[str, object], option: str
) -> None:
    """Before anything starts; one workspace for all is no option of a pool."""
    with pytest.raises(ConfigError) as refused:
        SandboxPool(**options)  # type: ignore[arg-type]
    assert refused.value.option == option


def test_a_pool_is_described_without_a_sandbox() -> None:
    """The words are those that its sandboxes have."""
    with pool_of(mode="kernel", memory_mb=256) as pool:
        facts = pool.describe()
        assert len(pool) == 0
        assert facts.memory_mb == 256
        assert "variables and imports, scratch files" in pool.system_prompt()
        told: Callable[[], SandboxFacts] = pool.get("t1").describe
        assert facts == told()
