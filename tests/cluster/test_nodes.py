"""Nodes that die, that differ, and clusters that are not there."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kern_tools import (
    ExecutionResult,
    HostError,
    OutputEvent,
    ResultEvent,
    SandboxError,
)
from kern_tools.cluster import ClusterError, ClusterPool, NodeLost
from kern_tools.contract_view import NAMED, named_processes
from kern_tools.sandbox import Sandbox
from kern_tools.tools import tools_of
from tests.hosts import wait_until

from .nodes import Nodes
from .test_pool import pool_of

GOES_ON = f"{NAMED}print('on', flush=True)\nwhile True: pass"


def on_a_node_of_its_own(
    nodes: Nodes, name: str, **options: Any
) -> tuple[Any, dict[str, Any]]:
    """Start a node that alone has a resource; give it, and what a sandbox takes."""
    return nodes.add({name: 2}, **options), {"resources": {name: 1}}


# nodes that die


def by_run(sandbox: Sandbox, began: Callable[[], object]) -> ExecutionResult:
    """Make a call that is listened to."""
    return sandbox.run_code(GOES_ON, on_stdout=lambda _: began())


def by_silent_run(sandbox: Sandbox, began: Callable[[], object]) -> ExecutionResult:
    """Make a call that nobody listens to."""
    _tell_when_it_runs(began)
    return sandbox.run_code(GOES_ON)


def by_arun(sandbox: Sandbox, began: Callable[[], object]) -> ExecutionResult:
    """Make an async call."""
    _tell_when_it_runs(began)
    return asyncio.run(sandbox.arun_code(GOES_ON))


def by_stream(sandbox: Sandbox, began: Callable[[], object]) -> ExecutionResult:
    """Read a call's events."""
    for event in sandbox.stream_code(GOES_ON):
        if isinstance(event, OutputEvent):
            began()
        else:
            return event.result
    raise AssertionError("no result")


def by_async_stream(sandbox: Sandbox, began: Callable[[], object]) -> ExecutionResult:
    """Read them on an event loop."""

    async def read() -> ExecutionResult:
        async for event in sandbox.stream_code(GOES_ON):
            if isinstance(event, ResultEvent):
                return event.result
            began()
        raise AssertionError("no result")

    return asyncio.run(read())


WAYS = (by_run, by_silent_run, by_arun, by_stream, by_async_stream)


def _tell_when_it_runs(began: Callable[[], object]) -> None:
    def look() -> None:
        while len(named_processes()) < 2:  # one of each call without a listener
            time.sleep(0.01)
        began()

    threading.Thread(target=look, daemon=True).start()


def test_a_node_that_dies_ends_its_calls_and_the_conversation_goes_on(
    nodes: Nodes, tmp_path: Path
) -> None:
    """Each call, however it is made, is `killed`; files of the snapshot are back."""
    node, options = on_a_node_of_its_own(nodes, "first")
    running = threading.Barrier(len(WAYS) + 1)
    with (
        pool_of(nodes, **options, snapshots=tmp_path, snapshot_every_s=0.1) as pool,
        ThreadPoolExecutor(len(WAYS)) as threads,
    ):
        sandbox = pool.get("t1")
        sandbox.write_file("kept.txt", "kept")
        wait_until(lambda: any(tmp_path.iterdir()))
        calls = [threads.submit(way, sandbox, running.wait) for way in WAYS]
        running.wait(60)
        nodes.kill(node)
        other, _ = on_a_node_of_its_own(nodes, "first")
        for call in calls:
            assert_lost(call.result(60))
        assert named_processes() == []
        assert not sandbox.is_open
        with pytest.raises(NodeLost):
            sandbox.run_code("1")
        again = pool.get("t1").run_code("print(open('kept.txt').read())")
        assert (again.stdout, again.state_new) == ("kept\n", True)
        assert not again.files_lost
        assert not pool.get("t1").run_code("1").state_new
    nodes.kill(other)


def assert_lost(result: ExecutionResult) -> None:
    """The call was ended by the loss of its node, and is not worth a retry as it is."""
    fault = result.fault
    assert fault is not None
    assert (fault.type, fault.reason) == ("killed", "node_lost")
    assert (fault.actor, fault.retryable) == ("operator", False)


def test_a_tool_answers_whatever_becomes_of_the_node(nodes: Nodes) -> None:
    """The model reads of the loss; without a snapshot the next result says so."""
    node, options = on_a_node_of_its_own(nodes, "second")
    with pool_of(nodes, **options) as pool, ThreadPoolExecutor(1) as threads:
        run_code, write_file = tools_of(pool, ["run_code", "write_file"])
        began = threading.Event()
        call = threads.submit(
            run_code.call,
            {"code": GOES_ON},
            conversation="t1",
            on_output=lambda _: began.set(),
        )
        began.wait(60)
        nodes.kill(node)
        assert call.result(60).fault_type == "killed"
        other, _ = on_a_node_of_its_own(nodes, "second")
        reply = run_code.call({"code": "print(1)"}, conversation="t1")
        assert reply.result is not None
        assert (reply.result.stdout, reply.result.files_lost) == ("1\n", True)
        # One that dies between calls is noticed, and costs nobody an answer.
        nodes.kill(other)
        found = pool.peek("t1")
        wait_until(lambda: found is None or not found.is_open)
        another, _ = on_a_node_of_its_own(nodes, "second")
        wrote = {"path": "a.txt", "content": "1"}
        assert write_file.call(wrote, conversation="t1").error is None
    nodes.kill(another)


# nodes that differ

OLDER = """
import sys
from importlib.metadata import DistributionFinder, PathDistribution
from pathlib import Path

class Finder(DistributionFinder):
    def find_spec(self, *args):
        return None
    def find_distributions(self, context):
        if context.name == "kern-tools":
            yield PathDistribution(Path(__file__).parent / "kern_tools-9.9.9.dist-info")

sys.meta_path.insert(0, Finder())
"""


@pytest.fixture(scope="module")
def fine(nodes: Nodes) -> Iterator[ClusterPool]:
    """A pool with a sandbox on the one node that has room for it."""
    node, options = on_a_node_of_its_own(nodes, "alike")
    with pool_of(nodes, **options) as pool, pool.lease("t1") as sandbox:
        assert sandbox.run_code("print(1)").stdout == "1\n"
        with pool.lease("t2"):
            yield pool
    nodes.kill(node)


def test_another_version_of_the_package_is_refused(
    nodes: Nodes, fine: ClusterPool, tmp_path: Path
) -> None:
    """The message names the node and both versions."""
    about = tmp_path / "kern_tools-9.9.9.dist-info"
    about.mkdir()
    said = "Metadata-Version: 2.1\nName: kern-tools\nVersion: 9.9.9\n"
    (about / "METADATA").write_text(said)
    (tmp_path / "sitecustomize.py").write_text(OLDER)
    refused = refusal(nodes, fine, {"PYTHONPATH": str(tmp_path)})
    assert isinstance(refused, ClusterError)
    assert refused.code == "version_mismatch"
    assert "'9.9.9'" in str(refused)
    assert "'0.1.0'" in str(refused)
    assert refused.fault is not None


def test_another_kern_is_refused(
    nodes: Nodes, fine: ClusterPool, tmp_path: Path
) -> None:
    """It is compared with the nodes that were seen before."""
    kern = tmp_path / "kern"
    kern.write_text("#!/bin/sh\necho kern 0.1.2\n")
    kern.chmod(0o755)
    refused = refusal(nodes, fine, {"KERN_BIN": str(kern)})
    assert isinstance(refused, ClusterError)
    assert refused.code == "version_mismatch"
    assert "kern '0.1.2'" in str(refused)


def test_a_node_without_kern_says_so(nodes: Nodes, fine: ClusterPool) -> None:
    """The error is the one that a sandbox there would raise."""
    refused = refusal(nodes, fine, {"KERN_BIN": "/no/such/kern"})
    assert isinstance(refused, HostError)
    assert refused.code == "no_kern"


def refusal(nodes: Nodes, fine: ClusterPool, env: dict[str, str]) -> SandboxError:
    """Give the error for the one node with room, whose environment is another."""
    other, _ = on_a_node_of_its_own(nodes, "alike", env_vars=env)
    try:
        with pytest.raises(SandboxError) as refused:
            fine.get("t3")
        with pytest.raises(type(refused.value)):
            fine.check()
    finally:
        nodes.kill(other)
    assert fine.get("t1").run_code("print(2)").stdout == "2\n"
    return refused.value


# clusters that are not there


@pytest.mark.parametrize("address", ["127.0.0.1:1", "localhost:9"])
def test_an_unreachable_cluster_is_told_at_once(address: str) -> None:
    """Ray itself would try for minutes; run apart, as this process is connected."""
    done = apart(UNREACHABLE.format(address=address))
    assert done.stdout == "unreachable startup_failed\n", done.stderr


def test_a_head_that_dies_ends_no_process_and_hangs_no_call() -> None:
    """Calls are answered, what needs the head is refused, and the pool is closed."""
    done = apart(DEAD_HEAD)
    assert done.stdout.splitlines() == [
        "1",
        "unreachable",
        "answered",
        "closed",
    ], done.stderr[-2000:]


UNREACHABLE = """
from kern_tools.cluster import ClusterError, ClusterPool
try:
    ClusterPool(address={address!r})
except ClusterError as error:
    print(error.code, error.fault.type)
"""

DEAD_HEAD = """
from ray.cluster_utils import Cluster
from kern_tools.cluster import ClusterError, ClusterPool
from kern_tools.faults import SandboxError
cluster = Cluster(initialize_head=True, head_node_args={
    "num_cpus": 1, "resources": {"kern": 2}, "include_dashboard": False,
    "object_store_memory": 80 << 20})
with ClusterPool(address=cluster.address, resources={"kern": 1}, prewarm=0) as pool:
    sandbox = pool.get("t1")
    print(sandbox.run_code("print(1)").stdout, end="", flush=True)
    cluster.head_node.kill_gcs_server()
    try:
        pool.get("t2")
    except ClusterError as error:
        print(error.code, flush=True)
    result = sandbox.run_code("print(2)")
    fault = result.fault
    print("answered" if fault is None or fault.type == "killed" else result, flush=True)
print("closed", flush=True)
import os
cluster.head_node.kill_all_processes(check_alive=False)
"""


def apart(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program of its own, which has to end by itself."""
    env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        env=env,
        timeout=110,
    )
