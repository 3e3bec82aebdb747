"""The actor on a node: one sandbox, and what the pool's process asks of it.

Its methods are async, so that one may stop what another does. A call is stopped by a
method of ours: `ray.cancel` can miss a call that was sent just before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import ray

from kern_tools.config import SandboxConfig
from kern_tools.events import OutputEvent, ResultEvent
from kern_tools.facts import SandboxFacts
from kern_tools.image import image_info
from kern_tools.result import ExecutionResult
from kern_tools.sandbox import Sandbox

from .agreement import NodeFacts, facts_here
from .held import HeldFiles
from .told import RemoteCall, Told, told

if TYPE_CHECKING:
    from kern_tools.call import Lost
    from kern_tools.streaming import CallStream

_T = TypeVar("_T")
_AHEAD = 8
"""Events that wait for the network; the call's stream holds and bounds the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Furnished:
    """What there is once a sandbox is open.

    Attributes:
        facts: For the words of prompts.
        node: The node, with its image.
        root: The workspace's directory on the node.
    """

    facts: SandboxFacts
    node: NodeFacts
    root: Path


class SandboxActor:
    """One conversation's sandbox, on the node where Ray put it."""

    def __init__(self) -> None:
        self._sandbox: Sandbox | None = None
        self._files = HeldFiles()
        self._running: dict[int, asyncio.Task[Any]] = {}
        self._stopped: set[int] = set()

    async def stay(self) -> None:
        """Never come back: whoever awaits this learns when the actor is gone."""
        await asyncio.Event().wait()

    async def identify(self) -> Told:
        """Say what this node runs, as `NodeFacts`."""
        return await told(asyncio.to_thread(facts_here, _node_id()))

    async def open(self, config: SandboxConfig) -> Told:
        """Open the sandbox; its options are checked again, against this host.

        It is told as `Furnished`.
        """
        return await told(asyncio.to_thread(self._open, config))

    def _open(self, config: SandboxConfig) -> Furnished:
        sandbox = self._sandbox = Sandbox(config.replace())
        sandbox.open()
        return Furnished(
            facts=sandbox.describe(),
            node=replace(facts_here(_node_id()), image=_image_of(sandbox)),
            root=sandbox.workspace.root,
        )

    async def close(self) -> Told:
        """End all calls, wait until no box is left, remove the workspace."""
        if self._sandbox is None:
            return Told()
        self._files.close()
        return await told(asyncio.to_thread(self._sandbox.close))

    # -- calls

    async def run(self, asked: RemoteCall) -> Told:
        """Run one call to its end, told as its `ExecutionResult`."""
        return await told(self._stoppable(asked.token, self._run(asked)))

    async def stream(self, asked: RemoteCall) -> AsyncGenerator[OutputEvent | Told]:
        """Run one call, and tell what it writes; its result is the last item."""
        events: asyncio.Queue[OutputEvent] = asyncio.Queue(_AHEAD)
        pumping = self._stoppable(asked.token, self._pump(asked, events))
        ended = asyncio.ensure_future(told(pumping))
        while not (ended.done() and events.empty()):
            event = asyncio.ensure_future(events.get())
            await asyncio.wait([event, ended], return_when=asyncio.FIRST_COMPLETED)
            if event.done():
                yield event.result()
            else:
                event.cancel()
        yield await ended

    async def stop(self, token: int) -> None:
        """End a call, also one that has not arrived yet; its box goes first."""
        running = self._running.get(token)
        if running is None:
            self._stopped.add(token)
        else:
            running.cancel()

    async def _stoppable(self, token: int, call: Coroutine[Any, Any, _T]) -> _T:
        running = asyncio.ensure_future(call)
        self._running[token] = running
        if token in self._stopped:
            running.cancel()
        try:
            return await running
        finally:
            del self._running[token]
            self._stopped.discard(token)

    async def _run(self, asked: RemoteCall) -> ExecutionResult:
        how: dict[str, Any] = {"timeout_s": asked.timeout_s, "call_id": asked.call_id}
        if asked.is_command:
            return await self._opened().arun(asked.given, **how)
        return await self._opened().arun_code(*asked.given, **how)

    async def _pump(
        self, asked: RemoteCall, events: asyncio.Queue[OutputEvent]
    ) -> ExecutionResult:
        async with self._stream(asked) as stream:
            async for event in stream:
                if isinstance(event, ResultEvent):
                    return event.result
                await events.put(event)
        raise AssertionError("a stream ends with its result")

    def _stream(self, asked: RemoteCall) -> CallStream:
        how: dict[str, Any] = {"timeout_s": asked.timeout_s, "call_id": asked.call_id}
        if asked.is_command:
            return self._opened().stream(asked.given, **how)
        return self._opened().stream_code(*asked.given, **how)

    # -- the rest of a sandbox

    async def ask(self, method: str, *arguments: Any, **options: Any) -> Told:
        """Call a method of the sandbox, on a thread."""
        return await told(self._asked(self._opened, method, arguments, options))

    async def ask_files(self, method: str, *arguments: Any, **options: Any) -> Told:
        """Call a method of its workspace, on a thread."""
        files = lambda: self._opened().workspace  # noqa: E731
        return await told(self._asked(files, method, arguments, options))

    async def ask_held(self, method: str, *arguments: Any) -> Told:
        """Call a method of the files held open here, on a thread."""
        return await told(self._asked(self._holding, method, arguments))

    async def declare_lost(self, lost: Lost) -> Told:
        """Have the next result say what an earlier sandbox took with it."""
        self._opened().declare_lost(lost)
        return Told()

    async def _asked(
        self,
        whom: Any,
        method: str,
        arguments: tuple[Any, ...],
        options: dict[str, Any] | None = None,
    ) -> Any:
        asked = getattr(whom(), method)
        return await asyncio.to_thread(asked, *arguments, **(options or {}))

    def _holding(self) -> HeldFiles:
        self._files.sandbox = self._opened()
        return self._files

    def _opened(self) -> Sandbox:
        assert self._sandbox is not None
        return self._sandbox


def _node_id() -> str:
    return str(ray.get_runtime_context().get_node_id())


def _image_of(sandbox: Sandbox) -> str:
    """Name what boxes start from; a tag may mean another image on another node."""
    facts = sandbox.describe()
    if facts.host_python:
        with_them = "".join(f", {name} {version}" for name, version in facts.packages)
        return f"host of Python {facts.python_version}{with_them}"
    info = image_info(facts.image)
    if info is None:
        return facts.image
    return f"{facts.image} {info['architecture']} {info['size_bytes']} bytes"
