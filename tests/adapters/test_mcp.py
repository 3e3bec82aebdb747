"""An MCP server: tools, answers and notices, with the SDK's client in this process."""

# The SDK of the other releases has other names; what it read is looked at as JSON.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kern_tools import ConfigError, ExecutionResult, Sandbox, SandboxPool
from kern_tools.adapters.mcp import ARTIFACT, as_server, result_of
from kern_tools.adapters.mcp.caller import McpCaller
from kern_tools.adapters.mcp.offer import WRITTEN
from kern_tools.testing import AdapterContract, Outcome
from kern_tools.tools import tools_of

from .cells import CHARTS, LOOP, WAITS, Gate
from .mcp_clients import (
    IS_OLD,
    Told,
    cancel,
    connected,
    dumped,
    over_http,
    served,
    set_level,
)
from .words import by_turns

PRINT = {"code": "print(6 * 7)"}
ANSWERED = (
    "import os\nfor n in range(3):\n    print(n, flush=True)\n"
    "    while not os.path.exists(f'seen{n}'): pass\n"
)
"""Goes on only once somebody saw what it printed."""


async def call(session: Any, arguments: Any, tool: str = "run_code") -> dict[str, Any]:
    """Call a tool and give the answer as it was on the wire."""
    return dumped(await session.call_tool(tool, arguments))


class CheckedCaller(McpCaller):
    """Calls as a client makes them, and results as their schema has them."""

    async def acall(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call it in the loop that runs."""
        outcome = await super().acall(tool, arguments)
        async with connected(self.server) as session:
            listed = dumped(await session.list_tools())["tools"]
        (schema,) = (t["outputSchema"] for t in listed if t["name"] == tool)
        # The SDK's client checks only what is no error; others check that too.
        Draft202012Validator(schema).validate(outcome.artifact)
        return outcome


@by_turns(0)
class TestMcp(AdapterContract):
    """The server's answers hold the contract."""

    @pytest.fixture
    def adapter(self, sandbox: Sandbox) -> CheckedCaller:
        """A server with every tool."""
        return CheckedCaller(as_server(sandbox, "coding"))


# what is offered


async def test_tools_are_listed_as_the_core_describes_them(sandbox: Sandbox) -> None:
    """Names, words and schemas are ours; the schema of a result is published."""
    async with connected(as_server(sandbox, "coding")) as session:
        listed = dumped(await session.list_tools())["tools"]
    for tool, ours in zip(listed, tools_of(sandbox, "coding"), strict=True):
        assert tool["name"] == ours.name
        assert tool["description"] == ours.description
        assert tool["inputSchema"] == ours.schema(strict=False)
        Draft202012Validator.check_schema(tool["outputSchema"])
        assert "$ref" not in str(tool["outputSchema"])
    only_read = {t["name"] for t in listed if t["annotations"]["readOnlyHint"]}
    assert only_read == {"read_file", "list_files", "search_files", "find_files"}


async def test_the_server_says_who_it_is_and_what_holds(sandbox: Sandbox) -> None:
    """A host may put the instructions into its own prompt."""
    server = as_server(sandbox, "coding")
    options = server.create_initialization_options()
    assert options.server_name == "kern-tools"
    assert options.instructions == sandbox.system_prompt("coding")
    assert options.capabilities.logging is not None


async def test_schemas_can_be_strict_and_results_unstructured(
    sandbox: Sandbox,
) -> None:
    """Both are for hosts that pass things on in their own way."""
    server = as_server(sandbox, "run_code", strict=True, structured=False)
    (ours,) = tools_of(sandbox, "run_code")
    async with connected(server) as session:
        (tool,) = dumped(await session.list_tools())["tools"]
        answer = await call(session, PRINT)
    assert tool["inputSchema"] == ours.schema(strict=True)
    assert "outputSchema" not in tool
    assert "structuredContent" not in answer
    assert answer["_meta"][ARTIFACT]["stdout"] == "42\n"
    result = result_of(answer)
    assert result is not None
    assert result.stdout == "42\n"


def test_an_unknown_set_is_refused(sandbox: Sandbox) -> None:
    """What the developer wrote wrongly is an exception."""
    with pytest.raises(ConfigError):
        as_server(sandbox, "kode")


# answers


async def test_a_result_is_read_from_the_sdks_own_object(sandbox: Sandbox) -> None:
    """Also from a dict of it, and from the structured content alone."""
    async with connected(as_server(sandbox)) as session:
        answer = await session.call_tool("run_code", PRINT)
        refused = await session.call_tool("run_code", {})
    plain = dumped(answer)
    for each in (answer, plain, plain["structuredContent"]):
        match result_of(each):
            case ExecutionResult(stdout=stdout, call_id=call_id):
                assert (stdout, call_id) == ("42\n", str(call_id))
            case other:
                pytest.fail(f"no result in {other!r}")
    assert [result_of(each) for each in (refused, dumped(refused), "", None)] == [
        None
    ] * 4


async def test_an_error_is_a_fault_or_unusable_arguments(sandbox: Sandbox) -> None:
    """A non-zero exit is neither: the tool did its work."""
    async with connected(as_server(sandbox)) as session:
        failed = await call(session, {"code": "raise SystemExit(3)"})
        slow = await call(session, LOOP)
        missing = await call(session, {"path": "nowhere"}, "read_file")
        unusable = await call(session, {"cod": "print(1)"})
    assert (failed["isError"], failed["structuredContent"]["exitCode"]) == (False, 3)
    assert slow["isError"]
    assert slow["structuredContent"]["fault"]["type"] == "timeout"
    assert (missing["isError"], missing["structuredContent"]["error"]) == (
        False,
        "not_found",
    )
    assert (unusable["isError"], unusable["structuredContent"]["error"]) == (
        True,
        "bad_arguments",
    )


async def test_images_are_content_and_the_result_points_to_them(
    sandbox: Sandbox,
) -> None:
    """No base64 stands in what some clients show a model; code gets it all the same."""
    async with connected(as_server(sandbox)) as session:
        answer = await call(session, {"code": CHARTS})
    _, *images = answer["content"]
    assert [image["mimeType"] for image in images] == ["image/png"] * 2
    shown = answer["structuredContent"]["results"]
    # Both charts are one picture, which either place stands for.
    places = {value["data"]["image/png"] for value in shown}
    assert places <= {"/content/1/data", "/content/2/data"}
    result = result_of(answer)
    assert result is not None
    pictures = [base64.b64decode(image["data"]) for image in images]
    assert [value.png for value in result.results] == pictures


async def test_images_can_be_left_out(sandbox: Sandbox) -> None:
    """The text names them, and the result counts what it lacks."""
    async with connected(as_server(sandbox, images="none")) as session:
        answer = await call(session, {"code": CHARTS})
    (text,) = answer["content"]
    assert "image 2" in text["text"]
    structured = answer["structuredContent"]
    assert [list(value["data"]) for value in structured["results"]] == [
        ["text/plain"]
    ] * 2
    assert structured["resultsOmitted"] == 2


async def test_a_tool_that_is_not_there_is_answered(sandbox: Sandbox) -> None:
    """A name that means one of ours is understood, any other is told the names."""
    async with connected(as_server(sandbox)) as session:
        meant = await call(session, PRINT, "python")
        unknown = await call(session, PRINT, "make_coffee")
    assert meant["structuredContent"]["stdout"] == "42\n"
    assert unknown["isError"]
    assert "`run_code`" in unknown["content"][0]["text"]


async def test_arguments_that_came_as_text_are_read(sandbox: Sandbox) -> None:
    """As they come over stdio where the SDK could not have read them as JSON."""
    async with connected(as_server(sandbox)) as session:
        answer = await call(session, {WRITTEN: '{"code": "print(\'\\ud83d\')"}'})
    assert answer["structuredContent"]["error"] == "bad_arguments"
    assert "surrogate" in answer["content"][0]["text"]


# while a call runs


async def test_output_and_progress_are_told_while_the_code_runs(
    sandbox: Sandbox,
) -> None:
    """The code waits for each answer; the result comes after all of them."""
    told = Told()

    async def see(progress: float, total: float | None, message: str | None) -> None:
        await told.on_progress(progress, total, message)
        if message is not None and message.isdigit():
            sandbox.write_file(f"seen{message}", "")

    async with connected(as_server(sandbox), logging_callback=told.log) as session:
        await session.call_tool("run_code", {"code": ANSWERED}, progress_callback=see)
    messages = [message for _, message in told.progress if str(message).isdigit()]
    assert messages == ["0", "1", "2"]
    passed = [progress for progress, _ in told.progress]
    assert passed == sorted(set(passed))
    assert {entry["level"] for entry in told.entries} == {"info"}
    pieces = [entry["data"] for entry in told.entries]
    assert "".join(piece["text"] for piece in pieces) == "0\n1\n2\n"
    assert {(p["stream"], p["droppedBytes"]) for p in pieces} == {("stdout", 0)}
    assert len({piece["callId"] for piece in pieces}) == 1


async def test_a_silent_call_says_that_it_goes_on(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that hear nothing give up on a request after a while."""
    monkeypatch.setattr("kern_tools.adapters.mcp.notices.BEAT_S", 0.05)
    told = Told()

    async def see(progress: float, total: float | None, message: str | None) -> None:
        await told.on_progress(progress, total, message)
        if len(told.progress) == 3:
            sandbox.write_file("seen0", "")

    silent = "import os\nwhile not os.path.exists('seen0'): pass"
    async with connected(as_server(sandbox)) as session:
        await session.call_tool("run_code", {"code": silent}, progress_callback=see)
    assert all(str(message).startswith("running") for _, message in told.progress)


async def test_a_client_can_silence_the_log(sandbox: Sandbox) -> None:
    """It asks for graver entries alone, and then for ours again."""
    told = Told()
    async with connected(as_server(sandbox), logging_callback=told.log) as session:
        for level, code in (("error", "print('no')"), ("info", "print('yes')")):
            await set_level(session, level)
            await session.call_tool("run_code", {"code": code})
    assert [entry["data"]["text"] for entry in told.entries] == ["yes\n"]


async def test_what_is_told_cannot_steer_a_terminal(sandbox: Sandbox) -> None:
    """Hosts print notices as they come."""
    told = Told()
    code = r"print('\x1b]0;title\x07red\x1b[31m\u202e')"
    async with connected(as_server(sandbox), logging_callback=told.log) as session:
        await session.call_tool(
            "run_code", {"code": code}, progress_callback=told.on_progress
        )
    (entry,) = told.entries
    assert entry["data"]["text"] == "red\\u202e\n"
    assert told.progress[0][1] == "red\\u202e"


if not IS_OLD:
    from mcp import Client

    @pytest.mark.parametrize("level", [None, "error", "info"])
    async def test_a_request_without_a_session_asks_for_the_log(
        sandbox: Sandbox, level: Any
    ) -> None:
        """From 2026-07-28 on, requests that did not ask get no entries."""
        told = Told()
        options: Any = {"logging_callback": told.log, "log_level": level}
        server = as_server(sandbox)
        async with Client(server, mode="2026-07-28", **options) as client:
            await client.call_tool(
                "run_code", PRINT, progress_callback=told.on_progress
            )
        texts = [entry["data"]["text"] for entry in told.entries]
        assert texts == (["42\n"] if level == "info" else [])
        assert told.progress[0][1] == "42"


# cancellation


async def test_cancelling_a_request_ends_its_box(patient: Sandbox, gate: Gate) -> None:
    """The SDK's client says so where its caller is cancelled, or we say it for it."""
    async with connected(as_server(patient)) as session:
        running = asyncio.create_task(call(session, {"code": WAITS}))
        assert await asyncio.to_thread(gate.wait) == b"running"
        if IS_OLD:
            await cancel(session, 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await asyncio.to_thread(gate.wait_end) == b""
        after = await call(session, {"code": "import os\nos.path.exists('late')"})
    assert after["structuredContent"]["results"][0]["data"]["text/plain"] == "False"


# pools


async def test_each_client_has_a_sandbox_of_its_own(pool: SandboxPool) -> None:
    """Of a pool, a connection is a conversation."""
    server = as_server(pool)
    written = {"path": "a.txt", "content": "hi"}
    async with connected(server) as one, connected(server) as other:
        await call(one, written, "write_file")
        listings = [await call(each, {}, "list_files") for each in (one, other)]
    texts = [listing["content"][0]["text"] for listing in listings]
    assert ["a.txt" in text for text in texts] == [True, False]
    assert len(pool) == 2


async def test_the_developer_can_say_whose_a_request_is(pool: SandboxPool) -> None:
    """`conversation` and `tenant` are given the SDK's own context."""
    server = as_server(
        pool,
        conversation=lambda context: f"r{str(context.request_id)[:0]}",
        tenant=lambda context: type(context).__name__,
    )
    async with connected(server) as session:
        answer = await call(session, PRINT)
    assert answer["structuredContent"]["stdout"] == "42\n"
    (tenant,) = ("RequestContext",) if IS_OLD else ("ServerRequestContext",)
    assert pool.peek("r", tenant=tenant) is not None


async def test_over_http_the_developer_has_to_say_it(pool: SandboxPool) -> None:
    """One server serves everybody there, and whoever is not told apart runs nothing."""
    server = as_server(pool)
    async with served(server) as url, over_http(url) as session:
        answer = await call(session, PRINT)
    fault = answer["structuredContent"]["fault"]
    assert (fault["type"], fault["reason"]) == ("startup_failed", "conversation")
    assert "conversation=" in answer["content"][0]["text"]
    assert len(pool) == 0


async def test_over_http_sessions_can_be_told_apart(pool: SandboxPool) -> None:
    """By the header that the SDK's own server has given each."""

    def session_of(context: Any) -> str | None:
        session: str | None = context.request.headers.get("mcp-session-id")
        return session

    server = as_server(pool, conversation=session_of)
    written = {"path": "a.txt", "content": "hi"}
    async with (
        served(server) as url,
        over_http(url) as one,
        over_http(url) as other,
    ):
        await call(one, written, "write_file")
        listings = [await call(each, {}, "list_files") for each in (one, other)]
    texts = [listing["content"][0]["text"] for listing in listings]
    assert ["a.txt" in text for text in texts] == [True, False]
