"""Our tools called by the SDK's own client, for the contract of adapters."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from mcp import ClientSession
from mcp.shared.memory import create_client_server_memory_streams

from kern_tools.adapters.mcp.server import as_server
from kern_tools.adapters.mcp.wire import ARTIFACT
from kern_tools.contract_adapter import Outcome
from kern_tools.reply import ImagePart
from kern_tools.sandbox import Sandbox

__all__ = ["McpCaller", "caller", "connected"]


@asynccontextmanager
async def connected(server: Any, **options: Any) -> AsyncGenerator[ClientSession]:
    """Connect the SDK's client to a server in this process.

    Args:
        server: What `as_server` gave.
        options: Of `ClientSession`.
    """
    async with (
        create_client_server_memory_streams() as (ours, theirs),
        anyio.create_task_group() as tasks,
    ):
        start = server.create_initialization_options()
        tasks.start_soon(server.run, *theirs, start)
        async with ClientSession(*ours, **options) as session:
            await session.initialize()
            yield session
        tasks.cancel_scope.cancel()


@dataclass
class McpCaller:
    """Requests of a client in, what was on the wire out; a connection for each."""

    server: Any

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call a tool; the SDK is async, so that there is one way."""
        return anyio.run(self.acall, tool, arguments)

    async def acall(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call it in the loop that runs."""
        async with connected(self.server) as session:
            answer: Any = await session.call_tool(tool, dict(arguments))
            # The attributes have other names in each release; the wire has one.
            return self._read(answer.model_dump(mode="json", by_alias=True))

    def _read(self, answer: dict[str, Any]) -> Outcome:
        text, *images = answer["content"]
        # Where the client wants no structured content, the result is beside it.
        artifact = answer.get("structuredContent") or answer["_meta"][ARTIFACT]
        fault = artifact["fault"]
        return Outcome(
            text=text["text"],
            images=tuple(
                ImagePart(part["mimeType"], base64.b64decode(part["data"]))
                for part in images
            ),
            fault_type=fault and fault["type"],
            is_error=answer["isError"],
            artifact=artifact,
        )


def caller(sandbox: Sandbox) -> McpCaller:
    """Serve every tool of `sandbox`."""
    return McpCaller(as_server(sandbox, "coding"))
