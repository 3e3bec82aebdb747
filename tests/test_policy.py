"""What a policy does about failed calls, and when it ends a loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kern_tools import (
    ConfigError,
    ExecutionResult,
    FaultPolicy,
    FaultType,
    Sandbox,
    SandboxClosed,
    SandboxFault,
    Stop,
    StopReason,
    ledger,
)
from kern_tools.ledger import Ledger, Outcome
from kern_tools.policy import check_policy
from kern_tools.reply import Reply
from kern_tools.tools import Tool, tools_of
from kern_tools.turn import Call, arun_turn, run_turn
from kern_tools.watch import FaultWatch

from .lending import Lender, held_up
from .standstill import Standstill

PROMPT = FaultPolicy(retry_pause_s=0)
FAILS = {"code": "print(open('data.txt').read())"}
BLOCKED = {
    "code": "import ctypes\nctypes.CDLL(None).mount(b'n', b'/tmp', b'tmpfs', 0, 0)"
}


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A sandbox whose calls may take long."""
    with Sandbox(timeout_s=20) as sandbox:
        yield sandbox


@pytest.fixture
def standstill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Standstill:
    """Give a way to hold up the boxes of one test."""
    return Standstill(monkeypatch, tmp_path)


def tool(sandbox: Sandbox | Lender, name: str = "run_code") -> Tool:
    """Pick one tool."""
    (found,) = tools_of(sandbox, name)
    return found


def ran(reply: Reply) -> ExecutionResult:
    """Take the result of a call that has one."""
    assert reply.result is not None
    return reply.result


def head(reply: Reply) -> str:
    """Give the reply's first line."""
    return reply.text.partition("\n")[0]


def is_new(reply: Reply, verdict: str) -> bool:
    """Say whether a reply begins with its verdict, and names no call of before."""
    first = head(reply)
    return first.startswith(verdict) and " again" not in first


async def asked(watch: FaultWatch, tool: Tool, arguments: object, way: str) -> Reply:
    """Call one of the two ways."""
    if way == "async":
        return await watch.acall(tool, arguments)
    return await asyncio.to_thread(watch.call, tool, arguments)


both_ways = pytest.mark.parametrize("way", ["sync", "async"])


# attempts


@both_ways
async def test_a_call_of_which_nothing_ran_is_made_once_more(
    standstill: Standstill, way: str
) -> None:
    """The second attempt is the result, which counts both, and the model is told."""
    with Sandbox(timeout_s=2, prewarm=0) as sandbox:
        source = Lender(sandbox, mended_at=2)
        source.broken.enter_context(held_up(sandbox, standstill))
        reply = await asked(PROMPT.start(), tool(source), {"code": "print(7)"}, way)
    assert (ran(reply).stdout, ran(reply).attempts, source.calls) == ("7\n", 2, 2)
    assert reply.artifact["attempts"] == 2
    assert is_new(reply, "ok")
    assert "attempt 2" in reply.text


@both_ways
async def test_attempts_are_bounded(standstill: Standstill, way: str) -> None:
    """A fault that stays is the result, after as many attempts as the policy has."""
    policy = PROMPT.replace(retries=2, max_host_failures=None)
    with Sandbox(timeout_s=0.3, prewarm=0) as sandbox, held_up(sandbox, standstill):
        source = Lender(sandbox)
        reply = await asked(policy.start(), tool(source), {"code": "print(7)"}, way)
    fault = ran(reply).fault
    assert fault is not None
    assert (fault.reason, ran(reply).attempts, source.calls) == ("slow_build", 3, 3)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"code": "import time; time.sleep(60)", "timeout_s": 3}, "timeout"),
        (BLOCKED, "escape_blocked"),
        ({"code": "open('big', 'wb').write(bytes(1 << 22))"}, "workspace_full"),
        ({"code": "1/0"}, None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_ran_is_never_made_again_unasked(
    arguments: dict[str, Any], fault: str | None
) -> None:
    """The same code would end the same way, or do twice what it did."""
    with Sandbox(workspace_max_bytes=1 << 20) as sandbox:
        source = Lender(sandbox)
        reply = PROMPT.start().call(tool(source), arguments)
    assert (reply.fault_type, source.calls) == (fault, 1)
    assert (ran(reply).attempts, ran(reply).success) == (1, False)


# the circuit breaker


@both_ways
async def test_a_broken_host_ends_the_loop(tmp_path: Path, way: str) -> None:
    """The message is for who runs the host; no further call reaches a box."""
    gone = tmp_path / "data"
    gone.mkdir()
    watch = PROMPT.start()
    with Sandbox(mounts={str(gone): "/data"}, prewarm=0) as sandbox:
        gone.rmdir()
        source = Lender(sandbox)
        codes = ("print(1)", "print(2)", "print(3)")
        first, second, third = [
            await asked(watch, tool(source), {"code": code}, way) for code in codes
        ]
    assert [first.fault_type, second.fault_type] == ["startup_failed"] * 2
    assert watch.stopped is not None
    assert (watch.stopped.reason, watch.stopped.count) == (StopReason.HOST, 2)
    assert str(gone) in watch.stopped.message
    assert watch.stopped.fault == ran(second).fault
    assert (third.error, third.is_error, third.result) == ("stopped", True, None)
    assert third.artifact == {"fault": None, "error": "stopped", "tool": "run_code"}
    assert str(gone) in third.text
    assert source.calls == 2


def test_a_call_that_runs_closes_the_circuit(standstill: Standstill) -> None:
    """Only failures in a row open it; a file written without a box is no sign."""
    policy = PROMPT.replace(retries=0, max_repeats=None)
    watch = policy.start()
    with Sandbox(timeout_s=2, prewarm=0) as sandbox:
        run = tool(sandbox)

        def held() -> Reply:
            with held_up(sandbox, standstill):
                return watch.call(run, {"code": "print(1)", "timeout_s": 0.3})

        held()
        assert watch.call(run, {"code": "1/0"}).fault_type is None
        held()
        assert watch.stopped is None
        watch.call(tool(sandbox, "write_file"), {"path": "a", "content": "b"})
        held()
    assert watch.stopped is not None
    assert watch.stopped.reason == "host"


def test_the_same_call_on_a_broken_host_is_no_repeat(standstill: Standstill) -> None:
    """The code is not to blame, and the model is not told off."""
    policy = PROMPT.replace(retries=0, max_host_failures=None)
    watch = policy.start()
    with Sandbox(timeout_s=0.3, prewarm=0) as sandbox, held_up(sandbox, standstill):
        replies = [watch.call(tool(sandbox), {"code": "1"}) for _ in range(3)]
    assert [ran(reply).repeats for reply in replies] == [0, 0, 0]
    assert {head(reply).partition(".")[0] for reply in replies} == {
        "fault: startup_failed"
    }


# repeats


@both_ways
async def test_a_failed_call_sent_again_is_answered_as_such(
    sandbox: Sandbox, way: str
) -> None:
    """The reply says first that it is the same, then what a new one would say."""
    watch = PROMPT.start()
    replies = [await asked(watch, tool(sandbox), FAILS, way) for _ in range(3)]
    first, second, third = replies
    assert is_new(first, "exit 1")
    for times, reply in ((2, second), (3, third)):
        assert head(reply).startswith("exit 1 again: this is the same call as before")
        assert "in the same way" in head(reply)
        assert f"{times} times in a row" in head(reply)
        assert reply.text.split("\n", 2)[1].startswith("exit 1")
        assert "FileNotFoundError" in reply.text
    assert [ran(reply).repeats for reply in replies] == [0, 1, 2]
    assert [reply.artifact["repeats"] for reply in replies] == [0, 1, 2]
    assert watch.stopped is None


def test_repeats_end_the_loop(sandbox: Sandbox) -> None:
    """After a set number of them there is a reason to branch on and to read."""
    watch = PROMPT.replace(max_repeats=2).start()
    stops: list[Stop | None] = []
    for _ in range(3):
        watch.call(tool(sandbox), FAILS)
        stops.append(watch.stopped)
    *before, stop = stops
    assert before == [None, None]
    assert stop is not None
    assert (stop.reason, stop.count, stop.tool) == (StopReason.REPEATED, 3, "run_code")
    assert stop.fault is None
    assert "exit 1" in stop.message
    assert Stop.model_validate(json.loads(stop.model_dump_json())) == stop
    assert watch.call(tool(sandbox), {"code": "print(1)"}).error == "stopped"


def test_the_same_call_runs_again_since_what_it_met_may_have_changed(
    sandbox: Sandbox,
) -> None:
    """Where it works by now nothing is said of before."""
    watch = PROMPT.start()
    watch.call(tool(sandbox), FAILS)
    sandbox.write_file("data.txt", "42")
    reply = watch.call(tool(sandbox), FAILS)
    assert (ran(reply).stdout, ran(reply).repeats) == ("42\n", 0)
    assert is_new(reply, "ok")
    sandbox.workspace.root.joinpath("data.txt").unlink()
    assert is_new(watch.call(tool(sandbox), FAILS), "exit 1")


def test_reading_between_two_repeats_changes_nothing(sandbox: Sandbox) -> None:
    """A model that only looks is still in the same place."""
    watch = PROMPT.replace(max_repeats=2).start()
    replies: list[Reply] = []
    for _ in range(3):
        replies.append(watch.call(tool(sandbox), FAILS))
        watch.call(tool(sandbox, "list_files"), {})
    assert "3 times in a row" in head(replies[-1])
    assert watch.stopped is not None


def test_work_between_two_repeats_begins_a_new_row(sandbox: Sandbox) -> None:
    """Tests that are run after every edit may fail as often as they have to."""
    watch = PROMPT.replace(max_repeats=1).start()
    write = tool(sandbox, "write_file")
    test = {"code": "exec(open('t.py').read())"}
    replies: list[Reply] = []
    for number in range(3):
        content = f"raise SystemExit('{3 - number} tests fail')"
        watch.call(write, {"path": "t.py", "content": content})
        replies.append(watch.call(tool(sandbox), test))
    assert all(is_new(reply, "exit 1") for reply in replies)
    assert watch.stopped is None


def test_work_that_changed_nothing_of_the_failure_is_said(sandbox: Sandbox) -> None:
    """The very same failure after an edit is worth a word, but no step to the end."""
    watch = PROMPT.replace(max_repeats=1).start()
    replies: list[Reply] = []
    for number in range(3):
        watch.call(
            tool(sandbox, "write_file"), {"path": f"{number}.txt", "content": ""}
        )
        replies.append(watch.call(tool(sandbox), FAILS))
    _, *later = replies
    for reply in later:
        assert head(reply).startswith("exit 1 again: an earlier call was the same")
        assert ran(reply).repeats == 0
    assert watch.stopped is None


def test_work_done_twice_is_no_work(sandbox: Sandbox) -> None:
    """A model that writes the same file and fails on it goes in a circle."""
    watch = PROMPT.replace(max_repeats=2).start()
    write = {"path": "t.py", "content": "1/0"}
    for _ in range(3):
        assert watch.stopped is None
        watch.call(tool(sandbox, "write_file"), write)
        watch.call(tool(sandbox), {"code": "import t"})
    assert watch.stopped is not None


def test_two_failing_calls_in_turn_are_a_circle_too(sandbox: Sandbox) -> None:
    """Each of them is the same as one before, if not as the last."""
    watch = PROMPT.replace(max_repeats=2).start()
    for code in ("1/0", "[][0]") * 4:
        if watch.stopped is None:
            watch.call(tool(sandbox), {"code": code})
    assert watch.stopped is not None
    assert watch.stopped.reason == "repeated"


def test_another_failure_of_the_same_call_is_not_called_the_same(
    sandbox: Sandbox,
) -> None:
    """What the reply says of it is true."""
    watch = PROMPT.start()
    code = "import os, pathlib\nrun = pathlib.Path('n')\n"
    code += "n = len(run.read_text()) if run.exists() else 0\n"
    code += "run.write_text('x' * (n + 1))\nprint('run', n)\nexit(max(n, 1))"
    heads = [head(watch.call(tool(sandbox), {"code": code})) for _ in range(4)]
    assert "with other output" in heads[1]
    assert "after exit 1 before" in heads[2]
    assert heads[3].startswith("exit 3 again: ")


@pytest.mark.parametrize(
    ("name", "arguments", "verdict"),
    [
        ("run_code", {"cod": "print(1)"}, "bad arguments"),
        ("run_code", "{", "bad arguments"),
        ("read_file", {"path": "nowhere.txt"}, "not_found"),
        ("run_code", BLOCKED, "fault: escape_blocked"),
        ("run_code", {"code": "", "language": "node"}, "fault: exec_failed"),
    ],
    ids=["unknown key", "no JSON", "no file", "blocked", "no node"],
)
def test_every_kind_of_failure_can_be_a_repeat(
    name: str, arguments: object, verdict: str
) -> None:
    """Also where nothing ran, which code finds on the reply."""
    with Sandbox(prewarm=0) as sandbox:
        watch = PROMPT.start()
        first, second = (watch.call(tool(sandbox, name), arguments) for _ in range(2))
    assert not head(first).startswith(f"{verdict} again")
    assert head(second).startswith(f"{verdict} again: this is the same call as before")
    assert "in the same way" in head(second)
    assert (first.repeats, second.repeats) == (0, 1)
    assert second.artifact["repeats"] == 1


@pytest.mark.parametrize(
    "same",
    [
        {"code": "1/0", "language": None},
        '{"code": "1/0"}',
        "```python\n1/0\n```",
        {"code": "```python\n1/0\n```"},
    ],
    ids=["null", "JSON", "bare fence", "fence"],
)
def test_a_call_written_in_another_way_is_the_same(
    sandbox: Sandbox, same: object
) -> None:
    """What counts is what is run."""
    (run,) = tools_of(sandbox, "run_code", bare_code=True)
    watch = PROMPT.start()
    watch.call(run, {"code": "1/0"})
    assert watch.call(run, same).repeats == 1
    assert watch.call(run, {"code": "1/0", "timeout_s": 5.0}).repeats == 0


@pytest.mark.parametrize("run", [run_turn, arun_turn])
async def test_calls_of_one_turn_are_no_repeats_of_each_other(
    sandbox: Sandbox, run: Any
) -> None:
    """None of them had been answered when the others were sent."""
    watch = PROMPT.start()
    calls = [Call(tool(sandbox), FAILS, f"c{n}", watch=watch) for n in range(3)]
    replies = run_turn(calls) if run is run_turn else await arun_turn(calls)
    assert [ran(reply).repeats for reply in replies] == [0, 0, 0]
    (again,) = run_turn(calls[:1])
    assert (ran(again).repeats, again.call_id) == (1, "c0")


@pytest.mark.parametrize("run", [run_turn, arun_turn])
async def test_a_turn_of_a_closed_sandbox_raises(sandbox: Sandbox, run: Any) -> None:
    """As one call does, once nothing of the others is left."""
    sandbox.close()
    calls = [Call(tool(sandbox), FAILS, f"c{n}") for n in range(2)]
    with pytest.raises(SandboxClosed):
        run_turn(calls) if run is run_turn else await arun_turn(calls)


def test_threads_may_share_a_watch(sandbox: Sandbox) -> None:
    """Each call is counted once, whichever thread makes it."""
    watch = PROMPT.replace(max_repeats=None).start()
    run = tool(sandbox)

    def thrice(number: int) -> list[int]:
        return [watch.call(run, {str(number): 1}).repeats for _ in range(3)]

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(thrice, range(64))) == [[0, 1, 2]] * 64


def test_a_watch_goes_on_from_what_it_gave(sandbox: Sandbox) -> None:
    """Counts and the end itself pass through JSON; nothing the model wrote is in it."""
    policy = PROMPT.replace(max_repeats=2)
    secret = {"code": "raise ValueError('hush')"}
    watch = policy.start()
    for _ in range(3):
        assert watch.stopped is None
        watch = policy.start(json.loads(json.dumps(watch.dump())))
        watch.call(tool(sandbox), secret)
    written = json.dumps(watch.dump())
    assert "hush" not in written
    assert watch.stopped is not None
    assert policy.start(json.loads(written)).stopped == watch.stopped


@pytest.mark.parametrize("state", [{"failures": 5}, {"stop": "host"}, 5], ids=repr)
def test_a_state_that_is_none_is_refused(state: Any) -> None:
    """What a caller kept somewhere may be something else by now."""
    with pytest.raises(ValueError, match="validation error"):
        FaultPolicy().start(state)


# limits


def test_more_time_is_given_within_the_developers_bounds() -> None:
    """A call that timed out gets more when it is sent again, as far as is allowed."""
    with Sandbox(mode="kernel", timeout_s=0.5, timeout_max_s=1.5) as sandbox:
        sandbox.wait_ready()
        watch = PROMPT.start()
        arguments = {"code": "import time; time.sleep(60)"}
        replies = [watch.call(tool(sandbox), arguments) for _ in range(3)]
    limits = [ran(reply).raised_timeout_s for reply in replies]
    assert limits == [None, 1.0, 1.5]
    assert replies[1].artifact["raisedTimeoutS"] == 1.0
    assert "1 s limit" in replies[1].text
    assert "note: ran with timeout_s 1, " in replies[1].text
    assert "1.5 s limit" in replies[2].text


def test_a_call_that_needed_more_time_gets_it() -> None:
    """And the reply says what it took."""
    with Sandbox(mode="kernel", timeout_s=0.5, timeout_max_s=20) as sandbox:
        sandbox.wait_ready()
        watch = PROMPT.replace(timeout_factor=40).start()
        arguments = {"code": "import time\ntime.sleep(1)\nprint('done')"}
        watch.call(tool(sandbox), arguments)
        reply = watch.call(tool(sandbox), arguments)
    assert (ran(reply).stdout, ran(reply).raised_timeout_s) == ("done\n", 20.0)
    assert reply.text.split("\n")[1].startswith("note: ran with timeout_s 20, ")


@pytest.mark.parametrize(
    ("most_s", "factor", "asked_s"),
    [(None, 2, None), (1.0, 1, None), (0.5, 2, None), (1.0, 2, 1.0), (1.0, 2, 9.0)],
)
def test_no_limit_is_raised_without_leave(
    most_s: float | None, factor: float, asked_s: float | None
) -> None:
    """Neither over the sandbox's own bound, nor where the policy has no factor."""
    with Sandbox(mode="kernel", timeout_s=0.5, timeout_max_s=most_s) as sandbox:
        sandbox.wait_ready()
        watch = PROMPT.replace(timeout_factor=factor).start()
        arguments = {"code": "import time; time.sleep(60)", "timeout_s": asked_s}
        replies = [watch.call(tool(sandbox), arguments) for _ in range(2)]
    assert [ran(reply).raised_timeout_s for reply in replies] == [None, None]
    assert ran(replies[1]).repeats == 1


# the policy and the result themselves


@pytest.mark.parametrize(
    "options",
    [
        {"retries": -1},
        {"retries": True},
        {"retry_pause_s": float("inf")},
        {"max_repeats": 0},
        {"max_host_failures": "2"},
        {"timeout_factor": 0.5},
        {"max_repeat": 2},
    ],
    ids=repr,
)
def test_an_option_that_cannot_be_used_is_named(options: dict[str, Any]) -> None:
    """Before anything runs, with the remedy."""
    with pytest.raises(ConfigError) as refused:
        FaultPolicy(**options)
    assert refused.value.option == next(iter(options))


@pytest.mark.parametrize(
    ("option", "taken", "refused"),
    [
        ("retries", (0, 10), (-1, 11, 1.5)),
        ("retry_pause_s", (0, 600), (-0.1, 600.1)),
        ("max_repeats", (1, 1_000_000, None), (0, 1_000_001)),
        ("max_host_failures", (1, 1_000_000, None), (0, 1_000_001)),
        ("timeout_factor", (1, 100), (0.9, 100.1, None)),
    ],
)
def test_each_bound_is_taken_and_the_next_value_refused(
    option: str, taken: tuple[Any, ...], refused: tuple[Any, ...]
) -> None:
    """Zero attempts are none, no bound is None, and less time than before is never."""
    for value in taken:
        assert getattr(FaultPolicy(**{option: value}), option) == value
    for value in refused:
        with pytest.raises(ConfigError) as error:
            FaultPolicy(**{option: value})
        assert error.value.option == option


def test_what_is_no_policy_is_refused_with_what_to_give() -> None:
    """Each adapter that takes a policy says the same of what is none."""
    assert check_policy("policy", PROMPT) is PROMPT
    with pytest.raises(ConfigError) as refused:
        check_policy("policy", {"retries": 2})
    assert refused.value.option == "policy"
    assert str(refused.value) == (
        "policy={'retries': 2} is no FaultPolicy;"
        " give FaultPolicy(...), or None for no policy"
    )


def test_a_policy_has_a_watch_for_each_loop() -> None:
    """Two loops count apart, and both by the policy that began them."""
    policy = FaultPolicy(max_repeats=1)
    one, other = policy.start(), policy.start()
    assert one is not other
    assert one.policy == other.policy == policy
    assert policy.start(one.dump()).dump() == one.dump()


def test_results_of_before_can_still_be_read() -> None:
    """JSON without the fields of a policy reads as what it was: one attempt."""
    old = {"exitCode": 0, "stdout": "1\n"}
    result = ExecutionResult.model_validate(old)
    assert (result.attempts, result.repeats, result.raised_timeout_s) == (1, 0, None)
    new = result.model_copy(
        update={"attempts": 2, "repeats": 1, "raised_timeout_s": 5.0}
    )
    assert ExecutionResult.model_validate_json(new.model_dump_json()) == new
    dumped = new.model_dump(mode="json", by_alias=True)
    assert ExecutionResult.model_validate(dumped) == new


# what a ledger counts


def test_failures_of_long_ago_are_forgotten(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of so many calls that failed, only the last can be repeated."""
    monkeypatch.setattr(ledger, "_FAILURES_KEPT", 2)
    watch, reading = PROMPT.start(), tool(sandbox, "read_file")
    replies = [watch.call(reading, {"path": path}) for path in "abcca"]
    assert [reply.error for reply in replies] == ["not_found"] * 5
    assert [reply.repeats for reply in replies] == [0, 0, 0, 1, 0]


def test_a_call_that_was_stopped_counts_for_nothing() -> None:
    """Nothing ran, and nothing is known of what would have come of it."""
    counted = Ledger(FaultPolicy(max_repeats=1))
    for _ in range(3):
        known = counted.known("k")
        assert counted.enter(Outcome("run_code", "k", None, "stopped"), known) is None
    assert (counted.known("k"), counted.stop) == (None, None)


def test_a_host_that_ends_the_boxes_is_told_apart_from_one_that_starts_none() -> None:
    """The code ran for a while, and may have a part in it."""
    fault = SandboxFault(type=FaultType.KILLED, message="gone.", actor="operator")
    result = ExecutionResult(fault=fault, exit_code=137)
    counted = Ledger(FaultPolicy(max_host_failures=1))
    counted.enter(Outcome("run_code", "k", result, None), None)
    assert counted.stop is not None
    assert counted.stop.reason == StopReason.HOST
    assert "1 call did not end by themselves, the last one with killed: gone. " in (
        counted.stop.message
    )
    assert "The code is not to blame" not in counted.stop.message
