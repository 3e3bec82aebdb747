"""A trace that an MCP client is in goes on in the server, in any release of the SDK."""

# The SDK of the other releases has other names; what it read is looked at as JSON.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import sys
from typing import Any

import mcp.types
import pytest
from opentelemetry.trace import StatusCode

from kern_tools import Sandbox
from kern_tools.adapters.mcp import as_server
from tests.depth import partly
from tests.traces import Traces, attributes, parent_of

from .mcp_clients import IS_OLD, bare, connected

TRACE, SPAN = "a" * 32, "b" * 16


@pytest.fixture
def traces(sandbox: Sandbox) -> Traces:
    """What is told of the sandbox's calls."""
    traces = Traces()
    traces.follow(sandbox)
    return traces


async def call(session: Any, arguments: Any, meta: Any) -> None:
    """Ask for a call, with something beside the request."""
    params = {"name": "run_code", "arguments": arguments, "_meta": meta}
    request: Any = mcp.types.CallToolRequest.model_validate(
        {"method": "tools/call", "params": params}
    )
    if IS_OLD:
        request = mcp.types.ClientRequest(request)  # type: ignore[operator]
    await session.send_request(request, mcp.types.CallToolResult)


async def test_the_clients_trace_goes_on(sandbox: Sandbox, traces: Traces) -> None:
    """By what it sends beside the request; without that, each call is its own."""
    sent = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
    async with connected(as_server(sandbox)) as session:
        await call(session, {"code": "print(7)"}, sent)
        await call(session, {"code": "print(8)"}, {"traceparent": 5})
    below, alone = traces.spans()
    assert below.context is not None
    assert below.context.trace_id == int(TRACE, 16)
    assert parent_of(below) == int(SPAN, 16)
    assert parent_of(alone) is None


async def test_a_call_is_told_by_the_requests_id(
    sandbox: Sandbox, traces: Traces
) -> None:
    """And ends as an error where the answer is one."""
    async with connected(as_server(sandbox)) as session:
        await call(session, {"cod": "print(7)"}, {})
    span = traces.span()
    assert attributes(span)["gen_ai.tool.call.id"].isdigit()
    assert attributes(span)["error.type"] == "bad_arguments"
    assert span.status.status_code is StatusCode.ERROR


PROVIDED = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from kern_tools.cli import main

provider = TracerProvider()
exporter = ConsoleSpanExporter(out=sys.stderr)
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
sys.argv = ["kern-tools", "mcp", *sys.argv[1:]]
main()
"""
"""What `opentelemetry-instrument` does: it sets the providers up before the program."""


ASKED = partly([[], ["--telemetry"]], bool)


@pytest.mark.parametrize("words", ASKED, ids=["off", "on"])
def test_the_command_tells_of_its_calls_where_it_is_asked_to(words: list[str]) -> None:
    """By the providers of its process; stdout carries the protocol alone."""
    with bare(*words, command=[sys.executable, "-c", PROVIDED]) as client:
        client.call("print(7)")
        assert client.read()["result"]["structuredContent"]["stdout"] == "7\n"
        client.writing.close()
        assert client.process.stderr is not None
        told = client.process.stderr.read().decode()
    assert ('"name": "execute_tool run_code"' in told) is bool(words)
