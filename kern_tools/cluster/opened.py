"""An open sandbox on a node of the cluster, with what `Sandbox` uses of `Opened`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Self

from kern_tools.conduct import new_call_id
from kern_tools.config import SandboxConfig
from kern_tools.languages import code_work, command_work
from kern_tools.result import ExecutionResult

from .actor import Furnished
from .link import Link
from .request import RemoteRequest, RemoteWork
from .stream import RemoteStream
from .trouble import NodeLost, aside, lost_result
from .workspace import RemoteWorkspace

if TYPE_CHECKING:
    from kern_tools.call import Lost


class RemoteOpened:
    """The calls of a sandbox whose boxes run elsewhere.

    Attributes:
        link: To its actor.
        facts: For the words of prompts.
        workspace: Its files.
    """

    request = RemoteRequest

    def __init__(self, config: SandboxConfig, link: Link, there: Furnished) -> None:
        self.link = link
        self.facts = there.facts
        self.workspace = RemoteWorkspace(link, there.root)
        self._config = config

    def close(self) -> None:
        """End every call; wait until no box is left."""
        self.link.close()

    @property
    def quiet_since_s(self) -> float | None:
        """When it was last used, by `time.monotonic()`; None while it is."""
        return self.link.quiet_since_s

    # -- calls

    @staticmethod
    def code_work(code: str, language: str) -> RemoteWork:
        """Check code; raises as `languages.code_work`."""
        return RemoteWork(code_work(code, language), (code, language))

    @staticmethod
    def command_work(argv: Sequence[str]) -> RemoteWork:
        """Check a command; raises as `languages.command_work`."""
        work = command_work(argv)
        return RemoteWork(work, work.argv)

    def stream(self, request: RemoteRequest) -> RemoteStream:
        """Give one call as an iterator; nothing begins before the first step."""
        return RemoteStream(self.link, self._config, request)

    def run(self, request: RemoteRequest) -> ExecutionResult:
        """Run one call to its end, blocking."""
        if self._is_heard(request):
            return self.stream(request).run()
        asked = request.asked(request.call_id or new_call_id(), is_heard=False)
        try:
            told = self.link.call(asked)
        except NodeLost as error:
            return lost_result(asked.call_id, str(error))
        result: ExecutionResult = told.opened()
        return result

    async def arun(self, request: RemoteRequest) -> ExecutionResult:
        """Do as `run`, without blocking the event loop."""
        if self._is_heard(request):
            return await self.stream(request).arun()
        asked = request.asked(request.call_id or new_call_id(), is_heard=False)
        try:
            told = await self.link.acall(asked)
        except NodeLost as error:
            return lost_result(asked.call_id, str(error))
        result: ExecutionResult = told.opened()
        return result

    def _is_heard(self, request: RemoteRequest) -> bool:
        given, config = (request.on_stdout, request.on_stderr), self._config
        return any((*given, config.on_stdout, config.on_stderr))

    # -- on request

    @property
    def dispatch(self) -> Self:
        """Where calls are interrupted."""
        return self

    def interrupt(self) -> None:
        """Have the code of every running call see a KeyboardInterrupt."""
        self.link.ask("sandbox", "interrupt")

    def forget_box(self) -> None:
        """Have the next call start in a new box."""
        self.link.ask("sandbox", "reset")

    def when_ready(self) -> Future[bool]:
        """Give a future that resolves once the warm boxes are ready."""
        ready: Future[bool] = Future()

        def ask() -> None:
            try:
                ready.set_result(bool(self.link.look("sandbox", "wait_ready")))
            except BaseException as error:
                ready.set_exception(error)

        aside(ask)
        return ready

    def _declare_lost(self, lost: Lost | None) -> None:
        self.link.ask("sandbox", "declare_lost", lost)

    lost = property(fset=_declare_lost, doc="What an earlier sandbox took with it.")
