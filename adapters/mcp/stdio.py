"""One client over the process's own stdin and stdout."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import sys
from dataclasses import dataclass
from threading import Thread
from typing import Any, BinaryIO, Self, cast

from kern_tools.adapters.mcp.offer import WRITTEN
from kern_tools.extras import missing

try:
    import anyio
    from mcp.server.stdio import stdio_server
except ImportError as error:
    missing("mcp", error)

_ENDINGS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Wires:
    """The ends of a client's pipes, which nothing else in this process can reach."""

    reading: BinaryIO
    writing: BinaryIO

    @classmethod
    def claim(cls) -> Self:
        """Take stdin and stdout: from now on reads find nothing, prints go to stderr.

        What a library prints, or a child process, would break the protocol.
        """
        sys.stdout.flush()
        wires = cls(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        return wires


def serve_stdio(server: Any, wires: Wires | None = None) -> None:
    """Serve one client until it is gone; in the main thread.

    Args:
        server: What `as_server` gave.
        wires: What was claimed earlier; by default they are claimed now.

    Raises:
        SystemExit: SIGHUP, SIGINT or SIGTERM came; calls have ended. A second one
            ends the process at once.
    """
    number = asyncio.run(_serve(server, wires or Wires.claim()))
    if number is not None:
        raise SystemExit(128 + number)


async def _serve(server: Any, wires: Wires) -> int | None:
    caught: list[int] = []
    with anyio.CancelScope() as scope:
        _on_signal(scope, caught)
        try:
            await _run(server, wires)
        except* BrokenPipeError:
            _forget(wires.writing)  # the client reads no more: it is gone
    return caught[0] if caught else None


async def _run(server: Any, wires: Wires) -> None:
    # The SDK asks of the first no more than to be iterated over.
    reading = cast("anyio.AsyncFile[str]", _Lines(wires.reading))
    writing = anyio.wrap_file(io.TextIOWrapper(wires.writing, encoding="utf-8"))
    async with stdio_server(reading, writing) as streams:
        await server.run(*streams, server.create_initialization_options())


def _on_signal(scope: anyio.CancelScope, caught: list[int]) -> None:
    """Have the first signal end what runs, and leave a second one to the system."""
    loop = asyncio.get_running_loop()

    def end(number: int) -> None:
        caught.append(number)
        for each in _ENDINGS:
            loop.remove_signal_handler(each)
        scope.cancel()

    for number in _ENDINGS:
        loop.add_signal_handler(number, end, number)


def _forget(writing: BinaryIO) -> None:
    """Let what is still to be flushed go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, writing.fileno())
    os.close(nowhere)


class _Lines:
    """The client's messages, one a line, read on a thread that nobody waits for."""

    def __init__(self, source: BinaryIO) -> None:
        self._loop = asyncio.get_running_loop()
        self._read: asyncio.Queue[bytes] = asyncio.Queue(1)
        Thread(target=self._go_on, args=(source,), daemon=True).start()

    def _go_on(self, source: BinaryIO) -> None:
        line = b"-"
        while line:  # the last one is empty
            line = source.readline()
            put = self._read.put(line)
            asyncio.run_coroutine_threadsafe(put, self._loop).result()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        line = await self._read.get()
        if not line:
            raise StopAsyncIteration
        if _SURROGATE.search(line):
            line = _with_arguments_as_text(line)
        return line.decode("utf-8", "replace")


def _with_arguments_as_text(line: bytes) -> bytes:
    """Put the arguments of a call into text, which the tool then reads.

    They may hold half a surrogate pair, for which the SDK's parser would drop the
    message, unanswered.
    """
    try:
        message = cast("dict[str, Any]", json.loads(line))
        params = message["params"]
        params["arguments"] = {WRITTEN: json.dumps(params["arguments"])}
    except (ValueError, LookupError, TypeError):
        return line
    return json.dumps(message).encode() + b"\n"
