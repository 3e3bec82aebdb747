"""What an open sandbox holds of the host: workspace, image, boxes; given back once.

It refers to nobody who uses it, least of all to the sandbox or to callbacks of the
developer. So a sandbox that is lost without a `close` is noticed as lost, although the
engine still refers to its boxes.
"""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from .accounts import about_account, find_account, share, take_back
from .binary import find_kern
from .call import Call, Work
from .deps import Deps
from .descriptors import explained
from .engine import engine
from .faults import ConfigError
from .fresh import IDLE_S, PRELOAD, FreshBoxes
from .image import ImageRef, ensure_image
from .imports import module_at
from .launch import Launch, Launcher
from .names import BOX_ROOT
from .prune import prune_once
from .session import SessionBox
from .shortcut import LendingDispatch
from .spilling import make_home
from .uses import Use, use
from .workspace import SCAN_LIMIT_ENTRIES, Workspace

if TYPE_CHECKING:
    from .box import Box
    from .config import SandboxConfig
    from .result import ExecutionResult
    from .underway import Opening


class Holdings:
    """Everything of one open sandbox that has to be given back.

    Attributes:
        image: What its boxes are made of.
        workspace: The directory that they share.
        deps: What `setup` installed; None where nothing was asked for.
        dispatch: Takes calls to boxes.
        limits_enforced: What kern last said about the caps; None where it did not.
        has_python: The image has `python3`.
        has_shell: It has `sh`.
    """

    def __init__(self, config: SandboxConfig, opening: Opening) -> None:
        self._config = config = _without_callbacks(config)
        self._engine = engine()
        self._closing = threading.Lock()
        self._closed = False
        kern = find_kern()
        self.image, self._image_used = _image_of(config)
        opening.check()
        self.limits_enforced = True if config.require_limits else None
        self.has_python = self.has_shell = True
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
        self.serve_fresh(prewarm=0)
        prune_once()
        _open.add(self)

    def furnish(self, opening: Opening) -> None:
        """Add what `setup` and `toolchain` ask for."""
        config, variables = self._config, dict[str, str]()
        env = config.environment()
        if config.toolchain and "HOME" not in env:
            root = self.workspace.root
            with explained("make a home in", str(root)), self.workspace.lent() as top:
                variables["HOME"] = f"{BOX_ROOT}/{make_home(top)}"
        if config.setup is not None:
            from .setup import ensure_setup  # as rarely asked for as it is large

            shared = ensure_setup(self._launcher, opening)
            self.deps = shared if config.deps_readonly else shared.copied()
            variables |= self.deps.environment(env, self.image.reference)
        deps = [] if self.deps is None else [self.deps.mount()]
        self._launcher = replace(
            self._launcher,
            mounts=deps,
            variables=variables,
            import_path=[mount.target for mount in deps],
        )

    # -- boxes

    def serve_fresh(self, *, prewarm: int) -> None:
        """Have every call run in a new box."""
        config = self._config
        self._fresh_boxes = FreshBoxes(
            self._engine,
            cold=self._launch,
            warm=self._launch_warm,
            max_running=config.max_running,
            prewarm=prewarm,
            timeout_s=config.timeout_s,
            is_own=partial(module_at, self.workspace.root),
            on_gone=self._on_box_end,
        )
        self.dispatch = LendingDispatch(
            self._engine, self._fresh_boxes, config.max_running
        )

    def serve_session(self) -> None:
        """Have all calls run in one box.

        Raises:
            ConfigError: There is no Python in the image.
        """
        config = self._config
        if not self.has_python:
            raise ConfigError(
                f"mode={config.mode!r} needs Python in the image, and {config.image!r}"
                " has none; use mode='fresh'",
                option="mode",
            )
        self._session_box = SessionBox(
            self._engine,
            launch=self._launch_session,
            setup_code=config.setup_code,
            setup_timeout_s=config.timeout_s,
            max_age_s=config.max_age_s,
            on_gone=self._on_box_end,
        )
        self.dispatch = LendingDispatch(self._engine, self._session_box, max_running=1)

    def when_ready(self) -> Future[bool]:
        """Give a future that resolves once the warm boxes are ready."""
        return self._fresh_boxes.when_ready()

    def forget_box(self) -> None:
        """Have the next call of a session start in a new box."""
        if self._config.mode != "fresh":
            self._session_box.leave()

    def _launch(self, call: Call) -> Launch:
        """Choose the box for a call."""
        work = call.work
        if self.has_python:
            return self._launcher.driven(call.timeout_s)
        if work.is_cell:
            return self._launcher.direct(["python3"], call.timeout_s, shell=False)
        command = list(work.argv)
        if work.code is not None:  # a script too long for a command line
            name = self.workspace.spill(f"script-{call.call_id}", work.code)
            command.append(f"{BOX_ROOT}/{name}")
        return self._launcher.direct(command, call.timeout_s, shell=self.has_shell)

    def _launch_warm(self, wanted: tuple[str, ...]) -> Launch:
        config = self._config
        # Another Python may find more in the workspace; a private copy may change.
        fixed = self.image.host_python and config.deps_readonly
        return self._launcher.driven(
            IDLE_S + config.timeout_s,
            preload=PRELOAD,
            wanted=wanted if fixed else (),
        )

    def _launch_session(self, call_timeout_s: float) -> Launch:
        config = self._config
        longest_s = max(config.timeout_max_s or config.timeout_s, call_timeout_s)
        life_s = config.max_age_s + longest_s
        return self._launcher.driven(life_s, mode=config.mode, preload=PRELOAD)

    def _on_box_end(self, box: Box) -> None:
        said = box.evidence.limits_enforced
        if said is not None:
            self.limits_enforced = said
        self.dispatch.tell_emptied()

    # -- the account that code runs as

    def find_account(self, ask: Callable[[Work], ExecutionResult]) -> None:
        """Find out who code is, by asking a box, and let that account in."""
        if self.has_python or self.has_shell:
            self._account = find_account(self._launcher, ask, python=self.has_python)
        self.share()

    def about_account(self) -> str:
        """Say what the image's account needs of this machine, to end a sentence."""
        return about_account(self._launcher)

    def share(self) -> None:
        """Let the account that code runs as use the folders of this sandbox."""
        if self._account is None:
            return
        folders = [self.workspace.root]
        if self.deps is not None and not self.deps.read_only:
            folders.append(self.deps.root)
        for folder in folders:
            share(folder, self._account, limit=SCAN_LIMIT_ENTRIES)

    # -- the end

    def close(self) -> None:
        """End every call, wait for the boxes' end, remove what is ours; once."""
        with self._closing:
            if self._closed:
                return
            self.dispatch.close().result()
            if self._account is not None and self.workspace.owned:
                take_back(self._launcher)
            self.workspace.close()
            if self.deps is not None:
                self.deps.close()
            if self._image_used is not None:
                self._image_used.close()
            self._closed = True
            _open.discard(self)

    def aside(self, step: Callable[[], None]) -> None:
        """Have a step that may wait run on a thread; a finalizer may ask for that."""
        self._engine.aside(step)

    def abandon(self, pid: int) -> None:
        """Do as `close` some time soon, for a sandbox that was lost without it.

        May be called by the collector in any thread, and whatever that thread holds, so
        it neither waits nor takes a lock.

        Args:
            pid: The process that opened the sandbox. In a forked child what it holds is
                the parent's to give back.
        """
        if os.getpid() != pid:
            return
        self._engine.post(self._close_aside)
        message = f"unclosed sandbox with the workspace {str(self.workspace.root)!r}"
        warnings.warn(f"{message}: use `with`, or call `close()`", ResourceWarning, 2)

    def _close_aside(self) -> None:
        aside = threading.Thread(
            target=self.close, name="kern-tools-close", daemon=True
        )
        with suppress(RuntimeError):  # the process ends, which closes it too
            aside.start()


def _image_of(config: SandboxConfig) -> tuple[ImageRef, Use | None]:
    """Give the image, and what keeps one that was built here from being removed."""
    find = partial(
        ensure_image,
        config.image,
        packages=config.packages,
        offline=config.offline,
        pull_timeout_s=config.pull_timeout_s,
    )
    image = find()
    if not image.host_python:
        return image, None
    used = use("image", image.reference)
    return find() if used.is_first else image, used


def _without_callbacks(config: SandboxConfig) -> SandboxConfig:
    """Copy what may refer to the sandbox; each call brings the callbacks along."""
    if config.on_stdout is None and config.on_stderr is None:
        return config
    bare = copy(config)
    for name in ("on_stdout", "on_stderr"):
        object.__setattr__(bare, name, None)
    return bare


_open: set[Holdings] = set()


def _at_exit() -> None:
    """Close what was left open: no box and no workspace outlives the process."""
    for holdings in list(_open):
        holdings.close()


# What a forked child inherits is its parent's to close.
os.register_at_fork(after_in_child=_open.clear)
atexit.register(_at_exit)
