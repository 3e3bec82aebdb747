"""OpenTelemetry: the spans and figures of calls, and that there are none unasked."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from kern_tools import (
    ConfigError,
    FaultPolicy,
    OutputEvent,
    ResultEvent,
    Sandbox,
    SandboxClosed,
    SandboxPool,
)
from kern_tools.telemetry import instrument, uninstrument
from kern_tools.tools import Tool, tools_of
from kern_tools.turn import Call, arun_turn, run_turn

from .examples import run_examples
from .traces import Traces, attributes, id_of, parent_of

SECRET = "correct-horse"
PRINT = {"code": "print(6 * 7)"}
SLOW = {
    "code": "print('before', flush=True)\nimport time; time.sleep(60)",
    "timeout_s": 1,
}


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A sandbox whose calls may take long."""
    with Sandbox(timeout_s=20, prewarm=0) as sandbox:
        yield sandbox


@pytest.fixture
def traces(sandbox: Sandbox) -> Traces:
    """What is told of the sandbox's calls."""
    traces = Traces()
    traces.follow(sandbox)
    return traces


def tool(sandbox: Any, name: str = "run_code", **options: Any) -> Tool:
    """Pick one tool."""
    (found,) = tools_of(sandbox, name, **options)
    return found


async def called(tool: Tool, arguments: object, way: str, **given: Any) -> Any:
    """Call a tool one of the two ways."""
    if way == "async":
        return await tool.acall(arguments, **given)
    return await asyncio.to_thread(tool.call, arguments, **given)


both_ways = pytest.mark.parametrize("way", ["sync", "async"])


# spans of tools


@both_ways
async def test_a_tool_call_is_a_span_by_the_conventions(
    sandbox: Sandbox, traces: Traces, way: str
) -> None:
    """Named for the tool, a child of what is current, with what the call came to."""
    with traces.tracer.start_as_current_span("agent") as agent:
        await called(tool(sandbox), PRINT, way, call_id="call_1")
    span = traces.span()
    said = attributes(span)
    assert (span.name, span.kind) == ("execute_tool run_code", SpanKind.INTERNAL)
    assert span.status.status_code is StatusCode.UNSET
    assert parent_of(span) == id_of(agent)
    assert said["gen_ai.operation.name"] == "execute_tool"
    assert said["gen_ai.tool.name"] == "run_code"
    assert said["gen_ai.tool.type"] == "function"
    assert said["gen_ai.tool.call.id"] == "call_1"
    assert (said["process.exit.code"], said["kern_tools.mode"]) == (0, "fresh")
    assert (said["kern_tools.stdout_bytes"], said["kern_tools.stderr_bytes"]) == (3, 0)
    assert said["kern_tools.queue_ms"] >= 0
    assert said["kern_tools.run_ms"] >= 0
    absent = {"error.type", "kern_tools.fault.type", "kern_tools.error"}
    assert absent & said.keys() == set()


def test_a_fault_is_the_spans_error(sandbox: Sandbox, traces: Traces) -> None:
    """By its type, in the attribute of every kind of error and in one of its own."""
    tool(sandbox).call(SLOW)
    span, said = traces.span(), attributes(traces.span())
    assert span.status.status_code is StatusCode.ERROR
    assert said["error.type"] == said["kern_tools.fault.type"] == "timeout"
    assert said["process.exit.code"] == 137
    spent_ms = said["kern_tools.start_ms"], said["kern_tools.run_ms"]
    assert sum(spent_ms) >= 1000


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("run_code", {"code": "raise SystemExit(3)"}, None),
        ("read_file", {"path": "nowhere"}, "not_found"),
    ],
    ids=["exit code", "no such file"],
)
def test_what_a_call_found_out_is_no_error(
    sandbox: Sandbox, traces: Traces, name: str, arguments: object, error: str | None
) -> None:
    """The tool did its work; a trace that is red for it would hide what is broken."""
    tool(sandbox, name).call(arguments)
    span, said = traces.span(), attributes(traces.span())
    assert span.status.status_code is StatusCode.UNSET
    assert "error.type" not in said
    assert said.get("kern_tools.error") == error
    assert said.get("process.exit.code") == (3 if error is None else None)


def test_a_call_of_which_nothing_runs_has_a_span_too(
    sandbox: Sandbox, traces: Traces
) -> None:
    """Unusable arguments, code that was cut off, and what a policy has ended."""
    run_code, watch = tool(sandbox), FaultPolicy(max_repeats=1).start()
    run_code.call({})
    Call(run_code, PRINT, "c1", is_cut=True).run()
    for _ in range(3):
        watch.call(run_code, {"code": "1/0"})
    kinds = [attributes(span).get("error.type") for span in traces.spans()]
    assert kinds == ["bad_arguments", "bad_arguments", None, None, "stopped"]


def test_a_closed_sandbox_is_the_spans_error(sandbox: Sandbox, traces: Traces) -> None:
    """By the code of what is raised, which goes on as it was."""
    run_code = tool(sandbox)
    sandbox.close()
    with pytest.raises(SandboxClosed):
        run_code.call(PRINT)
    assert attributes(traces.span())["error.type"] == "closed"
    assert traces.span().status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("name", ["run_code", "run_command"])
async def test_a_cancelled_call_ends_its_span(
    sandbox: Sandbox, traces: Traces, name: str
) -> None:
    """When its box is gone, as an error of its own kind."""
    heard = asyncio.Event()
    loop = asyncio.get_running_loop()
    script = "import time; print(1, flush=True); time.sleep(50)"
    written = {"run_code": {"code": script}, "run_command": {"command": "echo; cat"}}
    if name == "run_command":
        written[name]["command"] = "echo; sleep 50"
    call = tool(sandbox, name).acall(
        written[name], on_output=lambda _: loop.call_soon_threadsafe(heard.set)
    )
    running = asyncio.create_task(call)
    await heard.wait()
    assert traces.spans() == []
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    span = traces.span()
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error.type"] == "cancelled"
    assert not trace.get_current_span().get_span_context().is_valid


def test_an_interrupted_call_ends_its_span(sandbox: Sandbox, traces: Traces) -> None:
    """Ctrl-C ends it as a cancellation does, in a turn on threads of ours too."""

    def press(_: OutputEvent) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    slow = {"code": "import time; print(1, flush=True); time.sleep(50)"}
    with pytest.raises(KeyboardInterrupt):
        tool(sandbox).call(slow, on_output=press)
    calls = [
        Call(tool(sandbox), slow, "c1", on_output=press),
        Call(tool(sandbox), slow, "c2"),
    ]
    with pytest.raises(KeyboardInterrupt):
        run_turn(calls)
    kinds = [attributes(span)["error.type"] for span in traces.spans()]
    assert kinds == ["cancelled"] * 3


async def test_a_call_that_nobody_resumes_ends_its_span(
    sandbox: Sandbox, traces: Traces
) -> None:
    """The collector closes the coroutine, in any context and thread."""
    call = tool(sandbox).acall({"code": "print(1)"})
    steps = call.__await__()
    next(steps)  # it waits for its first step, off the loop
    steps.close()
    while not traces.spans():
        await asyncio.sleep(0)
    assert attributes(traces.span())["error.type"] == "cancelled"


@both_ways
async def test_calls_side_by_side_have_one_parent(
    sandbox: Sandbox, traces: Traces, way: str
) -> None:
    """Also on threads of ours, and inside a loop that runs already."""
    run_code = tool(sandbox)
    calls = [Call(run_code, PRINT, call_id) for call_id in ("c1", "c2", "c3")]
    with traces.tracer.start_as_current_span("agent") as agent:
        if way == "async":
            await arun_turn(calls)
        else:
            run_turn(calls)
    assert {parent_of(span) for span in traces.spans()} == {id_of(agent)}
    ids = {attributes(span)["gen_ai.tool.call.id"] for span in traces.spans()}
    assert ids == {"c1", "c2", "c3"}


def test_a_tool_that_somebody_listens_to_is_one_span(
    sandbox: Sandbox, traces: Traces
) -> None:
    """The stream it reads for that is a part of the call."""
    (tool,) = tools_of(sandbox, "run_code")
    heard: list[str] = []
    tool.call({"code": "print(7)"}, on_output=lambda event: heard.append(event.text))
    assert traces.span().name == "execute_tool run_code"
    assert "".join(heard) == "7\n"


def test_who_listens_is_inside_the_span(sandbox: Sandbox, traces: Traces) -> None:
    """What a callback does, on a thread of ours, belongs to the call."""
    inside: set[int] = set()

    def see(_: OutputEvent) -> None:
        inside.add(id_of(trace.get_current_span()))

    tool(sandbox).call(PRINT, on_output=see)
    context = traces.span().get_span_context()
    assert context is not None
    assert inside == {context.span_id}


def test_a_reply_that_is_given_again_says_so(sandbox: Sandbox, traces: Traces) -> None:
    """It ran once: times and bytes are those of the first call alone."""
    run_code = tool(sandbox, idempotent=True)
    for _ in range(2):
        run_code.call(PRINT, call_id="c1")
    first, second = map(attributes, traces.spans())
    assert "kern_tools.replayed" not in first
    assert second["kern_tools.replayed"] is True
    assert "kern_tools.stdout_bytes" not in second
    assert traces.total("kern_tools.calls") == 2


def test_a_trace_that_came_with_a_call_goes_on(
    sandbox: Sandbox, traces: Traces
) -> None:
    """Where nothing is current; a current span is nearer, and nonsense does no harm."""
    came = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "other": 5}
    run_code = tool(sandbox)
    run_code.call(PRINT, trace_context=came)
    run_code.call(PRINT, trace_context={"traceparent": "nonsense"})
    with traces.tracer.start_as_current_span("agent") as agent:
        run_code.call(PRINT, trace_context=came)
    assert list(map(parent_of, traces.spans())) == [
        int("b" * 16, 16),
        None,
        id_of(agent),
    ]


# what is said


def test_no_text_of_a_call_is_told_unasked(sandbox: Sandbox) -> None:
    """Code, output, files, `env` and what a fault quotes of them stay here."""
    traces = Traces()
    with Sandbox(env={"TOKEN": SECRET}, timeout_s=20) as secretive:
        traces.follow(secretive)
        run_code = tool(secretive)
        run_code.call({"code": f"print('{SECRET}')\n'{SECRET}'"})
        run_code.call({"code": f"raise ValueError('{SECRET}')"})
        run_code.call({"code": f"while True: '{SECRET}'", "timeout_s": 0.5})
        run_code.call({"kode": SECRET})
        run_code.call(SECRET)
        arguments = {"path": f"{SECRET}.txt", "content": SECRET}
        tool(secretive, "write_file").call(arguments)
        tool(secretive, "read_file").call({"path": f"{SECRET}.nowhere"})
        secretive.run([f"/{SECRET}"])
        secretive.run_code(f"print('{SECRET}')")
        for _ in secretive.stream(["echo", SECRET]):
            pass
    assert len(traces.spans()) == 10
    assert SECRET not in traces.text()
    assert "TOKEN" not in traces.text()


def test_a_setup_that_fails_is_not_quoted(tmp_path: Any) -> None:
    """What it printed stands in the fault's message, for people."""
    traces = Traces()
    (tmp_path / "flag").write_text("")
    code = f"import os\nif not os.path.exists('flag'): raise ValueError('{SECRET}')"
    with Sandbox(mode="kernel", setup_code=code, workspace=tmp_path) as kernel:
        kernel.run_code("import os\nos.remove('flag')\nos._exit(0)")
        traces.follow(kernel)
        result = kernel.run_code("1")
        assert result.fault is not None
        assert SECRET in result.fault.message
    assert attributes(traces.span())["kern_tools.fault.reason"] == "setup_code"
    assert SECRET not in traces.text()


def test_content_is_told_where_it_is_asked_for(sandbox: Sandbox) -> None:
    """Arguments as JSON, what the model reads, and a fault's message."""
    traces = Traces()
    traces.follow(sandbox, content=True)
    run_code = tool(sandbox)
    reply = run_code.call({"code": "print('\u20ac')"})
    run_code.call('{"code": "print(\'\\ud83d\')"}')
    run_code.call({"code": "\ud83d"})
    tool(sandbox).call(SLOW)
    sandbox.run(["echo", "hi"])
    first, second, third, slow, direct = traces.spans()
    said = attributes(first)
    assert json.loads(said["gen_ai.tool.call.arguments"]) == {"code": "print('\u20ac')"}
    assert said["gen_ai.tool.call.result"] == reply.text
    assert said["gen_ai.tool.description"] == run_code.description
    for span in (second, third):
        attributes(span)["gen_ai.tool.call.arguments"].encode()
    assert slow.status.description == "stopped at the 1 s limit"
    assert attributes(direct)["kern_tools.stdout"] == "hi\n"
    assert "echo" in attributes(direct)["kern_tools.arguments"]


# a sandbox's own calls


@both_ways
async def test_a_sandboxs_own_calls_are_spans_of_no_tool(
    sandbox: Sandbox, traces: Traces, way: str
) -> None:
    """They are named for the method, and are found by the result's id."""
    with traces.tracer.start_as_current_span("program") as program:
        if way == "async":
            coded = await sandbox.arun_code("1/0")
            ran = await sandbox.arun(["true"])
            events = [event async for event in sandbox.stream_code("print(1)")]
        else:
            coded = sandbox.run_code("1/0")
            ran = sandbox.run(["true"])
            events = list(sandbox.stream_code("print(1)"))
    assert isinstance(events[-1], ResultEvent)
    spans = traces.spans()
    assert [span.name for span in spans] == ["run_code", "run", "stream_code"]
    ids = [attributes(span)["kern_tools.call.id"] for span in spans]
    assert ids == [coded.call_id, ran.call_id, events[-1].call_id]
    assert {parent_of(span) for span in spans} == {id_of(program)}
    assert not any("gen_ai" in name for span in spans for name in attributes(span))
    assert attributes(spans[0])["process.exit.code"] == 1
    assert traces.points("gen_ai.execute_tool.duration") == {}


def test_what_a_tool_runs_is_a_part_of_its_span(
    sandbox: Sandbox, traces: Traces
) -> None:
    """One call of a model is one span, whatever it takes."""
    tool(sandbox).call(PRINT)
    tool(sandbox, "run_command").call({"command": "true"})
    names = [span.name for span in traces.spans()]
    assert names == ["execute_tool run_code", "execute_tool run_command"]


WAITS = "import time; print(1, flush=True); time.sleep(50)"


@both_ways
async def test_a_stream_that_is_left_ends_its_span(
    sandbox: Sandbox, traces: Traces, way: str
) -> None:
    """As a cancelled call does; one that was not begun has none."""
    sandbox.stream_code(WAITS)
    if way == "async":
        async with sandbox.stream_code(WAITS) as events:
            await anext(events)
    else:
        with sandbox.stream_code(WAITS) as stream:
            next(stream)
    assert attributes(traces.span())["error.type"] == "cancelled"


@both_ways
async def test_a_stream_that_was_read_to_its_end_was_not_cancelled(
    sandbox: Sandbox, traces: Traces, way: str
) -> None:
    """Leaving its block afterwards changes nothing of what it came to."""
    if way == "async":
        async with sandbox.stream_code("1/0") as events:
            assert [event async for event in events]
    else:
        with sandbox.stream_code("1/0") as stream:
            assert list(stream)
    assert "error.type" not in attributes(traces.span())


def test_a_stream_that_is_lost_ends_its_span(sandbox: Sandbox, traces: Traces) -> None:
    """Once it is collected, on another thread."""
    stream = sandbox.stream_code(WAITS)
    next(stream)
    del stream
    while not traces.spans():
        gc.collect()
    assert attributes(traces.span())["error.type"] == "cancelled"


# pools


def test_a_pools_calls_are_told_each_with_its_sandbox(traces: Traces) -> None:
    """Those of its tools, and of sandboxes that were open before and after."""
    with SandboxPool(prewarm=0) as pool:
        before = pool.get("c1")
        traces.follow(pool)
        tool(pool).call(PRINT, conversation="c1")
        before.run_code("1")
        pool.get("c2").run_code("1")
        tool(pool).call(PRINT)
        uninstrument(pool)
        before.run_code("1")
        pool.get("c3").run_code("1")
    *_, keyless = traces.spans()
    tools = ["execute_tool run_code"]
    assert [span.name for span in traces.spans()] == [
        *tools,
        *("run_code", "run_code"),
        *tools,
    ]
    assert attributes(keyless)["kern_tools.fault.reason"] == "conversation"


def test_a_pools_size_is_told(traces: Traces) -> None:
    """As it is when the figures are read, over all pools, while they are there."""
    name = "kern_tools.pool.sandboxes"
    assert traces.points(name) == {}
    with SandboxPool(prewarm=0) as pool, SandboxPool(prewarm=0) as other:
        traces.follow(pool, other)
        assert traces.total(name) == 0
        pool.get("c1")
        pool.get("c2")
        other.get("c1")
        assert traces.total(name) == 3
        pool.drop("c1")
        assert traces.total(name) == 2
        uninstrument(other)
        assert traces.total(name) == 1


# figures


def test_calls_and_faults_are_counted(sandbox: Sandbox, traces: Traces) -> None:
    """By tool, mode and error; durations have buckets from a millisecond on."""
    run_code = tool(sandbox)
    for arguments in (PRINT, PRINT, SLOW, {}):
        run_code.call(arguments)
    sandbox.run_code("1")
    fresh = ("kern_tools.mode", "fresh")
    named = ("gen_ai.tool.name", "run_code")
    assert traces.points("kern_tools.calls") == {
        frozenset({fresh, named}): 2,
        frozenset({fresh, named, ("error.type", "timeout")}): 1,
        frozenset({fresh, named, ("error.type", "bad_arguments")}): 1,
        frozenset({fresh}): 1,
    }
    assert traces.points("kern_tools.faults") == {
        frozenset({fresh, ("kern_tools.fault.type", "timeout")}): 1
    }
    operation = ("gen_ai.operation.name", "execute_tool")
    kind = ("gen_ai.tool.type", "function")
    durations = traces.points("gen_ai.execute_tool.duration")
    assert durations[frozenset({operation, kind, named})] == 2
    assert sum(durations.values()) == 4
    assert '"explicit_bounds": [\n' in traces.text()
    assert "327.68" in traces.text()


@pytest.mark.filterwarnings("error")
def test_instrumenting_again_replaces_what_was(
    sandbox: Sandbox, traces: Traces, caplog: pytest.LogCaptureFixture
) -> None:
    """Each call is told once, and the SDK sees no instrument twice."""
    other = Traces()
    traces.follow(sandbox)
    tool(sandbox).call(PRINT)
    other.follow(sandbox)
    tool(sandbox).call(PRINT)
    uninstrument(sandbox)
    uninstrument(sandbox)
    tool(sandbox).call(PRINT)
    assert [traces.total("kern_tools.calls"), other.total("kern_tools.calls")] == [1, 1]
    assert [len(traces.spans()), len(other.spans())] == [1, 1]
    assert caplog.records == []


def test_without_providers_it_is_the_applications(sandbox: Sandbox) -> None:
    """As it has none here, nothing is kept and nothing fails."""
    instrument(sandbox)
    assert tool(sandbox).call(PRINT).result is not None
    uninstrument(sandbox)


# wrong use, and none


@pytest.mark.parametrize("use", [instrument, uninstrument])
def test_what_makes_no_calls_is_refused(sandbox: Sandbox, use: Any) -> None:
    """A tool is, for its sandbox is meant; and nothing at all."""
    for targets in ((tool(sandbox),), (sandbox, [sandbox]), ()):
        with pytest.raises(ConfigError, match="a Sandbox or a SandboxPool") as raised:
            use(*targets)
        assert raised.value.option == "targets"
    assert sandbox.observer is None


def test_nothing_is_imported_unasked() -> None:
    """Calls of tools and of sandboxes do without OpenTelemetry."""
    code = (
        "import sys\n"
        "from kern_tools import Sandbox, SandboxPool\n"
        "from kern_tools.tools import tools_of\n"
        "with Sandbox(prewarm=0) as sandbox:\n"
        "    tools_of(sandbox)[0].call({'code': '1'})\n"
        "    sandbox.run(['true'])\n"
        "print([n for n in sys.modules if 'telemetry' in n or 'meters' in n])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_without_the_api_it_names_the_extra() -> None:
    """The error ends with the command that mends it."""
    code = (
        "import sys\nsys.modules['opentelemetry'] = None\n"
        "try:\n    import kern_tools.telemetry\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'kern-tools[otel]'" in done.stdout, done.stderr


async def test_the_docstrings_example_runs(sandbox: Sandbox) -> None:
    """As it is printed."""
    from kern_tools import telemetry

    assert await run_examples(telemetry, {"sandbox": sandbox}) == 1
    uninstrument(sandbox)
