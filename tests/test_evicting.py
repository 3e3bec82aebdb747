"""What `on_evict` may do: it runs while the pool waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kern_tools import Sandbox, SandboxError, SandboxPool
from kern_tools.source import Source
from kern_tools.tools import tools_of

NET_S = 60  # what hangs ends the test; nothing is measured
Ask = Callable[[SandboxPool, str], Sandbox]


def asked(pool: SandboxPool, key: str) -> Sandbox:
    """Ask as code that blocks does."""
    return pool.get(key)


def leased(pool: SandboxPool, key: str) -> Sandbox:
    """Hold it for a block."""
    with pool.lease(key) as sandbox:
        return sandbox


def asked_in_a_loop(pool: SandboxPool, key: str) -> Sandbox:
    """Ask in an event loop of its own."""

    async def ask() -> Sandbox:
        return await asyncio.create_task(pool.aget(key))

    return asyncio.run(ask())


def asked_in_a_thread_of_a_loop(pool: SandboxPool, key: str) -> Sandbox:
    """Ask as a framework does that runs sync tools on threads."""
    return asyncio.run(asyncio.to_thread(pool.get, key))


ASKS = [asked, leased, asked_in_a_loop, asked_in_a_thread_of_a_loop]
each_ask = pytest.mark.parametrize("ask", ASKS)


class Evictions:
    """A pool with room for one, whose `on_evict` does what a test says."""

    def __init__(self, does: Callable[[SandboxPool, Sandbox, str], object]) -> None:
        self.seen: list[Any] = []
        self._does = does
        self.pool = SandboxPool(
            max_sandboxes=1, prewarm=0, timeout_s=20, on_evict=self._on_evict
        )

    def _on_evict(self, sandbox: Sandbox, key: str, tenant: str | None) -> None:
        del tenant
        try:
            self.seen.append(self._does(self.pool, sandbox, key))
        except SandboxError as error:
            self.seen.append(error.code)

    def replaced(self) -> tuple[Sandbox, Sandbox]:
        """Have a second conversation take the room of the first."""
        first = self.pool.get("t1")
        with ThreadPoolExecutor(1) as threads:
            return first, threads.submit(self.pool.get, "t2").result(NET_S)


@each_ask
def test_on_evict_may_ask_for_the_conversation_it_is_about(ask: Ask) -> None:
    """It is given the sandbox that is open until it returns, and closed after that."""
    evictions = Evictions(lambda pool, _, key: ask(pool, key))
    with evictions.pool:
        first, second = evictions.replaced()
        assert evictions.seen == [first]
        assert (first.is_open, second.is_open) == (False, True)


def test_on_evict_may_run_a_tool_of_the_conversation() -> None:
    """As an agent does that is asked for a last word; its files are still there."""

    def summed_up(pool: SandboxPool, sandbox: Sandbox, key: str) -> str:
        sandbox.write_file("a.txt", "kept")
        (tool,) = tools_of(Source(pool), "read_file")
        return tool.call({"path": "a.txt"}, conversation=key).text

    evictions = Evictions(summed_up)
    with evictions.pool:
        evictions.replaced()
        assert "kept" in evictions.seen[0]


@each_ask
def test_on_evict_is_refused_the_conversation_it_makes_room_for(ask: Ask) -> None:
    """That one waits for `on_evict`, which would wait for itself."""
    evictions = Evictions(lambda pool, _, __: ask(pool, "t2"))
    with evictions.pool:
        _, second = evictions.replaced()
        assert evictions.seen == ["evicting"]
        assert second.is_open


ENDS: dict[str, Callable[[SandboxPool, Sandbox, str], object]] = {
    "drops its own": lambda pool, _, key: pool.drop(key),
    "drops the next": lambda pool, _, __: pool.drop("t2"),
    "closes the pool": lambda pool, _, __: pool.close(),
}


@pytest.mark.parametrize("does", ENDS.values(), ids=list(ENDS))
def test_on_evict_is_refused_what_waits_for_it(does: Any) -> None:
    """The error says so at once, and the eviction goes on."""
    evictions = Evictions(does)
    with evictions.pool:
        first, second = evictions.replaced()
        assert evictions.seen == ["evicting"]
        assert (first.is_open, second.is_open) == (False, True)


def test_the_same_holds_where_the_idle_time_is_over() -> None:
    """On the thread that watches, where nobody makes room."""
    done, given = threading.Event(), list[object]()

    def on_evict(sandbox: Sandbox, key: str, tenant: str | None) -> None:
        del tenant
        given.append(pool.get(key) is sandbox)
        with pytest.raises(SandboxError) as refused:
            pool.close()
        given.append(refused.value.code)
        done.set()

    with SandboxPool(prewarm=0, idle_timeout_s=0.05, on_evict=on_evict) as pool:
        pool.get("t1")
        assert done.wait(NET_S)
    assert given == [True, "evicting"]


def test_on_evict_may_close_the_sandbox(tmp_path: Path) -> None:
    """There is nothing left to keep then, and the room is free."""

    def close(sandbox: Sandbox, key: str, tenant: str | None) -> None:
        del key, tenant
        sandbox.close()

    with SandboxPool(
        max_sandboxes=1, prewarm=0, snapshots=tmp_path, on_evict=close
    ) as pool:
        pool.get("t1")
        assert pool.get("t2").is_open
        assert list(tmp_path.iterdir()) == []


def test_on_evict_may_open_another_conversation_of_another_pool() -> None:
    """Only what waits for it is refused."""
    with SandboxPool(prewarm=0) as other:
        evictions = Evictions(lambda _, __, key: other.get(key).is_open)
        with evictions.pool:
            evictions.replaced()
        assert evictions.seen == [True]
