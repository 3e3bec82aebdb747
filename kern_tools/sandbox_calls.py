"""The calls of a sandbox: code, programs, and what is told while they run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from .observing import Asked, Observable, aaround, around, begin
from .result import ExecutionResult

if TYPE_CHECKING:
    from .conduct import Request
    from .config import SandboxConfig
    from .opened import Opened
    from .streaming import CallStream
    from .streams import OnText

_Arguments = Mapping[str, object]


class SandboxCalls(Observable, ABC):
    """What a `Sandbox` does with its boxes."""

    config: SandboxConfig

    @abstractmethod
    def _ready(self) -> Opened: ...

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
        arguments = {"code": code, "language": language}
        return self._run(opened, request, "run_code", arguments)

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
        arguments = {"code": code, "language": language}
        return await self._arun(opened, request, "run_code", arguments)

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
        return self._run(opened, request, "run", {"argv": argv})

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
        return await self._arun(opened, request, "run", {"argv": argv})

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
        request = opened.request(work, timeout_s, call_id)
        arguments = {"code": code, "language": language}
        return self._stream(opened, request, "stream_code", arguments)

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
        request = opened.request(work, timeout_s, call_id)
        return self._stream(opened, request, "stream", {"argv": argv})

    # -- told to whoever observes, under the name of the method and with its arguments

    def _run(
        self, opened: Opened, request: Request, name: str, arguments: _Arguments
    ) -> ExecutionResult:
        if self.observer is None:
            return opened.run(request)
        asked = self._asked(request, name, arguments)
        return around(self.observer, asked, lambda: opened.run(request))

    async def _arun(
        self, opened: Opened, request: Request, name: str, arguments: _Arguments
    ) -> ExecutionResult:
        if self.observer is None:
            return await opened.arun(request)
        asked = self._asked(request, name, arguments)
        return await aaround(self.observer, asked, lambda: opened.arun(request))

    def _stream(
        self, opened: Opened, request: Request, name: str, arguments: _Arguments
    ) -> CallStream:
        stream = opened.stream(request)
        if self.observer is not None:
            asked = self._asked(request, name, arguments)
            stream.observe(partial(begin, self.observer, asked))
        return stream

    def _asked(self, request: Request, name: str, arguments: _Arguments) -> Asked:
        mode, call_id = self.config.mode, request.call_id
        return Asked(name=name, mode=mode, arguments=arguments, call_id=call_id)

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
