"""One conversation's sandbox: a workspace that stays, a fresh box for every call."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from .config import SandboxConfig
from .faults import ConfigError, SandboxClosed, SandboxError
from .sandbox_calls import SandboxCalls
from .sandbox_files import SandboxFiles
from .toolsets import DEFAULT_SETS

if TYPE_CHECKING:
    from .call import Lost
    from .facts import SandboxFacts
    from .opened import Opened
    from .underway import Opening


class Sandbox(SandboxCalls, SandboxFiles):
    """Runs code nobody has read, each call in a kernel-enforced box of its own.

    Files in `/workspace` stay from call to call; `mode` says whether processes, `/tmp`
    and Python's names do. Calls may be made from any thread or event loop. One that is
    lost without `close` is closed once it is collected, with a `ResourceWarning`.

    Args:
        config: Ready options; or give them by name, see `SandboxConfig`.

    Raises:
        ConfigError: An option cannot be used; nothing was started.
    """

    def __init__(self, config: SandboxConfig | None = None, /, **options: Any) -> None:
        given = cast("object", config)
        if given is not None and not isinstance(given, SandboxConfig):
            raise ConfigError(
                f"Sandbox({given!r}) is not given a SandboxConfig; write"
                " Sandbox(timeout_s=5), or Sandbox(**options)"
            )
        if config is not None and options:
            config = config.replace(**options)
        self.config = config if config is not None else SandboxConfig(**options)
        self._pid = os.getpid()
        self._opened: Opened | None = None
        self._opening: Opening | None = None
        self._facts: SandboxFacts | None = None
        self._closed = False
        self._one_opens = threading.Lock()

    # -- life

    def open(self) -> Self:
        """Make the workspace and the image ready; `with` does this for you.

        Raises:
            SandboxError: The sandbox cannot be opened; `fault` says why.
            SandboxClosed: It was closed, maybe while this went on.
        """
        self._enter_process()
        with self._one_opens:
            if self._opened is None or self._closed:
                self._open()
        return self

    def _open(self) -> None:
        from .opened import Opened  # what runs boxes is not needed before
        from .underway import Opening

        self._opening = opening = Opening()
        try:
            self._check_not_closed()
            self._opened = opened = Opened(self.config, opening)
        except Exception as error:
            if opening.stopped:
                raise SandboxClosed(_CLOSED_MEANWHILE) from error
            raise
        finally:
            self._opening = None
            opening.finish()
        if self._closed:  # too late to cut it short
            opened.close()
            raise SandboxClosed(_CLOSED_MEANWHILE)

    def close(self) -> None:
        """End every call, wait until no box is left, remove a workspace of our own.

        An `open` under way in another thread is cut short and raises `SandboxClosed`.
        While it puts the files of an image together, which takes seconds, that is
        waited for.
        """
        self._closed = True
        if os.getpid() != self._pid:
            self._opened = None
            return
        opening = self._opening
        if opening is not None:
            opening.stop()
        opened = self._opened
        if opened is not None:
            opened.close()
            self._opened = None

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        import asyncio

        opening = asyncio.ensure_future(asyncio.to_thread(self.open))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.to_thread(self.close)
            raise

    async def __aexit__(self, *error: object) -> None:
        import asyncio

        await asyncio.shield(asyncio.to_thread(self.close))

    @property
    def is_open(self) -> bool:
        """It was opened and is not closed."""
        return self._opened is not None and not self._closed

    @property
    def quiet_since_s(self) -> float | None:
        """When the last call ended, by `time.monotonic()`; None while one runs."""
        return self._ready().quiet_since_s

    def declare_lost(self, lost: Lost) -> None:
        """Have the next result say what an earlier sandbox took with it.

        Args:
            lost: `names` for `state_new`; `files` for `files_lost` as well.
        """
        self._ready().lost = lost

    # -- what a prompt may say

    def describe(self) -> SandboxFacts:
        """Give the plain facts that prompts are rendered from; no secrets."""
        from .facts import SandboxFacts

        opened = self._ready()
        limits_enforced = opened.known_limits()
        known = self._facts
        if known is not None and known.limits_enforced == limits_enforced:
            return known
        facts = SandboxFacts.of(
            self.config,
            opened.image,
            limits_enforced=limits_enforced,
            deps=opened.deps,
        )
        if opened.deps is None and opened.image.host_python:  # else more may be found
            self._facts = facts
        return facts

    def system_prompt(
        self,
        tools: str | Sequence[str] = DEFAULT_SETS,
        *,
        images: Literal["parts", "none"] = "parts",
    ) -> str:
        """Tell a model the truth about this sandbox, as text for a system message.

        Args:
            tools: Names of the sets or single tools that it is offered.
            images: As it was given to `as_tools`.
        """
        from .prompting import system_prompt

        return system_prompt(self.describe().offering(tools, images=images))

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open" if self._opened else "not open"
        return f"<Sandbox {state} image={self.config.image!r}>"

    def _ready(self) -> Opened:
        opened = self._opened
        self._check_not_closed()
        if opened is None:
            raise SandboxClosed(
                "the sandbox is not open: use it inside `with`, or call `open()`"
            )
        if os.getpid() != self._pid:
            raise _forked()
        return opened

    def _check_not_closed(self) -> None:
        if self._closed:
            raise SandboxClosed("the sandbox is closed; make a new one")

    def _enter_process(self) -> None:
        """Have this process be the one that opens, or refuse what its parent opened."""
        if os.getpid() == self._pid:
            return
        if self._opened is not None or self._opening is not None:
            raise _forked()
        self._pid = os.getpid()
        self._one_opens = threading.Lock()


_CLOSED_MEANWHILE = "the sandbox was closed while it was being opened"


def _forked() -> SandboxError:
    return SandboxError(
        "this sandbox was opened before the process was forked and cannot be used in"
        " the child: open one after the fork (for gunicorn or Celery in the worker's"
        " start hook), or start workers with the 'spawn' method",
        code="forked",
    )
