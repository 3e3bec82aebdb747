"""One call from the caller's request to its result, in steps that may block or not."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .call import Call, Work
from .faults import SandboxClosed, SandboxError
from .option_table import CHECKS
from .outcome import blocked_result, result_of_call
from .result import ExecutionResult, FileInfo
from .streams import Feed, OnText
from .verdict import Evidence, workspace_full
from .workspace_cap import CapWatch, is_full

if TYPE_CHECKING:
    from .listing import Scan
    from .opened import Opened

_CALL_IDS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Request:
    """One call as its caller asked for it."""

    work: Work
    timeout_s: float | None = None
    call_id: str | None = None
    on_stdout: OnText | None = None
    on_stderr: OnText | None = None


class Conduct:
    """The steps of one call; `look` and `conclude` walk the workspace.

    Attributes:
        call: The call, to wait for after `submit`.
    """

    def __init__(self, opened: Opened, request: Request) -> None:
        config = opened.config
        timeout_s = request.timeout_s
        if timeout_s is None:
            timeout_s = config.timeout_s
        else:
            CHECKS["timeout_s"]("timeout_s", timeout_s)
        self._opened = opened
        self._before: Scan | None = None
        self._watch: CapWatch | None = None
        self._feeds: list[Feed] = []
        try:
            self.call = Call(
                request.work,
                timeout_s=timeout_s,
                cap_bytes=config.max_output_bytes,
                call_id=request.call_id or f"c{next(_CALL_IDS)}",
                on_stdout=self._feed(request.on_stdout or config.on_stdout),
                on_stderr=self._feed(request.on_stderr or config.on_stderr),
            )
        except OSError as error:
            raise _house_trouble(error) from error

    def look(self) -> ExecutionResult | None:
        """Look at the workspace before the call; a full one is the whole answer."""
        opened = self._opened
        most = opened.config.workspace_max_bytes
        if most is not None and is_full(opened.workspace, most):
            self._stop()
            self.call.close()
            return blocked_result(self.call.call_id, workspace_full(most))
        if opened.config.track_files:
            began = time.monotonic()
            self._before = opened.workspace.scan()
            opened.walk_s = time.monotonic() - began
        return None

    @property
    def has_threads(self) -> bool:
        """Ending the call waits for threads of ours: callbacks, the watch."""
        most = self._opened.config.workspace_max_bytes
        return bool(self._feeds) or most is not None

    def submit(self) -> None:
        """Send the call on its way."""
        opened, call = self._opened, self.call
        most = opened.config.workspace_max_bytes
        if most is not None:
            full = lambda: opened.dispatch.end(call, "workspace_full")  # noqa: E731
            self._watch = CapWatch(opened.workspace, most, full)
        opened.dispatch.submit(call)

    def cancel(self) -> None:
        """End the call; its box, if there is one, is killed."""
        self._opened.dispatch.end(self.call, "cancel")

    def abort(self) -> None:
        """Let go of what the call held, after its wait was interrupted."""
        self._stop()

    def conclude(self, seen: Evidence) -> ExecutionResult:
        """Put the result together.

        Raises:
            SandboxClosed: The sandbox was closed during the call.
        """
        self._stop()
        if seen.ended_by == "close":
            raise SandboxClosed("the sandbox was closed during the call")
        opened = self._opened
        if seen.limits_enforced is not None:
            opened.limits_enforced = seen.limits_enforced
        return result_of_call(
            self.call,
            seen,
            opened.config,
            files=self._changes(),
            limits_enforced=opened.limits_enforced,
        )

    def _changes(self) -> list[FileInfo]:
        if self._before is None:
            return []
        return list(self._opened.workspace.changes(self._before))

    def _feed(self, callback: OnText | None) -> Callable[[bytes], None] | None:
        if callback is None:
            return None
        feed = Feed(callback)
        self._feeds.append(feed)
        return feed.put

    def _stop(self) -> None:
        if self._watch is not None:
            self._watch.stop()
        for feed in self._feeds:
            feed.close()


def translated(error: BaseException) -> BaseException:
    """Give the error a caller should see for what ended the wait."""
    return _house_trouble(error) if isinstance(error, OSError) else error


def _house_trouble(error: OSError) -> SandboxError:
    return SandboxError(
        f"a box could not be started: {error}. If this is about open files, raise"
        " `ulimit -n` or lower max_running",
        code="host",
    )
