"""One sandbox for each conversation, opened when it is asked for."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NoReturn, Self

from .config import SandboxConfig
from .conversations import Namer, conversation_of
from .facts import SandboxFacts
from .faults import SandboxError
from .host import host_report
from .image import HOST, ImageRef
from .keeping import Keeping, OnEvict
from .lease import Lease
from .observing import Observable, Observer
from .pool_options import check_own, config_of
from .sandbox import Sandbox
from .seats import Seats
from .toolsets import DEFAULT_SETS
from .turnover import Turnover

MAX_SANDBOXES = 256
IDLE_TIMEOUT_S = 1800.0
OPENED_AT_ONCE = 8


class SandboxPool(Observable):
    """Gives every conversation a sandbox of its own, and bounds how many there are.

    The first call of a conversation opens its sandbox, however many calls come first
    at once. Where there is no room, the sandbox that has gone unused longest is closed;
    one that runs a call, or that somebody leased, never is. A conversation that comes
    back gets a new sandbox, whose first result says `state_new`: with `snapshots` its
    files are there again, else it says `files_lost`. May be used from any thread and
    event loop.

    Args:
        config: Options of every sandbox; or give them by name, see `SandboxConfig`.
        max_sandboxes: How many may be open at once.
        max_per_tenant: How many one tenant may have open at once. Room is made among
            the tenant's own; None is no such limit.
        idle_timeout_s: A sandbox that nobody has used for so many seconds is closed;
            None keeps it until its room is needed.
        snapshots: A folder, or the URL of one that fsspec knows, for the files of
            sandboxes that the pool closes.
        secret: Keeps those who see the names of snapshots from recognising keys that
            can be guessed. The same one finds the same snapshots again.
        on_evict: Called with the open sandbox, the conversation and the tenant before
            the pool closes it for want of room or use. If it raises, or if the
            snapshot fails, the sandbox is kept. Whatever it runs, tools and agents
            too, may ask the pool for that conversation, and is given that sandbox; it
            must not wait for a thread of yours that asks.
        **options: Those of `SandboxConfig`, but `workspace`: each has its own.

    Raises:
        ConfigError: An option cannot be used; nothing was started.
    """

    def __init__(
        self,
        config: SandboxConfig | None = None,
        /,
        *,
        max_sandboxes: int = MAX_SANDBOXES,
        max_per_tenant: int | None = None,
        idle_timeout_s: float | None = IDLE_TIMEOUT_S,
        snapshots: str | os.PathLike[str] | None = None,
        secret: str | bytes = "",
        on_evict: OnEvict | None = None,
        **options: Any,
    ) -> None:
        check_own(
            max_sandboxes=max_sandboxes,
            max_per_tenant=max_per_tenant,
            idle_timeout_s=idle_timeout_s,
            snapshots=snapshots,
            secret=secret,
            on_evict=on_evict,
        )
        self.config = config_of(config, options)
        self._namer = Namer(secret)
        self._keeping = Keeping(self._namer, snapshots, on_evict)
        self._seats = Seats(max_sandboxes, max_per_tenant)
        self._turnover = Turnover(
            self.config, self._seats, self._keeping, idle_timeout_s
        )
        self._openers = ThreadPoolExecutor(OPENED_AT_ONCE, "kern-tools-pool")
        self._pid = os.getpid()
        self._lose = weakref.finalize(self, self._turnover.abandon, self._pid)
        self._lose.atexit = False

    # -- sandboxes

    def get(self, conversation: object, *, tenant: object = None) -> Sandbox:
        """Give a conversation's sandbox, opened where it is not yet.

        It is not closed while a call of it runs or waits. Between calls it may be, once
        enough others were used since: hold it with `lease` where that matters.

        Args:
            conversation: The framework's own id of the conversation.
            tenant: Whose it is; the same id of two tenants is two conversations.

        Raises:
            ConfigError: `conversation` or `tenant` names nobody; there is no default.
            PoolFull: All sandboxes that there may be are in use.
            SandboxError: The sandbox cannot be opened, or the one that should make room
                cannot be kept; `fault` says why.
            SandboxClosed: The pool is closed.
        """
        with self.lease(conversation, tenant=tenant) as sandbox:
            return sandbox

    async def aget(self, conversation: object, *, tenant: object = None) -> Sandbox:
        """Do as `get`, without blocking the event loop."""
        async with self.lease(conversation, tenant=tenant) as sandbox:
            return sandbox

    def lease(self, conversation: object, *, tenant: object = None) -> Lease:
        """Hold a conversation's sandbox for a `with` or `async with` block.

        The block is given the open sandbox, which the pool does not close meanwhile.
        Entering raises what `get` raises.

        Args:
            conversation: The framework's own id of the conversation.
            tenant: Whose it is.

        Raises:
            ConfigError: `conversation` or `tenant` names nobody.
        """
        self._check_process()
        whose = conversation_of(conversation, tenant)
        return Lease(self._seats, whose, self._turnover.open, self._openers)

    def peek(self, conversation: object, *, tenant: object = None) -> Sandbox | None:
        """Give a conversation's sandbox if it is open; that does not count as use."""
        seat = self._seats.find(conversation_of(conversation, tenant))
        return None if seat is None or seat.left is not None else seat.sandbox

    def drop(self, conversation: object, *, tenant: object = None) -> bool:
        """End a conversation: close its sandbox and remove what was kept of it.

        Calls that run end as at `Sandbox.close`.

        Returns:
            Whether its sandbox was open.
        """
        whose = conversation_of(conversation, tenant)
        seat = self._seats.find(whose)
        if seat is not None:
            self._turnover.part(seat, keep=False)
        self._keeping.forget(whose)
        return seat is not None

    async def adrop(self, conversation: object, *, tenant: object = None) -> bool:
        """Do as `drop`, without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.drop, conversation, tenant=tenant)

    def __len__(self) -> int:
        return len(self._seats)

    def names(self) -> list[str]:
        """List the conversations that have a sandbox, by names that hide their keys."""
        return sorted(self._namer.name(seat.whose) for seat in self._seats.all())

    def name_of(self, conversation: object, *, tenant: object = None) -> str:
        """Give the name by which `names` lists a conversation."""
        return self._namer.name(conversation_of(conversation, tenant))

    # -- what a prompt may say

    def describe(self) -> SandboxFacts:
        """Give the plain facts about every sandbox; opens none."""
        image = ImageRef(self.config.image, host_python=self.config.image == HOST)
        enforced = host_report().limits_enforced
        return SandboxFacts.of(self.config, image, limits_enforced=enforced)

    def system_prompt(
        self,
        tools: str | Sequence[str] = DEFAULT_SETS,
        *,
        images: Literal["parts", "none"] = "parts",
    ) -> str:
        """Tell a model the truth about its sandbox, as text for a system message.

        Args:
            tools: Names of the sets or single tools that it is offered.
            images: As it was given to `as_tools`.
        """
        from .prompting import system_prompt

        return system_prompt(self.describe().offering(tools, images=images))

    # -- life

    def observe(self, observer: Observer | None) -> None:
        """Have an observer told of the calls of every sandbox, those to come too."""
        super().observe(observer)
        self._turnover.observe(observer)

    def close(self) -> None:
        """Close every sandbox, after a snapshot where those are kept; opens no more.

        Raises:
            SandboxError: A snapshot failed; all sandboxes are closed all the same.
        """
        if os.getpid() != self._pid:
            return
        try:
            self._turnover.close()
            self._lose.detach()
        finally:
            self._openers.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        import asyncio

        await asyncio.shield(asyncio.to_thread(self.close))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a pool holds live sandboxes and cannot be pickled: keep the conversation's"
            " id, which finds its sandbox again"
        )

    def __repr__(self) -> str:
        return f"<SandboxPool of {len(self)}, image={self.config.image!r}>"

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise SandboxError(
                "this pool was made before the process was forked and cannot be used in"
                " the child: make it after the fork (for gunicorn or Celery in the"
                " worker's start hook), or start workers with the 'spawn' method",
                code="forked",
            )
