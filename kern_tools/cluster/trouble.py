"""What can go wrong with a cluster, typed; and how Ray's own errors become that."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from kern_tools.faults import (
    FaultType,
    SandboxClosed,
    SandboxError,
    SandboxFault,
    startup_fault,
)
from kern_tools.result import ExecutionResult

_T = TypeVar("_T")
KILLED = 137
"""The exit code of what was killed."""


class ClusterError(SandboxError):
    """The cluster cannot do what was asked.

    `code` is `unreachable` (no cluster there, its head is gone, or a node takes no
    calls), `no_node` (no node has what a sandbox needs), `slow_start`, `no_port`,
    `version_mismatch`, `bad_node` (the package cannot be used there), or `node_lost`.
    """

    code = "cluster"

    def __init__(self, message: str, *, code: str) -> None:
        fault = startup_fault(code, message, retryable=code in _PASSING)
        super().__init__(message, code=code, fault=fault)


_PASSING = {"unreachable", "slow_start", "node_lost"}


class NodeLost(SandboxClosed):
    """The sandbox is gone with the node, or the process, that it ran on.

    Its pool gives the conversation a new one, with the files of its last snapshot.
    """

    code = "node_lost"

    def __init__(self, what: str) -> None:
        message = f"the sandbox is gone: {what}"
        fault = startup_fault("node_lost", message, retryable=True)
        remedy = "ask the pool for the conversation's sandbox again"
        super().__init__(f"{message}; {remedy}", fault=fault)


def lost_result(call_id: str | None, what: str) -> ExecutionResult:
    """Give the result of a call that was under way when its node was lost."""
    fault = SandboxFault(
        type=FaultType.KILLED,
        reason="node_lost",
        message=f"the call may have run in part: {what}",
        actor="operator",
    )
    return ExecutionResult(
        fault=fault, exit_code=KILLED, call_id=call_id, state_lost=True
    )


def bounded(ask: Callable[[], _T], timeout_s: float, where: str) -> _T:
    """Ask what waits for the cluster's head, which may be gone, for a bounded time.

    Args:
        ask: What to do, on a thread that is left behind where it does not come back.
        timeout_s: How long to wait.
        where: The cluster's address, for the error.

    Raises:
        ClusterError: `unreachable`.
    """
    answer: Future[_T] = Future()
    aside(lambda: _answer(answer, ask))
    try:
        return answer.result(timeout_s)
    except TimeoutError:
        raise unreachable(
            where, f"its head has not answered for {timeout_s:g} s"
        ) from None


def aside(do: Callable[[], object]) -> None:
    """Have something done that nobody waits for, and that may never return."""
    threading.Thread(target=do, name="kern-tools-cluster", daemon=True).start()


def unreachable(where: str, why: str) -> ClusterError:
    """Make the error for a cluster that does not answer."""
    remedy = "check the address, and that `ray start --head` runs there"
    message = f"the Ray cluster at {where!r} cannot be reached: {why}; {remedy}"
    return ClusterError(message, code="unreachable")


def closed_port(node: str, why: str) -> ClusterError:
    """Make the error for a node whose port for calls cannot be reached."""
    remedy = "let the hosts reach each other there; call_ports=... says at which ports"
    message = f"node {node!r} takes no calls at {why}; {remedy}"
    return ClusterError(message, code="unreachable")


def _answer(answer: Future[_T], ask: Callable[[], _T]) -> None:
    try:
        answer.set_result(ask())
    except BaseException as error:
        answer.set_exception(error)
