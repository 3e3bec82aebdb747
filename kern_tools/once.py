"""Tools of which each call runs once, however often a framework sends it.

What resumes from a checkpoint may make calls again that had ended. Under the same id
they are given their first reply again, and nothing runs.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import replace
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

from pydantic import BaseModel

from .events import OnOutput
from .faults import FaultType
from .reply import ImagePart, Reply
from .sandbox import Sandbox
from .toolspec import ToolSpec

CALLS_KEPT = 256
"""Replies that are remembered of one sandbox; the oldest are forgotten."""
BYTES_KEPT = 32 << 20
"""What they may hold together; the newest is always remembered."""

_NOTHING_RAN = ("bad_arguments", "stopped")
_LIMIT = "timeout_s"


class CallKey(NamedTuple):
    """What makes two calls the same one.

    Attributes:
        call_id: The framework's id.
        tool: The tool that was called.
        arguments: A digest of them, the time limit apart: a policy may raise it. Some
            servers count their ids from the start in each turn, so that an id alone
            is not enough.
    """

    call_id: str
    tool: str
    arguments: str

    @classmethod
    def of(cls, call_id: str, tool: str, arguments: BaseModel) -> CallKey:
        """Make the key of a call."""
        written = repr(arguments.model_dump(exclude={_LIMIT}))
        digest = hashlib.sha256(written.encode("utf-8", "surrogatepass"))
        return cls(call_id, tool, digest.hexdigest())


def once(spec: ToolSpec) -> ToolSpec:
    """Make a tool of which each call of a sandbox runs once.

    A call without an id always runs. So does one of which nothing ran the first time,
    or that was cancelled, and one that `Replies` has forgotten.

    Args:
        spec: The tool.

    Returns:
        The same tool; a reply that is given again has `replayed` set.
    """

    def run(
        sandbox: Sandbox,
        arguments: BaseModel,
        call_id: str | None,
        on_output: OnOutput | None,
    ) -> Reply:
        if not call_id:
            return spec.run(sandbox, arguments, call_id, on_output)
        return replies_of(sandbox).once(
            CallKey.of(call_id, spec.name, arguments),
            lambda: spec.run(sandbox, arguments, call_id, on_output),
        )

    async def arun(
        sandbox: Sandbox,
        arguments: BaseModel,
        call_id: str | None,
        on_output: OnOutput | None,
    ) -> Reply:
        if not call_id:
            return await spec.arun(sandbox, arguments, call_id, on_output)
        return await replies_of(sandbox).aonce(
            CallKey.of(call_id, spec.name, arguments),
            lambda: spec.arun(sandbox, arguments, call_id, on_output),
        )

    return replace(spec, run=run, arun=arun)


class Replies:
    """What the calls of one sandbox came to; threads and event loops may share it.

    Args:
        calls_kept: How many are remembered.
        bytes_kept: How much they hold together.
    """

    def __init__(
        self, calls_kept: int = CALLS_KEPT, bytes_kept: int = BYTES_KEPT
    ) -> None:
        self._most = (calls_kept, bytes_kept)
        self._ended: OrderedDict[CallKey, Reply] = OrderedDict()
        self._running: dict[CallKey, Future[Reply | None]] = {}
        self._bytes = 0
        self._lock = Lock()

    def once(self, key: CallKey, run: Callable[[], Reply]) -> Reply:
        """Give the reply of a call, running it unless that was done.

        Args:
            key: The call. One that runs already is waited for.
            run: Makes it.
        """
        while (running := self._claim(key)) is not None:
            known = running.result()
            if known is not None:
                return replace(known, replayed=True)
        try:
            reply = run()
        except BaseException:
            self._settle(key, None)
            raise
        self._settle(key, reply)
        return reply

    async def aonce(self, key: CallKey, run: Callable[[], Awaitable[Reply]]) -> Reply:
        """Do as `once`, natively async."""
        import asyncio  # as costly to import as the rest of the package together

        while (running := self._claim(key)) is not None:
            # A waiter that is cancelled leaves the call to the one that made it.
            known = await asyncio.shield(asyncio.wrap_future(running))
            if known is not None:
                return replace(known, replayed=True)
        try:
            reply = await run()
        except BaseException:
            self._settle(key, None)
            raise
        self._settle(key, reply)
        return reply

    def _claim(self, key: CallKey) -> Future[Reply | None] | None:
        """Give what the call comes to, or None where it is the caller's to run."""
        with self._lock:
            ended = self._ended.get(key)
            if ended is not None:
                self._ended.move_to_end(key)
                known: Future[Reply | None] = Future()
                known.set_result(ended)
                return known
            running = self._running.get(key)
            if running is None:
                self._running[key] = Future()
            return running

    def _settle(self, key: CallKey, reply: Reply | None) -> None:
        """Take what came of a call; None where the next one has to run it."""
        if reply is not None:
            reply = replace(reply, result=reply.stored or reply.result, stored=None)
        kept = reply if reply is not None and _has_run(reply) else None
        with self._lock:
            if kept is not None:
                self._ended[key] = kept
                self._bytes += _size_bytes(kept)
                self._forget()
            running = self._running.pop(key)
        running.set_result(kept)

    def _forget(self) -> None:
        calls, size_bytes = self._most
        while len(self._ended) > max(calls, 1) or (
            self._bytes > size_bytes and len(self._ended) > 1
        ):
            _, oldest = self._ended.popitem(last=False)
            self._bytes -= _size_bytes(oldest)


_REPLIES: WeakKeyDictionary[Sandbox, Replies] = WeakKeyDictionary()


def replies_of(sandbox: Sandbox) -> Replies:
    """Give what a sandbox's calls came to, whichever tools they were made by."""
    known = _REPLIES.get(sandbox)
    return _REPLIES.setdefault(sandbox, Replies()) if known is None else known


def _has_run(reply: Reply) -> bool:
    if reply.error in _NOTHING_RAN:
        return False
    return reply.fault_type != FaultType.STARTUP_FAILED


def _size_bytes(reply: Reply) -> int:
    """Say about how much memory a reply holds."""
    total = sum(
        len(part.data) if isinstance(part, ImagePart) else len(part.text)
        for part in reply.parts
    )
    result = reply.result
    if result is None:
        return total
    total += len(result.stdout) + len(result.code_stderr)
    total += sum(len(file.path) for file in result.files)
    return total + sum(len(t) for value in result.results for t in value.data.values())
