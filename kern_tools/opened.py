"""An open sandbox: how its calls are made, and what it was opened with."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

from .accounts import ASK_S
from .call import Lost, Work
from .conduct import Conduct, Request, house_trouble
from .config import SandboxConfig
from .faults import FaultType, SandboxError, startup_fault
from .holdings import Holdings
from .host import host_report
from .languages import code_work, command_work
from .outcome import blocked_result
from .result import ExecutionResult
from .session import SetupFailed
from .streaming import CallStream
from .turns import Turns
from .waiting import await_for, wait_for

if TYPE_CHECKING:
    from .deps import Deps
    from .image import ImageRef
    from .shortcut import LendingDispatch
    from .underway import Opening
    from .workspace import Workspace

_PROGRAMS: dict[str, tuple[bool, bool]] = {}  # by image: has python3, has sh


class Opened:
    """Everything that exists between `Sandbox.open` and `Sandbox.close`.

    Once nobody refers to it any more, neither its sandbox nor a call, what it holds of
    the host is given back and a `ResourceWarning` says that `close` was forgotten.

    Attributes:
        lost: What an earlier sandbox of the conversation took with it, until a result
            has said so.
        turns: Whose call has the one box of a session; calls of `fresh` ask for none.
        unlisted: The last call of a session, while the files it changed are not listed.
    """

    def __init__(self, config: SandboxConfig, opening: Opening) -> None:
        self.config = config
        self.lost: Lost | None = None
        self.turns = Turns()
        self.unlisted: Conduct | None = None
        self._conducts: set[Conduct] = set()
        self._quiet_since_s = time.monotonic()
        self._holdings = holdings = Holdings(config, opening)
        self._lose = weakref.finalize(self, holdings.abandon, os.getpid())
        self._lose.atexit = False
        try:
            with opening.ending(self._stop_calls):
                self._make_ready(opening)
        except BaseException:
            self.close()
            raise

    def _make_ready(self, opening: Opening) -> None:
        """Find out what the image has, and start the boxes that come first."""
        config, holdings = self.config, self._holdings
        if config.require_limits:
            self._demand_limits()
        holdings.furnish(opening)
        opening.check()
        if not self.image.host_python:
            self._try_out(opening)
        holdings.find_account(self._ask_who)
        if config.mode != "fresh":
            holdings.serve_session()
            opening.check()
            self._set_up()
        elif holdings.has_python and config.prewarm:
            holdings.serve_fresh(prewarm=config.prewarm)
            self.when_ready()

    def close(self) -> None:
        """End every call, wait for the boxes' end, remove what is ours."""
        self.turns.close()
        self._holdings.close()
        self._lose.detach()

    def _stop_calls(self) -> None:
        self.turns.close()
        self.dispatch.close()

    # -- what it has

    @property
    def image(self) -> ImageRef:
        """What its boxes are made of."""
        return self._holdings.image

    @property
    def workspace(self) -> Workspace:
        """The directory that its boxes share."""
        return self._holdings.workspace

    @property
    def deps(self) -> Deps | None:
        """What `setup` installed."""
        return self._holdings.deps

    @property
    def dispatch(self) -> LendingDispatch:
        """Takes calls to boxes."""
        return self._holdings.dispatch

    @property
    def limits_enforced(self) -> bool | None:
        """What kern last said about the caps; None where it did not."""
        return self._holdings.limits_enforced

    @limits_enforced.setter
    def limits_enforced(self, said: bool) -> None:
        self._holdings.limits_enforced = said

    def known_limits(self) -> bool | None:
        """Say whether the caps bind, asking kern where no box has told it yet."""
        holdings = self._holdings
        if holdings.limits_enforced is None:
            report = host_report(reference=self.image.reference)
            holdings.limits_enforced = report.limits_enforced
        return holdings.limits_enforced

    def when_ready(self) -> Future[bool]:
        """Give a future that resolves once the warm boxes are ready."""
        return self._holdings.when_ready()

    def share(self) -> None:
        """Let the account that code runs as use what was put into the workspace."""
        self._holdings.share()

    def aside(self, step: Callable[[], None]) -> None:
        """Have a step that may wait run on a thread; a finalizer may ask for that."""
        self._holdings.aside(step)

    def forget_box(self) -> None:
        """Have the next call of a session start in a new box."""
        self._holdings.forget_box()

    # -- calls

    code_work = staticmethod(code_work)
    command_work = staticmethod(command_work)
    request = Request

    @property
    def quiet_since_s(self) -> float | None:
        """When the last call ended, by `time.monotonic()`; None while there is one."""
        return None if self._conducts else self._quiet_since_s

    def note_begin(self, conduct: Conduct) -> None:
        """Count a call from its first step on."""
        self._conducts.add(conduct)

    def note_end(self, conduct: Conduct) -> None:
        """Count it no longer."""
        self._quiet_since_s = time.monotonic()
        self._conducts.discard(conduct)

    def run(self, request: Request) -> ExecutionResult:
        """Conduct one call to its end, blocking."""
        conduct = Conduct(self, request)
        try:
            with conduct:
                conduct.begin()
                return self.finish(conduct)
        finally:  # a signal handler may have raised at the end of `with`
            conduct.let_go()

    def finish(self, conduct: Conduct) -> ExecutionResult:
        """Wait for the end of a call that was begun, and conclude it."""
        try:
            seen = wait_for(conduct.call, conduct.cancel)
        except SetupFailed as failed:
            return blocked_result(conduct.call.call_id, failed.fault())
        except OSError as error:
            raise house_trouble(error) from error
        return conduct.conclude(seen)

    async def arun(self, request: Request) -> ExecutionResult:
        """Conduct one call to its end; what walks the workspace is off the loop."""
        with Conduct(self, request) as conduct:
            await conduct.abegin()
            return await self.afinish(conduct)

    async def afinish(self, conduct: Conduct) -> ExecutionResult:
        """Do as `finish`, without blocking the event loop."""
        import asyncio

        try:
            seen = await await_for(conduct.call, conduct.cancel)
        except SetupFailed as failed:
            return blocked_result(conduct.call.call_id, failed.fault())
        except OSError as error:
            raise house_trouble(error) from error
        return await asyncio.to_thread(conduct.conclude, seen)

    def stream(self, request: Request) -> CallStream:
        """Give one call as an iterator; nothing begins before the first step."""
        return CallStream(self, request)

    # -- what opening finds out

    def _demand_limits(self) -> None:
        """Refuse to open where kern would refuse every box."""
        report = host_report(reference=self.image.reference)
        if report.limits_enforced:
            return
        message = "this host does not enforce memory and process limits"
        fault = startup_fault("limits", message)
        raise SandboxError(
            f"require_limits=True, but {message}: delegate a cgroup (v2) to this"
            " user, which `kern-tools doctor` explains, or leave the option out",
            code=str(fault.type),
            fault=fault,
        )

    def _try_out(self, opening: Opening) -> None:
        """Find out whether the image has Python, and a shell, by using them."""
        reference, holdings = self.image.reference, self._holdings
        if self.config.egress_allow and reference not in _PROGRAMS:
            # kern's filter takes a box that is over at once for one that fails.
            Opened(_unfiltered(self.config), opening).close()
        if reference not in _PROGRAMS:
            python = self._works(Request(code_work("", "python")))
            holdings.has_python = python
            shell = python or self._works(Request(command_work(["sh", "-c", ":"])))
            _PROGRAMS[reference] = (python, shell)
        holdings.has_python, holdings.has_shell = _PROGRAMS[reference]

    def _set_up(self) -> None:
        """Run the setup code now, while its failure can be raised."""
        if self.config.setup_code is None:
            return
        fault = self.run(Request(code_work("", "python"))).fault
        if fault is not None:
            message = f"the sandbox cannot be opened: {fault.message}"
            raise SandboxError(message, code=str(fault.type), fault=fault)

    def _ask_who(self, work: Work) -> ExecutionResult:
        return self.run(Request(work, timeout_s=ASK_S))

    def _works(self, request: Request) -> bool:
        result = self.run(request)
        fault = result.fault
        if fault is not None and fault.type == FaultType.STARTUP_FAILED:
            raise SandboxError(
                f"the image {self.config.image!r} cannot run boxes here:"
                f" {fault.message}{self._holdings.about_account()}:"
                f" {' '.join(result.runtime_notes)}",
                code=str(fault.type),
                fault=fault,
            )
        return fault is None or fault.type != FaultType.EXEC_FAILED


def _unfiltered(config: SandboxConfig) -> SandboxConfig:
    """Give what is needed of a configuration to see what its image has."""
    return replace(
        config,
        egress_allow=(),
        mode="fresh",
        prewarm=0,
        setup=None,
        setup_code=None,
        workspace=None,
    )
