"""An MCP server whose calls are bounded by a policy."""

# The SDK of the other releases has other names; what it read is looked at as JSON.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import pytest

from kern_tools import FaultPolicy, Sandbox, SandboxPool, StopReason
from kern_tools.adapters.mcp import STOP, as_server, result_of, stop_of, watches
from tests.lending import Lender, held_up
from tests.standstill import Standstill

from .mcp_clients import connected, dumped, over_http, served

POLICY = FaultPolicy(max_repeats=1, max_host_failures=2, retry_pause_s=0)
FAILS = {"code": "open('runs', 'a').write('.')\n1/0"}


def runs(sandbox: Sandbox) -> int:
    """Count how often the cell ran."""
    return len(sandbox.read_file("runs"))


async def calls(session: Any, count: int, arguments: Any = FAILS) -> list[Any]:
    """Make calls one after the other; give the SDK's own answers."""
    return [await session.call_tool("run_code", arguments) for _ in range(count)]


async def test_a_client_that_repeats_itself_is_told_so_and_refused_once(
    sandbox: Sandbox,
) -> None:
    """Only the client can end a loop, so that the server counts anew after that."""
    server = as_server(sandbox, policy=POLICY)
    async with connected(server) as session:
        answers = await calls(session, 5)
    stops = [stop_of(answer) for answer in answers]
    assert [stop is not None for stop in stops] == [False, True, True, False, True]
    assert stops[1] is not None
    assert (stops[1].reason, stops[1].count) == (StopReason.REPEATED, 2)
    assert runs(sandbox) == 4
    plain = [dumped(answer) for answer in answers]
    assert plain[1]["content"][0]["text"].startswith("exit 1 again")
    assert plain[1]["structuredContent"]["repeats"] == 1
    refused = plain[2]
    assert refused["isError"]
    assert refused["content"][0]["text"].startswith("not run: this loop has ended.")
    assert refused["structuredContent"]["error"] == "stopped"
    assert refused["_meta"][STOP]["reason"] == "repeated"
    assert stop_of(refused) == stops[1]


async def test_the_reason_stands_beside_an_unstructured_result(
    sandbox: Sandbox,
) -> None:
    """Both are in `_meta` then."""
    server = as_server(sandbox, policy=POLICY, structured=False)
    async with connected(server) as session:
        *_, last = await calls(session, 2)
    result = result_of(last)
    assert result is not None
    assert result.repeats == 1
    assert stop_of(last) is not None


async def test_each_connection_counts_for_itself(sandbox: Sandbox) -> None:
    """What one client sends is no repeat of another's call."""
    server = as_server(sandbox, policy=POLICY)
    async with connected(server) as one, connected(server) as other:
        answers = [*await calls(one, 1), *await calls(other, 1)]
    assert [stop_of(answer) for answer in answers] == [None, None]


async def test_a_conversation_is_what_the_developer_says(pool: SandboxPool) -> None:
    """With the tenant, whose ids may be another's too; one without an id has none."""
    whose = ["ann", "bob", "bob", "ann"]
    now: list[str] = []

    def conversation(_: object) -> str:
        now[:] = [whose.pop(0)]
        return "c1"

    server = as_server(
        pool, policy=POLICY, conversation=conversation, tenant=lambda _: now[0]
    )
    async with connected(server) as session:
        answers = await calls(session, 4)
    stops = [stop_of(answer) is not None for answer in answers]
    assert stops == [False, False, True, True]


async def test_of_too_many_conversations_the_longest_silent_is_forgotten(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts anew, and the others go on counting."""
    monkeypatch.setattr(watches, "KEPT", 2)
    whose = iter(["ann", "bob", "bob", "ann", "cid", "ann", "bob"])
    server = as_server(
        sandbox,
        policy=FaultPolicy(max_repeats=2),
        conversation=lambda _: next(whose),
    )
    async with connected(server) as session:
        answers = await calls(session, 7)
    stops = [stop_of(answer) is not None for answer in answers]
    assert stops == [False, False, False, False, False, True, False]


@pytest.mark.parametrize("names", ["no key", "nobody"])
async def test_a_call_whose_tenant_nobody_tells_counts_for_nobody(
    pool: SandboxPool, names: str
) -> None:
    """Nothing runs and each reply says why; no host is broken, so no circuit opens."""
    known = {"nobody": None}

    def tenant(_: object) -> str | None:
        return known[names]

    server = as_server(pool, policy=POLICY, conversation=lambda _: "c1", tenant=tenant)
    async with connected(server) as session:
        answers = await calls(session, 3)
    faults = [dumped(answer)["structuredContent"]["fault"] for answer in answers]
    assert [fault["reason"] for fault in faults] == ["tenant"] * 3
    assert [stop_of(answer) for answer in answers] == [None] * 3
    assert len(pool) == 0


async def test_over_http_nobody_counts_for_another(sandbox: Sandbox) -> None:
    """Where clients cannot be told apart, no call is a repeat."""
    server = as_server(sandbox, policy=POLICY)
    async with served(server) as url, over_http(url) as session:
        answers = await calls(session, 3)
    assert [stop_of(answer) for answer in answers] == [None] * 3
    assert runs(sandbox) == 3


async def test_a_broken_host_opens_the_circuit(broken: Sandbox) -> None:
    """And closes it again after one refusal: the host may have been mended."""
    server = as_server(broken, policy=POLICY)
    async with connected(server) as session:
        answers = [
            (await calls(session, 1, {"code": str(number)}))[0] for number in range(4)
        ]
    stops = [stop_of(answer) for answer in answers]
    assert stops[1] is not None
    assert stops[1].reason == StopReason.HOST
    ran = [result_of(answer) is not None for answer in answers]
    assert ran == [True, True, False, True]


async def test_a_call_of_which_nothing_ran_is_made_once_more(
    standstill: Standstill,
) -> None:
    """The client sees one answer, of the second attempt."""
    with Sandbox(timeout_s=2, prewarm=0) as sandbox:
        source = Lender(sandbox, mended_at=2)
        source.broken.enter_context(held_up(sandbox, standstill))
        async with connected(as_server(source, policy=POLICY)) as session:
            (answer,) = await calls(session, 1, {"code": "print(7)"})
    result = result_of(answer)
    assert result is not None
    assert (result.stdout, result.attempts, source.calls) == ("7\n", 2, 2)
