"""How loops end early: limits, errors, cancellation. The history is valid each time."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import threading
from typing import Any

import openai
import pytest

from kern_tools import ConfigError, FaultPolicy, Sandbox, SandboxClosed, SandboxPool
from kern_tools.adapters.openai import (
    LoopReason,
    OpenAITools,
    StopLoop,
    arun_loop,
    as_tools,
    run_loop,
)
from kern_tools.loop_events import CallFinished, LoopEvent, LoopFinished, TextPiece
from kern_tools.scripted import (
    ScriptedBreak,
    ScriptedCall,
    ScriptedError,
    ScriptedRequest,
    ScriptedServer,
    Step,
)
from tests.depth import crossed, depth

from .cells import LOOP, WAITS, Gate
from .loops import (
    APIS,
    WAYS,
    Way,
    aclient,
    answers_in,
    calls_in,
    client,
    code,
    loop,
    serving,
)

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

SLEEPS = "import time\ntime.sleep(50)"


@pytest.fixture
def tools(sandbox: Sandbox) -> OpenAITools:
    """The default tools."""
    return as_tools(sandbox)


# limits


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", APIS)
def test_a_loop_ends_at_its_limit_of_tokens(
    tools: OpenAITools, api: str, stream: bool
) -> None:
    """What the server tells is added up; the turn that passed the limit is answered."""
    script: list[Step] = [code("1", "a"), code("2", "b"), code("3", "c")]
    with serving(*script) as server:
        options: dict[str, Any] = {"api": api, "stream": stream}
        first = loop("sync", server, tools, max_total_tokens=1, **options)
        assert (first.reason, first.turns) == (LoopReason.MAX_TOKENS, 1)
        assert list(answers_in(first.history)) == ["a"]
        used = first.input_tokens + first.output_tokens
        second = loop(
            "sync", server, tools, first.history, max_total_tokens=used + 1, **options
        )
    assert (second.reason, second.turns) == (LoopReason.MAX_TOKENS, 2)


def test_a_limit_of_tokens_that_cannot_be_held_is_refused(tools: OpenAITools) -> None:
    """Without `usage` it would silently be none."""
    history: list[Any] = [{"role": "user", "content": "go"}]
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "hi"},
                "finish_reason": "stop",
            }
        ],
    }
    with serving(body) as server, pytest.raises(ConfigError, match="usage") as caught:
        loop("sync", server, tools, history, api="chat", max_total_tokens=9)
    assert (caught.value.option, len(history)) == ("max_total_tokens", 1)


@pytest.mark.parametrize("way", WAYS)
def test_the_time_limit_ends_calls_that_run(
    patient: Sandbox, gate: Gate, way: Way
) -> None:
    """Their boxes are gone, they are answered, and what had ended keeps its answer."""
    turn = [code(WAITS, "a"), code("print(42)", "b"), code(SLEEPS, "c")]
    ends: list[str] = []

    def on_event(event: LoopEvent) -> None:
        if isinstance(event, CallFinished):
            ends.append(event.call_id)

    with serving(turn, "ok") as server:
        thread = threading.Thread(target=gate.wait)
        thread.start()
        tools = as_tools(patient)
        first = loop(way, server, tools, on_event=on_event, time_limit_s=4)
        thread.join()
        assert gate.is_gone()
        assert (first.reason, "4 seconds" in first.message) == (LoopReason.TIME, True)
        answers = answers_in(first.history)
        assert list(answers) == ["a", "b", "c"]
        assert "42" in answers["b"]
        assert answers["a"].startswith("stopped: the time")
        assert sorted(ends) == ["a", "b", "c"]
        assert loop(way, server, tools, first.history).text == "ok"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("way", WAYS)
def test_the_time_limit_ends_a_request(
    tools: OpenAITools, way: Way, stream: bool
) -> None:
    """A server that is silent does not hold the loop up, and nothing is kept of it."""
    over = threading.Event()

    def silent(_: ScriptedRequest) -> Any:
        over.wait(20)
        return "late"

    step = ScriptedBreak("a b c d e f", "stall", 3, 20.0) if stream else silent
    history: list[Any] = [{"role": "user", "content": "go"}]
    with ScriptedServer([step]) as server:
        result = loop(way, server, tools, history, stream=stream, time_limit_s=0.5)
        over.set()
    assert (result.reason, len(history)) == (LoopReason.TIME, 1)


LIMIT_S = 1.0


def use_up(limit_s: float) -> None:
    """Take as long as a loop may take."""
    threading.Event().wait(limit_s)


@pytest.mark.parametrize("way", WAYS)
def test_the_time_limit_ends_a_stream_that_goes_on(
    tools: OpenAITools, way: Way
) -> None:
    """Also where each event comes in time: nothing is told that came too late."""
    told: list[str] = []
    said = "one two three four five six seven eight nine ten"

    def on_event(event: LoopEvent) -> None:
        if isinstance(event, TextPiece):
            told.append(event.text)
            use_up(LIMIT_S)

    with serving(said) as server:
        options: dict[str, Any] = {"stream": True, "time_limit_s": LIMIT_S}
        result = loop(way, server, tools, on_event=on_event, **options)
    assert (result.reason, len(result.history)) == (LoopReason.TIME, 1)
    assert len(told) <= 1
    assert result.text == "".join(told)


@pytest.mark.parametrize("way", WAYS)
def test_after_the_time_limit_the_model_is_not_asked_again(
    tools: OpenAITools, way: Way
) -> None:
    """Where a callback took what was left: the turn is answered, and is the last."""

    def on_fault(_: Any) -> None:
        use_up(LIMIT_S * 6)

    fails = ScriptedCall("run_code", {"code": SLEEPS, "timeout_s": 0.2}, "a")
    with serving(fails, "ok") as server:
        options: dict[str, Any] = {"time_limit_s": LIMIT_S * 6}
        first = loop(way, server, tools, on_fault=on_fault, **options)
        assert (first.reason, first.turns) == (LoopReason.TIME, 1)
        assert len(server.requests) == 1
        assert list(answers_in(first.history)) == ["a"]
        assert loop(way, server, tools, first.history).text == "ok"


@pytest.mark.parametrize("way", WAYS)
def test_a_time_limit_of_somebody_elses_is_not_taken_for_the_loops(
    tools: OpenAITools, way: Way
) -> None:
    """A callback may wait for something of its own, in vain."""

    def on_event(event: LoopEvent) -> None:
        if isinstance(event, TextPiece):
            raise TimeoutError("mine")

    options: dict[str, Any] = {"stream": True, "time_limit_s": 60}
    with serving("one two three") as server, pytest.raises(TimeoutError, match="mine"):
        loop(way, server, tools, on_event=on_event, **options)


def test_the_clients_own_time_limit_is_an_error_of_the_client(
    tools: OpenAITools,
) -> None:
    """Where it is the shorter one, it is not taken for the loop's."""
    over = threading.Event()

    def silent(_: ScriptedRequest) -> Any:
        over.wait(20)
        return "late"

    with ScriptedServer([silent]) as server:
        with pytest.raises(openai.APITimeoutError):
            loop("sync", server, tools, time_limit_s=60, timeout=0.2)
        over.set()


# errors


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("status", [401, 500])
def test_an_error_of_the_api_goes_on_and_the_loop_can_too(
    tools: OpenAITools, way: Way, api: str, status: int
) -> None:
    """It is the client's own; the list that was given has the turns before it."""
    history: list[Any] = [{"role": "user", "content": "go"}]
    events: list[LoopEvent] = []
    with serving(code("1", "a"), ScriptedError(status), "done") as server:
        with pytest.raises(openai.APIStatusError) as caught:
            loop(way, server, tools, history, api=api, on_event=events.append)
        assert caught.value.status_code == status
        assert list(answers_in(history)) == ["a"]
        end = events[-1]
        assert isinstance(end, LoopFinished)
        assert (end.reason, end.turns) == ("error", 2)
        result = loop(way, server, tools, history, api=api)
    assert (result.reason, result.text) == (LoopReason.DONE, "done")


@pytest.mark.parametrize("way", WAYS)
def test_the_client_retries_as_it_is_told_to(tools: OpenAITools, way: Way) -> None:
    """The loop sees the answer alone."""
    busy = ScriptedError(429, retry_after_s=0.01)
    with ScriptedServer([busy, code("1"), busy, "done"]) as server:
        result = loop(way, server, tools, retries=1)
    assert (result.reason, result.turns) == (LoopReason.DONE, 2)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("api", APIS)
def test_a_connection_that_drops_in_a_stream_is_the_clients_error(
    tools: OpenAITools, way: Way, api: str
) -> None:
    """Of the turn that broke nothing is kept."""
    history: list[Any] = [{"role": "user", "content": "go"}]
    script: list[Step] = [
        code("1", "a"),
        ScriptedBreak(code("2", "b"), "disconnect", 3),
        "done",
    ]
    with serving(*script) as server:
        options: dict[str, Any] = {"api": api, "stream": True}
        with pytest.raises(Exception, match=r"(?i)connection|peer|closed"):
            loop(way, server, tools, history, **options)
        assert (calls_in(history), list(answers_in(history))) == (["a"], ["a"])
        assert loop(way, server, tools, history, **options).text == "done"


@pytest.mark.parametrize("way", WAYS)
def test_a_closed_sandbox_is_the_developers(way: Way) -> None:
    """It is raised once all calls have ended, and they are answered."""
    history: list[Any] = [{"role": "user", "content": "go"}]
    sandbox = Sandbox().open()

    def closed(_: ScriptedRequest) -> Any:
        sandbox.close()
        return [code("1", "a"), ScriptedCall("nope", {}, "b")]

    with serving(closed, "ok") as server:
        with pytest.raises(SandboxClosed):
            loop(way, server, as_tools(sandbox), history)
        assert list(answers_in(history)) == ["a", "b"]
        assert "no tool" in answers_in(history)["b"]
        with Sandbox() as sandbox:
            assert loop(way, server, as_tools(sandbox), history).text == "ok"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["TextPiece", "CallStarted", "CallFinished"])
def test_what_on_event_raises_ends_the_loop(
    tools: OpenAITools, way: Way, kind: str
) -> None:
    """It is raised where the loop was called, and nobody is told anything more."""
    history: list[Any] = [{"role": "user", "content": "go"}]
    told: list[str] = []

    def on_event(event: LoopEvent) -> None:
        told.append(type(event).__name__)
        if told[-1] == kind:
            raise LookupError("mine")

    with serving([code("1", "a"), code("2", "b")], "text", "done") as server:
        with pytest.raises(LookupError, match="mine"):
            loop(way, server, tools, history, on_event=on_event)
        assert (told.count(kind), told[-1]) == (1, kind)
        assert list(answers_in(history)) == ["a", "b"]
        assert loop(way, server, tools, history).reason == LoopReason.DONE


@pytest.mark.parametrize("way", WAYS)
def test_a_callback_can_end_the_loop(tools: OpenAITools, way: Way) -> None:
    """`StopLoop` is no error: the result says so, with the words that were given."""

    def on_fault(reply: Any) -> str | None:
        raise StopLoop(f"no more of {reply.fault_type}")

    turn = [ScriptedCall("run_code", LOOP, "a"), code("print(42)", "b")]
    with serving(turn, "ok") as server:
        first = loop(way, server, tools, on_fault=on_fault)
        assert (first.reason, first.message) == ("stopped", "no more of timeout")
        assert "42" in answers_in(first.history)["b"]
        assert answers_in(first.history)["a"].startswith("fault: timeout")
        assert loop(way, server, tools, first.history).text == "ok"


def test_on_event_can_end_the_loop(tools: OpenAITools) -> None:
    """Also in the middle of a stream; the end is told."""
    events: list[LoopEvent] = []

    def on_event(event: LoopEvent) -> None:
        events.append(event)
        if isinstance(event, TextPiece):
            raise StopLoop("enough")

    with serving("one two three four five six") as server:
        result = loop("sync", server, tools, stream=True, on_event=on_event)
    assert (result.reason, len(result.history)) == (LoopReason.STOPPED, 1)
    assert isinstance(events[-1], LoopFinished)


@pytest.mark.parametrize("way", WAYS)
def test_a_loop_that_has_ended_cannot_be_ended_again(
    tools: OpenAITools, way: Way
) -> None:
    """`StopLoop` at the very last event changes nothing."""

    def on_event(event: LoopEvent) -> None:
        if isinstance(event, LoopFinished):
            raise StopLoop("too late")

    with serving("ok") as server:
        result = loop(way, server, tools, on_event=on_event)
    assert (result.reason, result.text) == (LoopReason.DONE, "ok")
    assert "too late" not in result.message


# policy


@pytest.mark.parametrize("way", WAYS)
def test_the_same_failing_call_ends_the_loop(tools: OpenAITools, way: Way) -> None:
    """The model is told, and then the loop ends with a typed reason."""
    script: list[Step] = [code("1/0", f"c{number}") for number in range(9)]
    with serving(*script) as server:
        policy = FaultPolicy(max_repeats=2)
        result = loop(way, server, tools, policy=policy)
    assert (result.reason, result.turns) == (LoopReason.REPEATED, 3)
    assert "same" in answers_in(result.history)["c1"].splitlines()[0]
    assert "run_code" in result.message


@pytest.mark.parametrize("way", WAYS)
def test_a_broken_host_ends_the_loop(pool: SandboxPool, way: Way) -> None:
    """No other code would help: the message is for who runs the host."""
    script: list[Step] = [code("1", "a"), code("2", "b"), code("3", "c")]
    with serving(*script) as server:
        result = loop(way, server, as_tools(pool))
    assert (result.reason, result.turns) == (LoopReason.HOST, 2)
    assert "conversation" in result.message
    assert [r.fault_type for r in result.replies] == ["startup_failed"] * 2


def test_without_a_policy_nothing_ends_the_loop(tools: OpenAITools) -> None:
    """`policy=None` is no policy."""
    script: list[Step] = [code("1/0", f"c{number}") for number in range(6)]
    with serving(*script, "done") as server:
        result = loop("sync", server, tools, policy=None)
    assert (result.reason, result.turns) == (LoopReason.DONE, 7)


# cancellation


async def test_cancelling_answers_every_call(patient: Sandbox, gate: Gate) -> None:
    """In the middle of parallel calls: what has ended is kept, the rest is told."""
    history: list[Any] = [{"role": "user", "content": "go"}]
    ended = asyncio.Event()
    reasons: list[str] = []

    def on_event(event: LoopEvent) -> None:
        if isinstance(event, CallFinished) and event.call_id == "b":
            ended.set()
        if isinstance(event, LoopFinished):
            reasons.append(event.reason)

    turn = [code(WAITS, "a"), code("print(42)", "b"), code(SLEEPS, "c")]
    with serving(turn, "ok") as server:
        async with aclient(server) as api:
            given = (api, as_tools(patient), history)
            running = arun_loop(*given, model="m", on_event=on_event)
            task = asyncio.create_task(running)
            await asyncio.gather(asyncio.to_thread(gate.wait), ended.wait())
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert gate.is_gone()
            result = await arun_loop(*given, model="m")
    begins = [text.split()[0] for text in answers_in(history).values()]
    assert begins == ["stopped:", "ok", "stopped:"]
    assert (result.text, reasons) == ("ok", ["cancelled"])
    assert "7" in patient.run_code("print(7)").stdout


async def test_a_cancellation_goes_on_when_the_last_call_has_ended(
    tools: OpenAITools,
) -> None:
    """Not with the first: what another does meanwhile is not left behind."""
    begun = [asyncio.Event(), asyncio.Event()]
    ended: list[str] = []

    async def quick() -> str:
        """End at once."""
        begun[0].set()
        return str(await asyncio.Event().wait())

    async def slow() -> str:
        """Take some turns of the event loop to end."""
        begun[1].set()
        try:
            return str(await asyncio.Event().wait())
        finally:
            for _ in range(50):
                await asyncio.sleep(0)
            ended.append("slow")

    turn = [ScriptedCall("quick", {}, "a"), ScriptedCall("slow", {}, "b")]
    with serving(turn) as server:
        async with aclient(server) as api:
            given = (api, tools, [{"role": "user", "content": "go"}])
            running = arun_loop(*given, model="m", others=[quick, slow])
            task = asyncio.create_task(running)
            await asyncio.gather(*(event.wait() for event in begun))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert ended == ["slow"]


async def test_cancelling_while_the_model_is_asked_keeps_the_history(
    tools: OpenAITools,
) -> None:
    """Nothing of that turn is kept, all of those before it is."""
    history: list[Any] = [{"role": "user", "content": "go"}]
    asked, over = threading.Event(), threading.Event()

    def silent(_: ScriptedRequest) -> Any:
        asked.set()
        over.wait(20)
        return "late"

    with ScriptedServer([code("1", "a"), silent]) as server:
        async with aclient(server) as api:
            task = asyncio.create_task(arun_loop(api, tools, history, model="m"))
            await asyncio.to_thread(asked.wait)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            over.set()
    assert (len(history), list(answers_in(history))) == (3, ["a"])


async def test_a_timeout_around_the_loop_is_a_cancellation(patient: Sandbox) -> None:
    """`asyncio.timeout` works as it does everywhere."""
    history: list[Any] = [{"role": "user", "content": "go"}]
    with serving(code(SLEEPS, "a")) as server:
        async with aclient(server) as api:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2):
                    await arun_loop(api, as_tools(patient), history, model="m")
    assert list(answers_in(history)) == ["a"]


INTERRUPTED = """
import json, os, signal, sys, threading
from openai import DefaultHttpxClient, OpenAI
from kern_tools import Sandbox
from kern_tools.adapters.openai import as_tools, run_loop

http = DefaultHttpxClient(verify=False)
with Sandbox(timeout_s=60) as sandbox, OpenAI(
    base_url={url!r}, api_key="x", http_client=http
) as client:
    tools = as_tools(sandbox)
    def interrupted(event=None):
        history = [{{"role": "user", "content": "go"}}]
        try:
            run_loop(client, tools, history, model="m", on_event=event)
        except KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
            print(json.dumps(history), flush=True)
"""

AT_WORK = """
    gate = sandbox.workspace.root / "gate"
    os.mkfifo(gate)
    def interrupt():
        open(gate).read(7)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    interrupted()
    print(sandbox.run_code("print(7)").stdout)
"""

AT_ANY_MOMENT = """
    def raised(*_):
        raise KeyboardInterrupt
    def begun(event):
        if type(event).__name__ == "CallStarted" and event.call_id == "b":
            signal.setitimer(signal.ITIMER_REAL, delay_s)
    signal.signal(signal.SIGALRM, raised)
    for number in range(0, 30, STEP):
        delay_s = (number + 1) * 0.0005
        interrupted(begun)
"""


def histories(script: str, turn: list[ScriptedCall]) -> list[Any]:
    """Run a program whose loops are interrupted; give what it printed, by line."""
    with ScriptedServer(itertools.repeat(turn)) as server:
        program = INTERRUPTED.format(url=server.url) + script
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def test_an_interrupt_answers_every_call() -> None:
    """Ctrl-C ends the boxes, and the history can be gone on with."""
    history, printed = histories(AT_WORK, [code(WAITS, "a"), code(SLEEPS, "b")])
    answers = answers_in(history)
    assert list(answers) == ["a", "b"]
    assert all(text.startswith("stopped: the user") for text in answers.values())
    assert printed == 7


def test_an_interrupt_at_any_moment_leaves_a_valid_history() -> None:
    """Also while the calls are just about to begin: none is left running."""
    script = AT_ANY_MOMENT.replace("STEP", str(30 // (rounds := depth(6, 30))))
    found = histories(script, [code(SLEEPS, "a"), code(SLEEPS, "b")])
    assert len(found) == rounds
    for history in found:
        assert calls_in(history) == list(answers_in(history))
    assert any(len(history) > 1 for history in found)


# what cannot be used

REFUSED: dict[str, dict[str, Any]] = {
    "api": {"api": "completions"},
    "max_turns": {"max_turns": 0},
    "max_total_tokens": {"max_total_tokens": 1.5},
    "time_limit_s": {"time_limit_s": -1},
    "shell": {"api": "chat", "shell": True},
    "chain": {"api": "chat", "chain": True},
    "previous_response_id": {"api": "chat", "previous_response_id": "resp_1"},
    "store": {"chain": True, "store": False},
    "messages": {"messages": []},
    "n": {"api": "chat", "n": 2},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("option", REFUSED)
def test_an_option_that_cannot_be_used_is_named(
    tools: OpenAITools, way: Way, option: str
) -> None:
    """Before the model is asked, with the value and the remedy."""
    with serving() as server, pytest.raises(ConfigError) as caught:
        loop(way, server, tools, **REFUSED[option])
    assert caught.value.option == option
    assert server.requests == []


@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_history_and_no_tools_is_named(
    tools: OpenAITools, sandbox: Sandbox, way: Way
) -> None:
    """The two arguments that are easily mistaken."""
    wrong: Any = ({"role": "user", "content": "go"},)
    bad: Any = sandbox
    with serving() as server:
        with pytest.raises(ConfigError, match="as_tools"):
            loop(way, server, bad)
        with pytest.raises(ConfigError) as caught:
            loop(way, server, tools, wrong)
    assert caught.value.option == "history"


async def test_a_blocking_loop_works_inside_a_running_one(tools: OpenAITools) -> None:
    """As in a notebook, where an event loop runs already."""
    with serving([code("print(42)", "a"), code("2", "b")], "ok") as server:
        result = loop("sync", server, tools)
    assert (result.text, "42" in answers_in(result.history)["a"]) == ("ok", True)


async def test_the_client_of_the_other_function_is_refused(tools: OpenAITools) -> None:
    """It would block the event loop, or return what nobody awaits."""
    with serving() as server:
        with pytest.raises(ConfigError, match="arun_loop"):
            run_loop(aclient(server), tools, "go", model="m")  # type: ignore[arg-type]
        with client(server) as api, pytest.raises(ConfigError, match="run_loop"):
            await arun_loop(api, tools, "go", model="m")  # type: ignore[arg-type]


def test_an_async_callback_is_refused_where_nothing_awaits_it(
    tools: OpenAITools,
) -> None:
    """Its coroutine would be taken for a note."""

    async def on_fault(_: Any) -> None: ...

    turn = ScriptedCall("run_code", LOOP)
    with serving(turn) as server, pytest.raises(ConfigError) as caught:
        loop("sync", server, tools, on_fault=on_fault)
    assert caught.value.option == "on_fault"


def test_what_is_no_answer_is_refused(tools: OpenAITools) -> None:
    """A wrong `base_url` gives a page, which must not pass for an empty answer."""
    with ScriptedServer([{"hello": "world"}]) as server, pytest.raises(TypeError):
        loop("sync", server, tools)
