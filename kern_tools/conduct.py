"""One call from the caller's request to its result, in steps that may block or not."""

from __future__ import annotations

import itertools
import os
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from .backlog import Backlog
from .call import Call, Lost, Work
from .events import OnOutput
from .faults import SandboxClosed, SandboxError
from .listing import Files
from .option_table import CHECKS
from .outcome import result_of_call
from .result import ExecutionResult
from .streams import Listeners, OnText
from .turns import Cancelled
from .verdict import Evidence
from .waiting import settle
from .workspace_cap import CapWatch

if TYPE_CHECKING:
    from .opened import Opened
    from .tracking import Moment
    from .workspace import Workspace

_CALL_IDS = itertools.count(1)
_SLACK_BYTES, _SLACK_SHARE = 1 << 16, 256
"""What a file system may add by itself to files that it has yet to write out."""


def new_call_id() -> str:
    """Make up an id for a call."""
    return f"c{next(_CALL_IDS)}"


@dataclass(frozen=True, slots=True)
class Request:
    """One call as its caller asked for it."""

    work: Work
    timeout_s: float | None = None
    call_id: str | None = None
    on_stdout: OnText | None = None
    on_stderr: OnText | None = None
    on_output: OnOutput | None = None
    backlog: Backlog | None = None


class Conduct:
    """The steps of one call; `look` and `conclude` walk the workspace.

    Attributes:
        call: The call, to wait for after `submit`.
        call_id: Its id.
    """

    def __init__(self, opened: Opened, request: Request) -> None:
        config = opened.config
        timeout_s = request.timeout_s
        if timeout_s is None:
            timeout_s = config.timeout_s
        else:
            CHECKS["timeout_s"]("timeout_s", timeout_s)
        self._opened = opened
        self._before: Moment | None = None
        self._watch: CapWatch | None = None
        self._bound_bytes: int | None = None
        self._submitted = self._is_over = self._is_let_go = False
        self._pid = os.getpid()
        self._listing = threading.Lock()
        self._files: Files | None = None
        self._ticket = opened.turns.ticket()
        self.call_id = request.call_id or new_call_id()
        self._listeners = listeners = Listeners(self.call_id)
        listeners.add_text("stdout", request.on_stdout or config.on_stdout)
        listeners.add_text("stderr", request.on_stderr or config.on_stderr)
        listeners.add_output(request.on_output, config.max_output_bytes)
        if request.backlog is not None:
            listeners.add(request.backlog)
        self.call = Call(
            request.work,
            timeout_s=timeout_s,
            cap_bytes=config.max_output_bytes,
            call_id=self.call_id,
            on_stdout=listeners.ear("stdout"),
            on_stderr=listeners.ear("stderr"),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is GeneratorExit:  # a coroutine that nobody can resume
            self.lose()
        else:
            self.let_go()

    def let_go(self) -> None:
        """Let go of what the call held, however it went; doing so twice is fine.

        A call whose caller was interrupted between two steps of ours is ended first.
        """
        if self._is_let_go:
            return
        self._is_over = True
        if self._submitted and not self.call.done.done():
            self.cancel()
            settle(self.call)
        self._ticket.pass_on()
        if not self._submitted:  # else the box closes the call's streams
            self.call.close()
        self._stop_watch()
        if self._opened.unlisted is self:
            self._opened.unlisted = None
        self._forget_moment()
        self._listeners.stop()
        self._opened.note_end(self)
        self._is_let_go = True

    def lose(self) -> None:
        """Do as `let_go` some time soon, for a caller that is gone.

        May be called by the collector in any thread, and whatever that thread holds.
        """
        if os.getpid() == self._pid:  # else it is the parent's call
            self._opened.aside(self.let_go)

    def begin(self) -> None:
        """Look at the workspace and submit, when the call's turn has come."""
        self._opened.note_begin(self)
        if self._opened.config.mode != "fresh":
            self._ticket.take()
        self.look()
        self.submit(here=True)

    async def abegin(self) -> None:
        """Do as `begin`, without blocking the event loop."""
        import asyncio

        self._opened.note_begin(self)
        in_turn = self._opened.config.mode != "fresh"
        while True:
            if in_turn:
                await self._ticket.atake()
            await asyncio.to_thread(self.look)
            if not in_turn or self._ticket.keep():
                self.submit()
                return

    def look(self) -> None:
        """Look at the workspace before the call."""
        opened = self._opened
        before = opened.unlisted
        if before is not None:  # its caller is not that quick, or is gone
            before.list_files()
        self._bound_bytes = _bound(opened.workspace, opened.config.workspace_max_bytes)
        if opened.config.track_files:
            self._forget_moment()
            self._before = opened.workspace.now()
            if self._is_over:  # its caller was cancelled meanwhile
                self._forget_moment()

    def submit(self, *, here: bool = False) -> None:
        """Send the call on its way.

        Args:
            here: The caller waits for it, so that its thread may serve the call.
        """
        if self._is_over:  # another thread or task has given it up
            raise Cancelled
        self._submitted = True
        # What the call refers to must not refer to us, who refer to it and the sandbox.
        opened, call, ticket = self._opened, self.call, self._ticket
        listeners = self._listeners
        if self._bound_bytes is not None:
            full = lambda: opened.dispatch.end(call, "workspace_full")  # noqa: E731
            began_full = self._bound_bytes != opened.config.workspace_max_bytes
            self._watch = CapWatch(
                opened.workspace, self._bound_bytes, full, began_full=began_full
            )
        if opened.config.mode != "fresh":
            opened.unlisted = self
            # Not the caller: it may be a coroutine that nobody resumes.
            call.done.add_done_callback(lambda _: ticket.pass_on())
        listeners.start()
        call.done.add_done_callback(lambda _: listeners.end())
        if here:
            opened.dispatch.submit_here(call)
        else:
            opened.dispatch.submit(call)

    def cancel(self) -> None:
        """End the call; its box, if there is one, is killed."""
        self._opened.dispatch.end(self.call, "cancel")

    def conclude(self, seen: Evidence) -> ExecutionResult:
        """Put the result together.

        Raises:
            SandboxClosed: The sandbox was closed during the call.
        """
        self._stop_watch()
        self._listeners.hear_out()
        if seen.ended_by == "close":
            raise SandboxClosed("the sandbox was closed during the call")
        lost, self._opened.lost = self._opened.lost, None
        result = self._result_of(seen, lost)
        if result.fault is None and self._watch is not None and self._watch.is_over():
            # It was quicker than the watch.
            seen = replace(seen, ended_by="workspace_full")
            result = self._result_of(seen, lost)
        return result

    def _result_of(self, seen: Evidence, lost: Lost | None) -> ExecutionResult:
        opened = self._opened
        if seen.limits_enforced is not None:
            opened.limits_enforced = seen.limits_enforced
        return result_of_call(
            self.call,
            seen,
            opened.config,
            files=self.list_files(),
            limits_enforced=opened.limits_enforced,
            lost=lost,
        )

    def list_files(self) -> Files:
        """List what the call changed.

        It is looked at once, by whoever asks first: the call's own caller, or the next
        call, which must not begin before.
        """
        with self._listing:
            if self._files is None:
                if self._before is None:
                    self._files = Files([], total=0, complete=True)
                else:
                    self._files = self._opened.workspace.changes_since(self._before)
            return self._files

    def _forget_moment(self) -> None:
        if self._before is not None:
            self._opened.workspace.forget(self._before)

    def _stop_watch(self) -> None:
        if self._watch is not None:
            self._watch.stop()


def _bound(workspace: Workspace, max_bytes: int | None) -> int | None:
    """Give what a call may let the workspace grow to.

    Code that finds it over the limit may still look, and make room.
    """
    if max_bytes is None:
        return None
    used_bytes = workspace.usage_bytes(stop_over=max_bytes)
    if used_bytes <= max_bytes:
        return max_bytes
    used_bytes = workspace.usage_bytes()
    return used_bytes + max(_SLACK_BYTES, used_bytes // _SLACK_SHARE)


def house_trouble(error: OSError) -> SandboxError:
    """Give the error a caller should see for what this host refused us."""
    return SandboxError(
        f"a box could not be started: {error}. If this is about open files, raise"
        " `ulimit -n` or lower max_running",
        code="host",
    )
