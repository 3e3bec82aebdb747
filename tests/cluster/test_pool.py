"""Conversations whose sandboxes run on the nodes of a cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kern_tools import (
    ConfigError,
    OutputEvent,
    PoolFull,
    ResultEvent,
    SandboxClosed,
    SandboxError,
)
from kern_tools.adapters import langchain, llama_index, openai
from kern_tools.cluster import ClusterError, ClusterPool
from kern_tools.contract_view import NAMED, named_processes
from kern_tools.host import host_report
from kern_tools.sandbox import Sandbox
from kern_tools.testing import Adapter
from tests.adapters.test_same_words_in_pools import (
    ContextCaller,
    ConversationCaller,
    ThreadCaller,
)

from .nodes import ROOM, SLOTS, Nodes

GOES_ON = f"{NAMED}print('on', flush=True)\nwhile True: pass"


def pool_of(nodes: Nodes, **options: Any) -> ClusterPool:
    """Make a pool whose sandboxes cost little."""
    settings: dict[str, Any] = {
        "address": nodes.address,
        "resources": {"kern": 1},
        "prewarm": 0,
        "timeout_s": 60,
    }
    return ClusterPool(**{**settings, **options})


@pytest.fixture(scope="module")
def pool(nodes: Nodes) -> Iterator[ClusterPool]:
    """One for the tests that need nothing of their own."""
    with pool_of(nodes) as pool:
        yield pool


@pytest.fixture(scope="module")
def sandbox(pool: ClusterPool) -> Sandbox:
    """One that stays, for calls that leave nothing."""
    return pool.get("stays")


# the same interface


def test_a_conversation_keeps_its_files(pool: ClusterPool, tmp_path: Path) -> None:
    """Calls, files, listings and exports reach the node that has the sandbox."""
    with pool.lease("t1") as sandbox:
        sandbox.write_file("in/a.txt", "1")
        result = sandbox.run_code("open('b', 'w').write(open('in/a.txt').read() * 2);")
        assert [file.path for file in result.files] == ["b"]
        assert sandbox.read_file("b") == b"11"
        assert [f.path for f in sandbox.list_files()] == ["b", "in/a.txt"]
        assert [copy.name for copy in sandbox.export(tmp_path)] == ["b", "a.txt"]
    assert pool.get("t1") is sandbox
    assert pool.drop("t1")
    assert not sandbox.is_open


async def test_the_async_way_is_the_same(pool: ClusterPool) -> None:
    """Natively, and off the event loop while the sandbox is opened."""
    async with pool.lease("t2") as sandbox:
        seen: list[str] = []
        result = await sandbox.arun_code("print(6 * 7)", on_stdout=seen.append)
        assert (result.stdout, seen) == ("42\n", ["42\n"])
        events = [event async for event in sandbox.stream_code("print(1)")]
        assert isinstance(events[0], OutputEvent)
        assert isinstance(events[-1], ResultEvent)
    assert await pool.adrop("t2")


def test_a_file_larger_than_one_message_is_read_in_pages(sandbox: Sandbox) -> None:
    """And one that is larger than may be sent is refused before it is."""
    sandbox.run_code("open('big', 'wb').write(bytes(range(256)) * (1 << 16));")
    with sandbox.workspace.open_file("big") as file:
        assert file.seek(-3, os.SEEK_END) == (1 << 24) - 3
        assert file.read() == bytes([253, 254, 255])
        file.seek(6 << 20)
        assert file.read(4) == bytes([0, 1, 2, 3])
    assert len(sandbox.read_file("big")) == 1 << 24
    with pytest.raises(SandboxError) as refused:
        sandbox.write_file("huge", bytes((256 << 20) + 1))
    assert refused.value.code == "too_large"


def test_an_error_of_the_node_is_the_same_error_here(sandbox: Sandbox) -> None:
    """With its class, its code, and what it carries beside its text."""
    with pytest.raises(SandboxError) as refused:
        sandbox.read_file("nowhere")
    assert (refused.value.code, getattr(refused.value, "path")) == (  # noqa: B009
        "not_found",
        "nowhere",
    )
    with pytest.raises(ConfigError) as misused:
        sandbox.run_code("1", timeout_s=-1)
    assert misused.value.option == "timeout_s"


def test_the_facts_are_those_of_the_nodes(pool: ClusterPool, sandbox: Sandbox) -> None:
    """Also before a sandbox is open, so that tools can be described."""
    assert pool.describe() == sandbox.describe()
    assert "/workspace" in pool.system_prompt()
    assert {node.kern_tools for node in pool.check()} == {"0.1.0"}
    assert len(pool.check()) == 2


# cancelling


@pytest.mark.parametrize("is_heard", [True, False])
async def test_a_cancellation_reaches_the_box_on_its_node(
    sandbox: Sandbox, is_heard: bool
) -> None:
    """Its processes are gone before the caller hears of it."""
    heard = _unheard if is_heard else None
    task = asyncio.create_task(sandbox.arun_code(GOES_ON, on_stdout=heard))
    while not await asyncio.to_thread(named_processes):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert named_processes() == []


def _unheard(_: str) -> None:
    """Let it go by."""


async def test_a_call_cancelled_at_once_never_runs(sandbox: Sandbox) -> None:
    """Also where the cancellation overtakes the call on its way."""
    for _ in range(5):
        task = asyncio.create_task(sandbox.arun_code("open('late', 'w')"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert "late" not in [file.path for file in sandbox.list_files()]


def test_ctrl_c_reaches_the_box_on_its_node(sandbox: Sandbox) -> None:
    """The wait is interrupted at once, and goes on once the box is gone."""

    def interrupt() -> None:
        while not named_processes():
            pass
        os.kill(os.getpid(), signal.SIGINT)

    killer = threading.Thread(target=interrupt)
    killer.start()
    with pytest.raises(KeyboardInterrupt):
        sandbox.run_code(GOES_ON)
    killer.join()
    assert named_processes() == []
    assert sandbox.run_code("print(7)").stdout == "7\n"


# room


def test_a_full_cluster_says_so_with_its_numbers(nodes: Nodes) -> None:
    """Whoever finds no slot in time is refused; nothing waits for ever."""
    scarce = {"room": 1}
    with pool_of(nodes, resources=scarce, slot_timeout_s=5, max_waiting=1) as pool:
        taken = ROOM * 2
        with ExitStack() as held, ThreadPoolExecutor(2) as threads:
            opened = [held.enter_context(pool.lease(f"t{n}")) for n in range(taken)]
            waiting = threads.submit(pool.get, "waits")
            while len(pool) == taken:
                pass
            too = threads.submit(pool.get, "waits")  # one wait, whoever asks for it
            with pytest.raises(PoolFull) as many:
                pool.get("one too many")
            assert many.value.code == "too_many_waiting"
            full = waiting.exception()
            assert isinstance(too.exception(), PoolFull)
        assert isinstance(full, PoolFull)
        assert full.code == "cluster_full"
        assert f"all {taken} slots of 2 nodes" in str(full)
        assert full.fault is not None
        assert full.fault.retryable
        # An unused sandbox makes room.
        assert pool.get("waits").run_code("print(1)").stdout == "1\n"
        assert sum(sandbox.is_open for sandbox in opened) == taken - 1


def test_a_sandbox_that_no_node_can_hold_is_refused(nodes: Nodes) -> None:
    """The message says what the nodes have."""
    wanted = {"kern": 1, "gpu_of_a_kind": 1}
    with pool_of(nodes, resources=wanted, slot_timeout_s=1) as pool:
        for ask in (lambda: pool.get("t1"), pool.describe, pool.check):
            with pytest.raises(ClusterError) as refused:
                ask()
            assert refused.value.code == "no_node"
        assert refused.value.fault is not None


def test_an_opening_is_cut_short(nodes: Nodes) -> None:
    """Closing the pool ends the wait for a slot."""
    pool = pool_of(nodes, resources={"kern": SLOTS + 1}, slot_timeout_s=600)
    with ThreadPoolExecutor(1) as threads:
        opening = threads.submit(pool.get, "t1")
        while len(pool) == 0:
            pass
        pool.close()
        assert isinstance(opening.exception(), SandboxClosed)


# bad input


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"resources": {}}, "resources"),
        ({"resources": {"CPU": 0}}, "resources['CPU']"),
        ({"slot_timeout_s": 0}, "slot_timeout_s"),
        ({"snapshot_every_s": 5}, "snapshot_every_s"),
        ({"workspace": "/tmp/shared"}, "workspace"),
    ],
    ids=str,
)
def test_options_that_cannot_be_used_are_refused(
    nodes: Nodes, options: dict[str, Any], option: str
) -> None:
    """Before anything is connected to."""
    with pytest.raises(ConfigError) as refused:
        pool_of(nodes, **options)
    assert refused.value.option == option.partition("[")[0]


def test_caps_that_do_not_bind_on_the_node_are_refused(nodes: Nodes) -> None:
    """What the node says is what the caller is told, fault and all."""
    with pool_of(nodes, require_limits=True) as pool:
        if host_report().limits_enforced:
            assert pool.get("t1").run_code("1").limits_enforced
            return
        with pytest.raises(SandboxError) as refused:
            pool.get("t1")
        assert refused.value.fault is not None
        assert (refused.value.fault.type, refused.value.fault.reason) == (
            "startup_failed",
            "limits",
        )


# snapshots


def test_a_snapshot_goes_from_the_node_to_its_store(
    nodes: Nodes, tmp_path: Path
) -> None:
    """By URL it is the node that writes; the next sandbox finds it."""
    store = f"simplecache::file://{tmp_path}"
    with pool_of(nodes, snapshots=store) as pool:
        pool.get("t1").write_file("a.txt", "kept")
    assert any(tmp_path.iterdir())
    with pool_of(nodes, snapshots=store) as pool:
        result = pool.get("t1").run_code("print(open('a.txt').read())")
        assert (result.stdout, result.state_new) == ("kept\n", True)
        assert pool.drop("t1")
    assert not any(tmp_path.iterdir())


def test_a_store_that_refuses_is_told(nodes: Nodes) -> None:
    """What cannot be saved there cannot be looked for: there is no sandbox."""
    pool = pool_of(nodes, snapshots="nosuch://bucket")
    with pool, pytest.raises(SandboxError) as refused:
        pool.get("t1")
    assert refused.value.code == "bad_location"
    assert refused.value.fault is not None
    assert refused.value.fault.type == "startup_failed"


def test_a_store_that_fails_later_is_told(nodes: Nodes) -> None:
    """Whoever closes the pool hears of it, and all is closed."""
    pool = pool_of(nodes, snapshots="/proc/nowhere")
    sandbox = pool.get("t1")
    with pytest.raises(SandboxError) as refused:
        pool.close()
    assert refused.value.code == "snapshot"
    assert not sandbox.is_open


# adapters


def in_langchain(pool: ClusterPool) -> Adapter:
    """By `thread_id`."""
    return ThreadCaller({tool.name: tool for tool in langchain.as_tools(pool)})


def in_llama_index(pool: ClusterPool) -> Adapter:
    """By `Context`."""
    tools = llama_index.as_tools(pool)
    return ContextCaller({tool.metadata.get_name(): tool for tool in tools})


def in_openai(pool: ClusterPool) -> Adapter:
    """By `conversation=`."""
    return ConversationCaller(openai.as_tools(pool))


@pytest.mark.parametrize("framework", [in_langchain, in_llama_index, in_openai])
async def test_an_adapter_takes_a_cluster_as_any_pool(
    pool: ClusterPool, framework: Callable[[ClusterPool], Adapter]
) -> None:
    """A conversation of the framework has its sandbox on a node."""
    adapter = framework(pool)
    said = adapter.call("run_code", {"code": "print(6 * 7)"})
    assert "42" in said.text
    said = await adapter.acall("write_file", {"path": "a.txt", "content": "1"})
    assert said.artifact.get("error") is None
    said = await adapter.acall("run_code", {"code": "print(open('a.txt').read() * 3)"})
    assert "111" in said.text
