"""One conversation's sandbox: a workspace that stays, a fresh box for every call."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, cast

from .config import SandboxConfig
from .faults import ConfigError, SandboxClosed, SandboxError
from .result import ExecutionResult, FileInfo
from .toolsets import DEFAULT_SETS

if TYPE_CHECKING:
    from pathlib import Path

    from .call import Lost
    from .facts import SandboxFacts
    from .locations import Location
    from .opened import Opened
    from .snapshot import RestoreReport, SnapshotReport
    from .streaming import CallStream
    from .streams import OnText
    from .workspace import Workspace


class Sandbox:
    """Runs code nobody has read, each call in a kernel-enforced box of its own.

    Files in `/workspace` stay from call to call; `mode` says whether processes, `/tmp`
    and Python's names do. Calls may be made from any thread or event loop.

    Args:
        config: Ready options; or give them by name, see `SandboxConfig`.

    Raises:
        ConfigError: An option cannot be used; nothing was started.
    """

    def __init__(self, config: SandboxConfig | None = None, /, **options: Any) -> None:
        given = cast("object", config)
        if given is not None and not isinstance(given, SandboxConfig):
            raise ConfigError(
                f"Sandbox({given!r}) is not given a SandboxConfig; write"
                " Sandbox(timeout_s=5), or Sandbox(**options)"
            )
        if config is not None and options:
            config = config.replace(**options)
        self.config = config if config is not None else SandboxConfig(**options)
        self._pid = os.getpid()
        self._opened: Opened | None = None
        self._closed = False
        self._lock = threading.Lock()

    # -- life

    def open(self) -> Self:
        """Make the workspace and the image ready; `with` does this for you.

        Raises:
            SandboxError: The sandbox cannot be opened; `fault` says why.
        """
        with self._lock:
            if self._closed:
                raise SandboxClosed("this sandbox was closed; make a new one")
            if self._opened is None:
                from .opened import Opened  # what runs boxes is not needed before

                self._opened = Opened(self.config)
                self._pid = os.getpid()
            self._check_process()
        return self

    def close(self) -> None:
        """End every call, wait until no box is left, remove a workspace of our own."""
        with self._lock:
            opened, self._opened = self._opened, None
            self._closed = True
        if opened is not None and os.getpid() == self._pid:
            opened.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await _aopen(self)
        return self

    async def __aexit__(self, *error: object) -> None:
        import asyncio

        await asyncio.shield(asyncio.to_thread(self.close))

    # -- calls

    def run_code(
        self,
        code: str,
        language: str = "python",
        *,
        timeout_s: float | None = None,
        call_id: str | None = None,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
    ) -> ExecutionResult:
        """Run code in a new box and wait for its end.

        Args:
            code: The source. The value of a Python cell's last expression, what it
                `display`s and the figures it leaves open come back in `results`.
            language: `python`, `bash`, `sh` or `node`, as the image provides them.
            timeout_s: Seconds for this call; `None` takes the sandbox's `timeout_s`.
            call_id: An id to find the call by; made up where missing.
            on_stdout: Given pieces of text as they arrive, on a thread of ours and in
                the caller's context. A slow callback loses pieces, and within 1 s of
                the call's end it is not waited for any more; the result is whole all
                the same.
            on_stderr: The same for the code's stderr.

        Returns:
            What the code did, or `fault` where the sandbox ended it. Never raised: a
            failure of the code or of its box.

        Raises:
            ConfigError: An argument cannot be used.
            SandboxClosed: The sandbox is not open, or was closed during the call.
        """
        opened = self._ready()
        work = opened.code_work(code, language)
        request = opened.request(work, timeout_s, call_id, on_stdout, on_stderr)
        return opened.run(request)

    async def arun_code(
        self,
        code: str,
        language: str = "python",
        *,
        timeout_s: float | None = None,
        call_id: str | None = None,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
    ) -> ExecutionResult:
        """Do as `run_code`; a cancellation goes on once the box is gone."""
        opened = self._ready()
        work = opened.code_work(code, language)
        request = opened.request(work, timeout_s, call_id, on_stdout, on_stderr)
        return await opened.arun(request)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float | None = None,
        call_id: str | None = None,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
    ) -> ExecutionResult:
        """Run one program of the image in a new box; the rest is as in `run_code`.

        Args:
            argv: The program, found on the box's `PATH`, and its arguments.
            timeout_s: Seconds for this call; `None` takes the sandbox's `timeout_s`.
            call_id: An id to find the call by.
            on_stdout: Given pieces of text as they arrive.
            on_stderr: The same for stderr.

        Returns:
            What the program did; a missing one is the fault `exec_failed`.
        """
        opened = self._ready()
        work = opened.command_work(argv)
        request = opened.request(work, timeout_s, call_id, on_stdout, on_stderr)
        return opened.run(request)

    async def arun(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float | None = None,
        call_id: str | None = None,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
    ) -> ExecutionResult:
        """Do as `run`; a cancellation goes on once the box is gone."""
        opened = self._ready()
        work = opened.command_work(argv)
        request = opened.request(work, timeout_s, call_id, on_stdout, on_stderr)
        return await opened.arun(request)

    def stream_code(
        self,
        code: str,
        language: str = "python",
        *,
        timeout_s: float | None = None,
        call_id: str | None = None,
    ) -> CallStream:
        """Run code in a new box and tell what it writes as it does.

        Args:
            code: The source.
            language: `python`, `bash`, `sh` or `node`, as the image provides them.
            timeout_s: Seconds for this call; `None` takes the sandbox's `timeout_s`.
            call_id: An id to find the call by; made up where missing.

        Returns:
            An iterator, for `for` as well as for `async for`: `OutputEvent`s, then one
            `ResultEvent`. The call begins with the first step. Leaving the loop early
            ends the call; inside `with` or `async with` its box is gone then.
        """
        opened = self._ready()
        work = opened.code_work(code, language)
        return opened.stream(opened.request(work, timeout_s, call_id))

    def stream(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float | None = None,
        call_id: str | None = None,
    ) -> CallStream:
        """Run one program as `run` does; the rest is as in `stream_code`."""
        opened = self._ready()
        work = opened.command_work(argv)
        return opened.stream(opened.request(work, timeout_s, call_id))

    def interrupt(self) -> None:
        """Have the code of every running call see a KeyboardInterrupt.

        A `kernel` keeps its names. Code that ignores the interrupt goes on, and so does
        a shell of the other modes.
        """
        self._ready().dispatch.interrupt()

    def reset(self) -> None:
        """Have the next call start in a new box: `kernel` and `resident` forget.

        A call that runs goes on to its end.
        """
        self._ready().forget_box()

    def wait_ready(self, timeout_s: float | None = None) -> bool:
        """Wait until the boxes that `prewarm` asks for are ready.

        Returns:
            True if they are; False after `timeout_s`, or where this process holds as
            many warm boxes as it may.
        """
        ready = self._ready().when_ready()
        try:
            return ready.result(timeout_s)
        except TimeoutError:
            return False

    @property
    def is_open(self) -> bool:
        """It was opened and is not closed."""
        return self._opened is not None

    @property
    def quiet_since_s(self) -> float | None:
        """When the last call ended, by `time.monotonic()`; None while one runs."""
        return self._ready().quiet_since_s

    def declare_lost(self, lost: Lost) -> None:
        """Have the next result say what an earlier sandbox took with it.

        Args:
            lost: `names` for `state_new`; `files` for `files_lost` as well.
        """
        self._ready().lost = lost

    # -- files

    @property
    def workspace(self) -> Workspace:
        """The workspace's safe host side."""
        return self._ready().workspace

    def write_file(self, path: str, data: str | bytes) -> None:
        """Write one file of the workspace, byte for byte; parents are made.

        Raises:
            WorkspaceError: `code` says why it cannot be written.
        """
        self.workspace.write_file(path, data)

    def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Read one regular file of the workspace.

        Raises:
            WorkspaceError: `code` says why not; `too_large` if over `max_bytes`.
        """
        return self.workspace.read_file(path, max_bytes=max_bytes)

    def list_files(self, path: str = "") -> list[FileInfo]:
        """List the regular files below a folder of the workspace, sorted by path."""
        return self.workspace.list_files(path)

    def export(
        self, folder: str | os.PathLike[str], *paths: str, overwrite: bool = False
    ) -> list[Path]:
        """Copy regular files of the workspace to a folder of the host.

        No link is followed on either side, odd names become printable ones, and the
        copies are never executable.

        Args:
            folder: Where to put them, made if missing; best one of their own.
            *paths: Files, and directories to take whole; with none, everything.
            overwrite: Replace files that are there; otherwise they are refused, before
                anything is copied.

        Returns:
            The copies, in the order of `paths`, then by name.

        Raises:
            WorkspaceError: `exists`, or a file cannot be read or written.
        """
        from .export import export_files

        return export_files(self.workspace, folder, paths, overwrite=overwrite)

    def snapshot(self, target: Location, *, max_bytes: int = 4 << 30) -> SnapshotReport:
        """Save the workspace, and what made it, as one `.tar.gz`.

        Best between calls. A snapshot that fails leaves what was at `target`. Links,
        pipes and the values of `env` are not in it; nor are processes and names.

        Args:
            target: A path, or a URL for fsspec, such as `s3://bucket/run.tar.gz`.
            max_bytes: Refuse a workspace whose files add up to more.

        Returns:
            How many files and bytes it holds, and how many entries were left out.

        Raises:
            SnapshotError: `code` says why it cannot be made.
            WorkspaceError: A file of the workspace cannot be read.
            ImportError: The URL needs a library that is not installed.
        """
        from .snapshot import save_snapshot

        image, workspace = self._ready().image, self.workspace
        return save_snapshot(
            workspace, target, config=self.config, image=image, max_bytes=max_bytes
        )

    async def asnapshot(
        self, target: Location, *, max_bytes: int = 4 << 30
    ) -> SnapshotReport:
        """Do as `snapshot` on a thread, which a cancellation does not stop."""
        import asyncio

        return await asyncio.to_thread(self.snapshot, target, max_bytes=max_bytes)

    def restore(self, source: Location, *, max_bytes: int = 4 << 30) -> RestoreReport:
        """Put the files of a snapshot into the workspace, over those of the same name.

        Best between calls. Options, image and packages stay as they are here: what
        differs from where the snapshot was made is told in the report's `notes`.

        Args:
            source: A path, or a URL for fsspec.
            max_bytes: Refuse a snapshot whose files add up to more.

        Returns:
            What was restored, and what is other here than where it was made.

        Raises:
            SnapshotError: It cannot be used or read; nothing was changed.
            WorkspaceError: The files cannot be put into this workspace.
            ImportError: The URL needs a library that is not installed.
        """
        from .snapshot import restore_snapshot

        opened = self._ready()
        report = restore_snapshot(
            opened.workspace,
            source,
            config=self.config,
            image=opened.image,
            max_bytes=max_bytes,
        )
        opened.share()
        return report

    async def arestore(
        self, source: Location, *, max_bytes: int = 4 << 30
    ) -> RestoreReport:
        """Do as `restore` on a thread, which a cancellation does not stop."""
        import asyncio

        return await asyncio.to_thread(self.restore, source, max_bytes=max_bytes)

    # -- what a prompt may say

    def describe(self) -> SandboxFacts:
        """Give the plain facts that prompts are rendered from; no secrets."""
        from .facts import SandboxFacts

        opened = self._ready()
        return SandboxFacts.of(
            self.config,
            opened.image,
            limits_enforced=opened.known_limits(),
            deps=opened.deps,
        )

    def system_prompt(self, tools: str | Sequence[str] = DEFAULT_SETS) -> str:
        """Tell a model the truth about this sandbox, as text for a system message.

        Args:
            tools: Names of the sets or single tools that it is offered.
        """
        from .prompting import system_prompt

        return system_prompt(self.describe().offering(tools))

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open" if self._opened else "not open"
        return f"<Sandbox {state} image={self.config.image!r}>"

    def _ready(self) -> Opened:
        opened = self._opened
        if opened is None:
            raise SandboxClosed(
                "the sandbox is closed"
                if self._closed
                else "the sandbox is not open: use it inside `with`, or call `open()`"
            )
        self._check_process()
        return opened

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise SandboxError(
                "this sandbox was opened before the process was forked and cannot be"
                " used in the child: open one after the fork (for gunicorn or Celery in"
                " the worker's start hook), or start workers with the 'spawn' method",
                code="forked",
            )


def run_code(code: str, language: str = "python", **options: Any) -> ExecutionResult:
    """Run code once, in a sandbox of its own that is gone afterwards.

    Args:
        code: The source.
        language: `python`, `bash`, `sh` or `node`.
        **options: Those of `SandboxConfig`.

    Returns:
        As from `Sandbox.run_code`; a sandbox that cannot be opened is the fault
        `startup_failed`.

    Raises:
        ConfigError: An option cannot be used.
    """
    sandbox = Sandbox(**{"prewarm": 0, **options})
    try:
        sandbox.open()
    except SandboxError as error:
        return _unopened(error)
    with sandbox:
        return sandbox.run_code(code, language)


async def arun_code(
    code: str, language: str = "python", **options: Any
) -> ExecutionResult:
    """Do as `run_code`, without blocking the event loop."""
    sandbox = Sandbox(**{"prewarm": 0, **options})
    try:
        await _aopen(sandbox)
    except SandboxError as error:
        return _unopened(error)
    async with sandbox:
        return await sandbox.arun_code(code, language)


async def _aopen(sandbox: Sandbox) -> None:
    """Open on a thread; a cancelled opening is undone before the cancel goes on."""
    import asyncio

    opening = asyncio.ensure_future(asyncio.to_thread(sandbox.open))
    try:
        await asyncio.shield(opening)
    except asyncio.CancelledError:
        await asyncio.wait([opening])
        await asyncio.to_thread(sandbox.close)
        raise


def _unopened(error: SandboxError) -> ExecutionResult:
    if error.fault is None:
        raise error
    return ExecutionResult(fault=error.fault, exit_code=125)
