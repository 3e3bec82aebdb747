"""Clients of an MCP server: the SDK's own, in memory and over pipes, and a bare one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sysconfig
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import mcp.types
import uvicorn
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from kern_tools.adapters.mcp.caller import connected

__all__ = [
    "INITIALIZE",
    "IS_OLD",
    "PROGRAM",
    "BareClient",
    "Told",
    "bare",
    "cancel",
    "connected",
    "dumped",
    "over_http",
    "served",
    "set_level",
    "spawned",
]

PROGRAM = Path(sysconfig.get_path("scripts")) / "kern-tools"
IS_OLD = version("mcp").startswith("1.")
"""The SDK is of its releases 1.x: one protocol era, and answers to cancelled calls."""

INITIALIZE: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bare", "version": "1"},
}


def dumped(message: Any) -> dict[str, Any]:
    """Give what the SDK read as it was on the wire, whatever its attributes' names."""
    plain: dict[str, Any] = message.model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    return plain


@dataclass
class Told:
    """What a client was told while calls ran."""

    entries: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    progress: list[tuple[float, str | None]] = field(
        default_factory=list[tuple[float, "str | None"]]
    )

    async def log(self, params: Any) -> None:
        """Take an entry of the log."""
        self.entries.append(dumped(params))

    async def on_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Take a notice of progress."""
        assert total is None
        self.progress.append((progress, message))


@asynccontextmanager
async def spawned(*words: str | Path, **options: Any) -> AsyncGenerator[ClientSession]:
    """Connect the SDK's client to a `kern-tools mcp` of its own."""
    command = StdioServerParameters(
        command=str(PROGRAM), args=["mcp", *map(str, words)], env=dict(os.environ)
    )
    async with (
        stdio_client(command) as streams,
        ClientSession(*streams, **options) as session,
    ):
        await session.initialize()
        yield session


@asynccontextmanager
async def served(server: Any) -> AsyncGenerator[str]:
    """Serve over HTTP, to as many clients as come; gives the URL."""
    manager = StreamableHTTPSessionManager(app=server)
    config = uvicorn.Config(
        manager.handle_request,
        interface="asgi3",
        port=0,
        lifespan="off",
        log_level="error",
    )
    http = uvicorn.Server(config)
    async with manager.run():
        serving = asyncio.create_task(http.serve())
        while not http.started:
            await asyncio.sleep(0)
        port = http.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/mcp"
        http.should_exit = True
        await serving


@asynccontextmanager
async def over_http(url: str) -> AsyncGenerator[ClientSession]:
    """Connect the SDK's client to a server over HTTP."""
    async with (
        streamable_http_client(url) as streams,
        ClientSession(*streams[:2]) as session,
    ):
        await session.initialize()
        yield session


async def set_level(session: Any, level: str) -> None:
    """Ask for entries of the log from a level on; the SDK's own method would warn."""
    request: Any = mcp.types.SetLevelRequest.model_validate(
        {"method": "logging/setLevel", "params": {"level": level}}
    )
    if IS_OLD:
        request = mcp.types.ClientRequest(request)  # type: ignore[operator]
    await session.send_request(request, mcp.types.EmptyResult)


async def cancel(session: Any, number: int) -> None:
    """Say that a request is cancelled, which clients of releases 1.x do not."""
    notice: Any = mcp.types.CancelledNotification.model_validate(
        {"method": "notifications/cancelled", "params": {"requestId": number}}
    )
    if IS_OLD:
        notice = mcp.types.ClientNotification(notice)  # type: ignore[operator]
    await session.send_notification(notice)


class BareClient:
    """Writes and reads lines of JSON, so that it can misbehave."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.writing: IO[bytes] = process.stdin
        self.reading: IO[bytes] = process.stdout

    def send(self, method: str, params: Mapping[str, Any], **more: Any) -> None:
        """Write one message."""
        message = {"jsonrpc": "2.0", "method": method, "params": params, **more}
        self.writing.write(json.dumps(message).encode() + b"\n")
        self.writing.flush()

    def call(self, code: str, number: int = 1) -> None:
        """Ask for code to be run."""
        params = {"name": "run_code", "arguments": {"code": code}}
        self.send("tools/call", params, id=number)

    def read(self) -> dict[str, Any]:
        """Read the next message that is no notice."""
        while True:
            message: dict[str, Any] = json.loads(self.reading.readline())
            if "id" in message:
                return message


@contextmanager
def bare(
    *words: str | Path, command: Sequence[str] = (str(PROGRAM), "mcp"), **env: str
) -> Generator[BareClient]:
    """Start a `kern-tools mcp`, and shake hands."""
    with subprocess.Popen(
        [*command, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **env},
    ) as process:
        client = BareClient(process)
        try:
            client.send("initialize", INITIALIZE, id=0)
            client.read()
            client.send("notifications/initialized", {})
            yield client
        finally:
            process.kill()
