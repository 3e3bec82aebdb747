"""What an open sandbox consists of: workspace, image, the way calls take to boxes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from .binary import find_kern
from .call import Call
from .conduct import Conduct, Request, translated
from .config import SandboxConfig
from .dispatch import Dispatch
from .engine import engine
from .faults import ConfigError, FaultType, SandboxError
from .fresh import IDLE_S, PRELOAD, FreshBoxes
from .image import ensure_image
from .languages import code_work, command_work
from .launch import Launch, Launcher
from .outcome import blocked_result
from .result import ExecutionResult
from .session import SessionBox, SetupFailed
from .waiting import await_for, wait_for
from .workspace import Workspace

_SLOW_WALK_S = 0.002
_T = TypeVar("_T")
_PROGRAMS: dict[str, tuple[bool, bool]] = {}  # by image: has python3, has sh


class Opened:
    """Everything that exists between `Sandbox.open` and `Sandbox.close`.

    Attributes:
        limits_enforced: What kern last said about the caps; None where it did not.
        walk_s: How long the last look at the workspace took.
    """

    def __init__(self, config: SandboxConfig) -> None:
        self.config = config
        kern = find_kern()
        self.image = ensure_image(
            config.image,
            packages=config.packages,
            offline=config.offline,
            pull_timeout_s=config.pull_timeout_s,
        )
        self.limits_enforced = True if config.require_limits else None
        self.walk_s = 0.0
        self.workspace = (
            Workspace.create()
            if config.workspace is None
            else Workspace.at(config.workspace)
        )
        self._launcher = Launcher(
            kern=kern, config=config, image=self.image, workspace=self.workspace.root
        )
        self._has_python = self._has_shell = True
        self.dispatch = self._fresh(prewarm=0)
        try:
            if not self.image.host_python:
                self._try_out()
            if config.mode != "fresh":
                self.dispatch = self._session()
                self._set_up()
            elif self._has_python and config.prewarm:
                self.dispatch = self._fresh(prewarm=config.prewarm)
                self.when_ready()
        except BaseException:
            self.close()
            raise

    def _fresh(self, *, prewarm: int) -> Dispatch:
        config = self.config
        life_s = IDLE_S + config.timeout_s
        self._fresh_boxes = carrier = FreshBoxes(
            engine(),
            cold=self.launch,
            warm=partial(self._launcher.driven, life_s, preload=PRELOAD),
            prewarm=prewarm,
            timeout_s=config.timeout_s,
            on_change=lambda: self.dispatch.tell_emptied(),
        )
        return Dispatch(engine(), carrier, config.max_running)

    def _session(self) -> Dispatch:
        config = self.config
        if not self._has_python:
            raise ConfigError(
                f"mode={config.mode!r} needs Python in the image, and {config.image!r}"
                " has none; use mode='fresh'",
                option="mode",
            )
        life_s = config.max_age_s + config.timeout_s
        self._session_box = carrier = SessionBox(
            engine(),
            launch=partial(self._launcher.driven, life_s, mode=config.mode),
            setup_code=config.setup_code,
            setup_timeout_s=config.timeout_s,
            max_age_s=config.max_age_s,
            on_change=lambda: self.dispatch.tell_emptied(),
        )
        return Dispatch(engine(), carrier, max_running=1)

    def close(self) -> None:
        """End every call, wait for the boxes' end, remove what is ours."""
        self.dispatch.close().result()
        self.workspace.close()

    def when_ready(self) -> Future[None]:
        """Give a future that resolves once the warm boxes are ready."""
        return self._fresh_boxes.when_ready()

    def forget_box(self) -> None:
        """Have the next call of a session start in a new box."""
        if self.config.mode != "fresh":
            engine().post(self._session_box.forget)

    # -- calls

    code_work = staticmethod(code_work)
    command_work = staticmethod(command_work)
    request = Request

    def run(self, request: Request) -> ExecutionResult:
        """Conduct one call to its end, blocking."""
        conduct = Conduct(self, request)
        blocked = conduct.look()
        if blocked is not None:
            return blocked
        conduct.submit()
        try:
            seen = wait_for(conduct.call, conduct.cancel)
        except SetupFailed as failed:
            conduct.abort()
            return blocked_result(conduct.call.call_id, failed.fault())
        except BaseException as error:
            conduct.abort()
            raise translated(error) from error.__cause__
        return conduct.conclude(seen)

    async def arun(self, request: Request) -> ExecutionResult:
        """Conduct one call to its end; no step blocks the event loop for long."""
        conduct = Conduct(self, request)
        blocked = await self._step(conduct, conduct.look)
        if blocked is not None:
            return blocked
        conduct.submit()
        try:
            seen = await await_for(conduct.call, conduct.cancel)
        except SetupFailed as failed:
            conduct.abort()
            return blocked_result(conduct.call.call_id, failed.fault())
        except BaseException as error:
            conduct.abort()
            raise translated(error) from error.__cause__
        return await self._step(conduct, lambda: conduct.conclude(seen))

    async def _step(self, conduct: Conduct, step: Callable[[], _T]) -> _T:
        """Run a step here if it is quick, else on a thread."""
        if self.walk_s < _SLOW_WALK_S and not conduct.has_threads:
            return step()
        import asyncio

        return await asyncio.to_thread(step)

    # -- boxes

    def launch(self, call: Call) -> Launch:
        """Choose the box for a call."""
        work = call.work
        if self._has_python:
            return self._launcher.driven(call.timeout_s)
        if work.is_cell:
            return self._launcher.direct(["python3"], call.timeout_s, shell=False)
        command = list(work.argv)
        if work.code is not None:  # a script too long for a command line
            name = self.workspace.spill(f"script-{call.call_id}", work.code)
            command.append(f"/workspace/{name}")
        return self._launcher.direct(command, call.timeout_s, shell=self._has_shell)

    def _try_out(self) -> None:
        """Find out whether the image has Python, and a shell, by using them."""
        reference = self.image.reference
        if reference not in _PROGRAMS:
            python = self._works(Request(code_work("", "python")))
            self._has_python = python
            shell = python or self._works(Request(command_work(["sh", "-c", ":"])))
            _PROGRAMS[reference] = (python, shell)
        self._has_python, self._has_shell = _PROGRAMS[reference]

    def _set_up(self) -> None:
        """Run the setup code now, while its failure can be raised."""
        if self.config.setup_code is None:
            return
        fault = self.run(Request(code_work("", "python"))).fault
        if fault is not None:
            message = f"the sandbox cannot be opened: {fault.message}"
            raise SandboxError(message, code=str(fault.type), fault=fault)

    def _works(self, request: Request) -> bool:
        result = self.run(request)
        fault = result.fault
        if fault is not None and fault.type == FaultType.STARTUP_FAILED:
            raise SandboxError(
                f"the image {self.config.image!r} cannot run boxes here:"
                f" {fault.message}: {' '.join(result.runtime_notes)}",
                code=str(fault.type),
                fault=fault,
            )
        return fault is None or fault.type != FaultType.EXEC_FAILED
