"""What an open sandbox consists of: workspace, image, the way calls take to boxes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .binary import find_kern
from .call import Call
from .conduct import Conduct, Request, translated
from .config import SandboxConfig
from .dispatch import Dispatch
from .engine import engine
from .faults import FaultType, SandboxError
from .image import ensure_image
from .languages import code_work, command_work
from .launch import Launch, Launcher
from .result import ExecutionResult
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
        self.limits_enforced: bool | None = None
        self.walk_s = 0.0
        self.workspace = (
            Workspace.create()
            if config.workspace is None
            else Workspace.at(config.workspace)
        )
        self._launcher = Launcher(
            kern=kern, config=config, image=self.image, workspace=self.workspace.root
        )
        self.dispatch = Dispatch(engine(), config.max_running)
        self._has_python = self._has_shell = True
        if not self.image.host_python:
            try:
                self._try_out()
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """End every call, wait for the boxes' end, remove what is ours."""
        self.dispatch.close().result()
        self.workspace.close()

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
