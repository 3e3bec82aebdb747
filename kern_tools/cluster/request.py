"""One call as its caller asked for it, before it is sent to another node."""

from __future__ import annotations

from dataclasses import dataclass

from kern_tools.call import Work
from kern_tools.streams import OnText

from .told import RemoteCall


@dataclass(frozen=True, slots=True)
class RemoteWork:
    """What to run, checked here, and what it was made of.

    Attributes:
        work: As the node will make it again.
        given: Code and language, or the words of a command.
    """

    work: Work
    given: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """As `Request`, of a sandbox on a node of the cluster."""

    work: RemoteWork
    timeout_s: float | None = None
    call_id: str | None = None
    on_stdout: OnText | None = None
    on_stderr: OnText | None = None

    def asked(self, call_id: str, *, is_heard: bool) -> RemoteCall:
        """Give what crosses the network."""
        return RemoteCall(
            is_command=self.work.work.language == "command",
            given=self.work.given,
            timeout_s=self.timeout_s,
            call_id=call_id,
            is_heard=is_heard,
        )
