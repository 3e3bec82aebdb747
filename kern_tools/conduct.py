"""One call from the caller's request to its result, in steps that may block or not."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from .backlog import Backlog
from .call import Call, Work
from .events import OnOutput
from .faults import SandboxClosed, SandboxError
from .option_table import CHECKS
from .outcome import blocked_result, result_of_call
from .result import ExecutionResult, FileInfo
from .streams import Listeners, OnText
from .verdict import Evidence, workspace_full
from .waiting import settle
from .workspace_cap import CapWatch, is_full

if TYPE_CHECKING:
    from .opened import Opened
    from .tracking import Moment

_CALL_IDS = itertools.count(1)


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
        self._submitted = self._has_turn = False
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
        opened.note_begin(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Let go of what the call held, however it went.

        A call whose caller was interrupted between two steps of ours is ended first.
        """
        if self._submitted and not self.call.done.done():
            self.cancel()
            settle(self.call)
        self._stop_watch()
        if self._before is not None:
            self._opened.workspace.forget(self._before)
        self._listeners.stop()
        if not self._submitted:  # else the box closes the call's streams
            self.call.close()
        if self._has_turn:
            self._has_turn = False
            self._opened.turns.pass_on()
        self._opened.note_end(self)

    def begin(self) -> ExecutionResult | None:
        """Look and submit when its turn has come; give what barred the call, if any."""
        if self._opened.config.mode != "fresh":
            self._opened.turns.take()
            self._has_turn = True
        blocked = self.look()
        if blocked is None:
            self.submit()
        return blocked

    async def abegin(self) -> ExecutionResult | None:
        """Do as `begin`, without blocking the event loop."""
        import asyncio

        if self._opened.config.mode != "fresh":
            await self._opened.turns.atake()
            self._has_turn = True
        blocked = await asyncio.to_thread(self.look)
        if blocked is None:
            self.submit()
        return blocked

    def look(self) -> ExecutionResult | None:
        """Look at the workspace before the call; a full one is the whole answer."""
        opened = self._opened
        most = opened.config.workspace_max_bytes
        if most is not None and is_full(opened.workspace, most):
            return blocked_result(self.call.call_id, workspace_full(most))
        if opened.config.track_files:
            self._before = opened.workspace.now()
        return None

    def submit(self) -> None:
        """Send the call on its way."""
        self._submitted = True
        opened, call = self._opened, self.call
        most = opened.config.workspace_max_bytes
        if most is not None:
            full = lambda: opened.dispatch.end(call, "workspace_full")  # noqa: E731
            self._watch = CapWatch(opened.workspace, most, full)
        self._listeners.start()
        call.done.add_done_callback(lambda _: self._listeners.end())
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
        opened = self._opened
        lost, opened.lost = opened.lost, None
        if seen.limits_enforced is not None:
            opened.limits_enforced = seen.limits_enforced
        return result_of_call(
            self.call,
            seen,
            opened.config,
            files=self._changes(),
            limits_enforced=opened.limits_enforced,
            lost=lost,
        )

    def _changes(self) -> list[FileInfo]:
        if self._before is None:
            return []
        return list(self._opened.workspace.changes_since(self._before))

    def _stop_watch(self) -> None:
        if self._watch is not None:
            self._watch.stop()


def house_trouble(error: OSError) -> SandboxError:
    """Give the error a caller should see for what this host refused us."""
    return SandboxError(
        f"a box could not be started: {error}. If this is about open files, raise"
        " `ulimit -n` or lower max_running",
        code="host",
    )
