"""A sandbox as its actor has it: its calls can be ended from another thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kern_tools.conduct import Conduct
from kern_tools.sandbox import Sandbox
from kern_tools.waiting import settle

if TYPE_CHECKING:
    from kern_tools.opened import Opened
    from kern_tools.result import ExecutionResult
    from kern_tools.streaming import CallStream

    from .told import RemoteCall


class HostedSandbox(Sandbox):
    """As `Sandbox`; made by an actor."""

    def note_limits(self, limits_enforced: bool | None) -> None:
        """Take what is known of the node's caps, where no box has told of them yet."""
        opened = self._ready()
        if opened.limits_enforced is None and limits_enforced is not None:
            opened.limits_enforced = limits_enforced

    def whole_call(self, asked: RemoteCall) -> WholeCall:
        """Make a call of which only the result is asked; it begins with `run`.

        Raises:
            ConfigError: It cannot be used.
            SandboxClosed: The sandbox is closed.
        """
        opened = self._ready()
        make = opened.command_work if asked.is_command else opened.code_work
        words: tuple[Any, ...] = (asked.given,) if asked.is_command else asked.given
        request = opened.request(make(*words), asked.timeout_s, asked.call_id)
        return WholeCall(opened, Conduct(opened, request))

    def heard_call(self, asked: RemoteCall) -> CallStream:
        """Make a call of which the output is asked as well; raises the same."""
        how: dict[str, Any] = {"timeout_s": asked.timeout_s, "call_id": asked.call_id}
        if asked.is_command:
            return self.stream(asked.given, **how)
        return self.stream_code(*asked.given, **how)


class WholeCall:
    """One call without its output while it runs, which spares a wait for each piece.

    Args:
        opened: The sandbox.
        conduct: The call, which has not begun.
    """

    def __init__(self, opened: Opened, conduct: Conduct) -> None:
        self._opened = opened
        self._conduct = conduct

    def run(self) -> ExecutionResult:
        """Run it to its end.

        Raises:
            Cancelled: It was closed before it had a box.
        """
        with self._conduct:
            self._conduct.begin()
            return self._opened.finish(self._conduct)

    def close(self) -> None:
        """End it, from any thread, and wait until its box is gone."""
        if not self._conduct.call.done.done():
            self._conduct.cancel()
        settle(self._conduct.call)
        self._conduct.let_go()
