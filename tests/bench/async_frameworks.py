"""What the adapters of frameworks that are async alone add to a call; see `frameworks`.

An MCP call goes from the SDK's client to a server in this process and back; one of the
Agents SDK is a whole run of its runner, whose model makes one call and ends. Both live
in an event loop of a thread of their own, and no-op tools take the same way there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from typing import Any, cast

from agents import Agent, RunConfig, Runner, function_tool
from mcp.server.mcpserver import MCPServer

from kern_tools import Sandbox
from kern_tools.adapters.mcp import as_server
from kern_tools.adapters.openai_agents import as_tools
from kern_tools.reply import Reply
from kern_tools.tools import TOOLS, ToolSpec, tools_of
from tests.adapters.agents_model import ScriptedModel, asked, said
from tests.adapters.mcp_clients import connected

from .frameworks import ARGUMENTS, cost, no_op, once
from .harness import Contestant, Workload

Call = Callable[[], Coroutine[Any, Any, object]]
_QUIET = RunConfig(tracing_disabled=True)


@contextmanager
def async_adapters() -> Generator[Workload]:
    """Compare tools of ours with no-op tools, framework by framework."""
    with Sandbox(prewarm=0) as sandbox, _prepared(sandbox), _loop(sandbox) as calls:
        (tool,) = tools_of(sandbox, "run_code")
        contestants = {"core": once(lambda: tool.call(ARGUMENTS)), **calls}
        yield Workload(
            name="async adapters",
            about="The same with frameworks that are async: an MCP call from the SDK's"
            " client to a server in the same process, and a run of the Agents SDK with"
            " one call; with calls from one thread to another, as the no-op tools.",
            contestants=[Contestant(n, run) for n, run in contestants.items()],
            figures=[cost("MCP", "core", 3.0), cost("Agents SDK", "core", 1.0)],
            rounds=150,
            pace_s=0.002,
        )


@contextmanager
def _prepared(sandbox: Sandbox) -> Generator[None]:
    """Have `run_code` answer every call with the reply of one real run."""
    (real,) = tools_of(sandbox, "run_code")
    reply, spec = real.call(ARGUMENTS), real.spec
    assert reply.result is not None
    assert reply.result.stdout == "1\n", reply.text

    def run(*given: Any) -> Reply:
        return replace(reply, call_id=given[2])

    async def arun(*given: Any) -> Reply:
        return run(*given)

    tools = cast("dict[str, ToolSpec]", TOOLS)
    tools["run_code"] = replace(spec, run=run, arun=arun)
    try:
        yield
    finally:
        tools["run_code"] = spec


@contextmanager
def _loop(sandbox: Sandbox) -> Generator[dict[str, Callable[[], None]]]:
    """Keep connections open in a thread; give calls that wait for their end there."""
    ready: Future[dict[str, Call]] = Future()
    over = asyncio.Event()

    async def live() -> None:
        async with AsyncExitStack() as open_until:
            calls = {**await _mcp(sandbox, open_until), **_agents(sandbox)}
            loops.append(asyncio.get_running_loop())
            ready.set_result(calls)
            await over.wait()

    loops: list[asyncio.AbstractEventLoop] = []
    thread = threading.Thread(target=asyncio.run, args=(live(),))
    thread.start()
    calls = ready.result()
    (loop,) = loops

    def waited(call: Call) -> Callable[[], None]:
        return once(lambda: asyncio.run_coroutine_threadsafe(call(), loop).result())

    try:
        yield {name: waited(call) for name, call in calls.items()}
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()


async def _mcp(sandbox: Sandbox, open_until: AsyncExitStack) -> dict[str, Call]:
    other = MCPServer("no-op")
    other.tool(name="run_code")(no_op)
    servers = {
        "MCP, no-op": other._lowlevel_server,  # pyright: ignore[reportPrivateUsage]
        "MCP, ours": as_server(sandbox, "run_code"),
    }
    sessions = {
        name: await open_until.enter_async_context(connected(server))
        for name, server in servers.items()
    }

    def calling(session: Any) -> Call:
        return lambda: session.call_tool("run_code", ARGUMENTS)

    return {name: calling(session) for name, session in sessions.items()}


def _agents(sandbox: Sandbox) -> dict[str, Call]:
    (ours,) = as_tools(sandbox, "run_code")
    other = function_tool(no_op, name_override="run_code")

    def running(tool: Any) -> Call:
        async def run() -> object:
            model = ScriptedModel([asked(ARGUMENTS)], [said()])
            agent = Agent(name="a", model=model, tools=[tool])
            return await Runner.run(agent, "go", run_config=_QUIET)

        return run

    return {"Agents SDK, no-op": running(other), "Agents SDK, ours": running(ours)}
