"""What an open sandbox consists of: workspace, image, the way calls take to boxes."""

from __future__ import annotations

import atexit
import os
import time
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from .accounts import ASK_S, about_account, find_account, share, take_back
from .binary import find_kern
from .box import Box
from .call import Call, Lost, Work
from .conduct import Conduct, Request, house_trouble
from .config import SandboxConfig
from .deps import Deps
from .descriptors import explained
from .dispatch import Dispatch
from .engine import engine
from .faults import ConfigError, FaultType, SandboxError, SandboxFault
from .fresh import IDLE_S, PRELOAD, FreshBoxes
from .host import host_report
from .image import ensure_image
from .imports import module_at
from .languages import code_work, command_work
from .launch import Launch, Launcher
from .mounts import WORKSPACE
from .outcome import blocked_result
from .prune import prune_once
from .result import ExecutionResult
from .session import SessionBox, SetupFailed
from .spilling import make_home
from .streaming import CallStream
from .turns import Turns
from .waiting import await_for, wait_for
from .workspace import SCAN_LIMIT_ENTRIES, Workspace

_PROGRAMS: dict[str, tuple[bool, bool]] = {}  # by image: has python3, has sh


class Opened:
    """Everything that exists between `Sandbox.open` and `Sandbox.close`.

    Attributes:
        limits_enforced: What kern last said about the caps; None where it did not.
        lost: What an earlier sandbox of the conversation took with it, until a result
            has said so.
        turns: Whose call has the one box of a session; calls of `fresh` ask for none.
    """

    def __init__(self, config: SandboxConfig) -> None:
        self.config = config
        self.lost: Lost | None = None
        kern = find_kern()
        self.image = ensure_image(
            config.image,
            packages=config.packages,
            offline=config.offline,
            pull_timeout_s=config.pull_timeout_s,
        )
        self.limits_enforced = True if config.require_limits else None
        self.workspace = (
            Workspace.create()
            if config.workspace is None
            else Workspace.at(config.workspace)
        )
        self.deps: Deps | None = None
        self._account: int | None = None
        self._launcher = Launcher(
            kern=kern, config=config, image=self.image, workspace=self.workspace.root
        )
        self._has_python = self._has_shell = True
        self.turns = Turns()
        self._conducts: set[Conduct] = set()
        self._quiet_since_s = time.monotonic()
        self.dispatch = self._fresh(prewarm=0)
        try:
            self._make_ready()
        except BaseException:
            self.close()
            raise

    def _make_ready(self) -> None:
        """Find out what the image has, and start the boxes that come first."""
        config = self.config
        if config.require_limits:
            self._demand_limits()
        self._furnish()
        if not self.image.host_python:
            self._try_out()
        if self._has_python or self._has_shell:
            self._account = find_account(
                self._launcher, self._ask_who, python=self._has_python
            )
        self.share()
        if config.mode != "fresh":
            self.dispatch = self._session()
            self._set_up()
        elif self._has_python and config.prewarm:
            self.dispatch = self._fresh(prewarm=config.prewarm)
            self.when_ready()

    def _furnish(self) -> None:
        """Join in what ends with the process; add what `setup` and `toolchain` ask."""
        prune_once()
        _open.add(self)
        config, variables = self.config, dict[str, str]()
        env = config.environment()
        if config.toolchain and "HOME" not in env:
            root = self.workspace.root
            with explained("make a home in", str(root)), self.workspace.lent() as top:
                variables["HOME"] = f"{WORKSPACE}/{make_home(top)}"
        if config.setup is not None:
            from .setup import ensure_setup  # as rarely asked for as it is large

            shared = ensure_setup(self._launcher)
            self.deps = shared if config.deps_readonly else shared.copied()
            variables |= self.deps.environment(env, self.image.reference)
        deps = [] if self.deps is None else [self.deps.mount()]
        self._launcher = replace(
            self._launcher,
            mounts=deps,
            variables=variables,
            import_path=[mount.target for mount in deps],
        )

    def _fresh(self, *, prewarm: int) -> Dispatch:
        config = self.config
        self._fresh_boxes = carrier = FreshBoxes(
            engine(),
            cold=self.launch,
            warm=self._warm_launch,
            prewarm=prewarm,
            timeout_s=config.timeout_s,
            is_own=partial(module_at, self.workspace.root),
            on_change=self._on_box_end,
        )
        return Dispatch(engine(), carrier, config.max_running)

    def _warm_launch(self, wanted: tuple[str, ...]) -> Launch:
        life_s = IDLE_S + self.config.timeout_s
        # Another Python may find more in the workspace; a private copy may change.
        fixed = self.image.host_python and self.config.deps_readonly
        names = wanted if fixed else ()
        return self._launcher.driven(life_s, preload=PRELOAD, wanted=names)

    def _session(self) -> Dispatch:
        config = self.config
        if not self._has_python:
            raise ConfigError(
                f"mode={config.mode!r} needs Python in the image, and {config.image!r}"
                " has none; use mode='fresh'",
                option="mode",
            )

        def launch(call_timeout_s: float) -> Launch:
            longest_s = max(config.timeout_max_s or config.timeout_s, call_timeout_s)
            life_s = config.max_age_s + longest_s
            return self._launcher.driven(life_s, mode=config.mode, preload=PRELOAD)

        self._session_box = carrier = SessionBox(
            engine(),
            launch=launch,
            setup_code=config.setup_code,
            setup_timeout_s=config.timeout_s,
            max_age_s=config.max_age_s,
            on_change=self._on_box_end,
        )
        return Dispatch(engine(), carrier, max_running=1)

    def _on_box_end(self, box: Box) -> None:
        said = box.evidence.limits_enforced
        if said is not None:
            self.limits_enforced = said
        self.dispatch.tell_emptied()

    def known_limits(self) -> bool | None:
        """Say whether the caps bind, asking kern where no box has told it yet."""
        if self.limits_enforced is None:
            report = host_report(reference=self.image.reference)
            self.limits_enforced = report.limits_enforced
        return self.limits_enforced

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

    def close(self) -> None:
        """End every call, wait for the boxes' end, remove what is ours."""
        self.turns.close()
        self.dispatch.close().result()
        if self._account is not None and self.workspace.owned:
            take_back(self._launcher)
        self.workspace.close()
        if self.deps is not None:
            self.deps.close()
        _open.discard(self)

    def when_ready(self) -> Future[bool]:
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
        with Conduct(self, request) as conduct:
            blocked = conduct.begin()
            return self.finish(conduct) if blocked is None else blocked

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
            blocked = await conduct.abegin()
            return await self.afinish(conduct) if blocked is None else blocked

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

    def _demand_limits(self) -> None:
        """Refuse to open where kern would refuse every box."""
        report = host_report(reference=self.image.reference)
        if report.limits_enforced:
            return
        fault = SandboxFault(
            type=FaultType.STARTUP_FAILED,
            reason="limits",
            message="this host does not enforce memory and process limits",
            actor="operator",
        )
        raise SandboxError(
            f"require_limits=True, but {fault.message}: delegate a cgroup (v2) to this"
            " user, which `kern-tools doctor` explains, or leave the option out",
            code=str(fault.type),
            fault=fault,
        )

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

    def _ask_who(self, work: Work) -> ExecutionResult:
        return self.run(Request(work, timeout_s=ASK_S))

    def share(self) -> None:
        """Let the account that code runs as use the folders of this sandbox."""
        if self._account is None:
            return
        folders = [self.workspace.root]
        if self.deps is not None and not self.deps.read_only:
            folders.append(self.deps.root)
        for folder in folders:
            share(folder, self._account, limit=SCAN_LIMIT_ENTRIES)

    def _works(self, request: Request) -> bool:
        result = self.run(request)
        fault = result.fault
        if fault is not None and fault.type == FaultType.STARTUP_FAILED:
            raise SandboxError(
                f"the image {self.config.image!r} cannot run boxes here:"
                f" {fault.message}{about_account(self._launcher)}:"
                f" {' '.join(result.runtime_notes)}",
                code=str(fault.type),
                fault=fault,
            )
        return fault is None or fault.type != FaultType.EXEC_FAILED


_open: set[Opened] = set()


def _at_exit() -> None:
    """Close what was left open: no box and no workspace outlives the process."""
    for opened in list(_open):
        opened.close()


# What a forked child inherits is its parent's to close.
os.register_at_fork(after_in_child=_open.clear)
atexit.register(_at_exit)
