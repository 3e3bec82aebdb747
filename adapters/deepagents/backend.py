"""A sandbox as the backend of a deep agent.

The agent's `execute` runs each command in a box; its file tools use the same workspace.
Text goes there and back as it is: deepagents reads the output of its own commands.

Source: `deepagents.backends.protocol.SandboxBackendProtocol`, of 0.7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from kern_tools.extras import missing
from kern_tools.faults import SandboxClosed, SandboxError, WorkspaceError
from kern_tools.names import BOX_ROOT
from kern_tools.prompting import system_prompt as whole_prompt
from kern_tools.reply import Reply
from kern_tools.result import ExecutionResult
from kern_tools.sandbox import Sandbox
from kern_tools.source import Pool, Source
from kern_tools.tools import tools_of

try:
    from deepagents.backends import CompositeBackend
    from deepagents.backends.protocol import (
        FILE_NOT_FOUND,
        INVALID_PATH,
        IS_DIRECTORY,
        PERMISSION_DENIED,
        EditResult,
        ExecuteResponse,
        FileDownloadResponse,
        FileUploadResponse,
        GlobResult,
        WriteResult,
    )
    from deepagents.backends.sandbox import BaseSandbox
    from langchain_core.runnables import RunnableConfig
    from langchain_core.runnables.config import ensure_config
except ImportError as error:
    missing("deepagents", error)

__all__ = ["ARTIFACTS", "KernBackend", "KernResponse", "as_backend", "system_prompt"]

ARTIFACTS = f"{BOX_ROOT}/.deepagents"
"""Where an agent keeps what it takes out of its messages; the `/` of a box is fixed."""
_KEY = "config={'configurable': {'thread_id': ...}}"
_COULD_NOT_RUN = 126
"""What a shell gives for a command that it cannot execute."""
_ERRORS = {
    "not_found": FILE_NOT_FOUND,
    "is_directory": IS_DIRECTORY,
    "permission": PERMISSION_DENIED,
    "bad_path": INVALID_PATH,
}

_REPLIES_AND_MORE = "\nHow to work:"
"""Where the part of the system prompt begins that speaks of tools of ours."""
_WORK = (
    f"Give file tools absolute paths below {BOX_ROOT}, where commands start too.",
    "Output that begins with `fault: TYPE` was ended by the sandbox, or never began.",
)

OnResult = Callable[[ExecutionResult], object]


def as_backend(
    sandbox: Sandbox | Pool,
    *,
    tenant: Callable[[RunnableConfig], Any] | None = None,
    on_result: OnResult | None = None,
) -> CompositeBackend:
    """Give `sandbox` to `create_deep_agent(backend=...)`.

    Args:
        sandbox: Where commands run and files are; open for as long as the agent runs.
            Of a pool, each `thread_id` of the config has a sandbox of its own.
        tenant: With a pool, given the config, tells whose the conversation is.
        on_result: Given the result of each command, those of the file tools included:
            an agent's messages have an exit code and no fault.

    Returns:
        A `KernBackend`, in a `CompositeBackend` because that alone can say where the
        agent's own files go; add `routes` to it as to any other.
    """
    backend = KernBackend(sandbox, tenant=tenant, on_result=on_result)
    return CompositeBackend(backend, {}, artifacts_root=ARTIFACTS)


def system_prompt(sandbox: Sandbox | Pool) -> str:
    """Tell a deep agent what holds in its sandbox, beside deepagents' own words.

    Returns:
        Text for `create_deep_agent(system_prompt=...)`.
    """
    whole = whole_prompt(sandbox.describe().offering("run_command"))
    place, *_ = whole.split(_REPLIES_AND_MORE)
    return "\n- ".join([_renamed(place.rstrip()), *_WORK])


@dataclass
class KernResponse(ExecuteResponse):
    """What came of a command.

    Attributes:
        result: All of it, `fault` included; None where nothing was run.
    """

    result: ExecutionResult | None = None


class KernBackend(BaseSandbox):
    """The files and the shell of a sandbox; arguments as in `as_backend`.

    Files can be written below `/workspace` alone, which is what a sandbox keeps.
    """

    def __init__(
        self,
        sandbox: Sandbox | Pool,
        *,
        tenant: Callable[[RunnableConfig], Any] | None = None,
        on_result: OnResult | None = None,
    ) -> None:
        self._source = Source(sandbox, tenant=tenant, key=_KEY)
        (self._shell,) = tools_of(self._source, "run_command")
        self._on_result = on_result
        self._id = f"kern-{uuid4().hex}"

    @property
    def id(self) -> str:
        """An id of this backend, made up."""
        return self._id

    # -- commands

    def execute(self, command: str, *, timeout: int | None = None) -> KernResponse:
        """Run a line of shell, or a script.

        Args:
            command: What to run, with `/workspace` as its directory.
            timeout: Its limit in seconds, within the sandbox's `timeout_max_s`; None
                and 0 are the sandbox's own.

        Returns:
            stdout and stderr as one text, in the order in which they were written. What
            the sandbox has to say of a fault comes first.
        """
        config = ensure_config()
        reply = self._shell.call(
            _arguments(command, timeout),
            conversation=_thread(config),
            offered=config,
        )
        return self._response(reply)

    async def aexecute(
        self,
        command: str,
        *,
        timeout: int | None = None,
    ) -> KernResponse:
        """Do as `execute`, natively async: cancelling it ends the box."""
        config = ensure_config()
        reply = await self._shell.acall(
            _arguments(command, timeout),
            conversation=_thread(config),
            offered=config,
        )
        return self._response(reply)

    def _response(self, reply: Reply) -> KernResponse:
        result = reply.result
        if result is None:
            return KernResponse(reply.text, _COULD_NOT_RUN)
        if self._on_result is not None:
            self._on_result(result)
        output = f"{_said(reply)}{result.stdout}{result.code_stderr}"
        return KernResponse(output, result.exit_code, result.truncated, result)

    # -- files

    def write(self, file_path: str, content: str) -> WriteResult:
        """Write a file in one step, without a box; directories above it are made."""
        error = self._write(file_path, content)
        if error is not None:
            return WriteResult(error=f"Failed to write file '{file_path}': {error}")
        return WriteResult(path=file_path)

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        """Do as `write`: it is quick, and a thread would outlive a cancellation."""
        return self.write(file_path, content)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files; each has its own answer."""
        return [
            FileUploadResponse(path, error=self._write(path, data))
            for path, data in files
        ]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files; each has its own answer."""
        return [self._download(path) for path in paths]

    def _write(self, path: str, data: str | bytes) -> str | None:
        def write(sandbox: Sandbox) -> None:
            sandbox.write_file(path, data)

        return self._with_file(path, write)

    def _download(self, path: str) -> FileDownloadResponse:
        found: list[bytes] = []

        def read(sandbox: Sandbox) -> None:
            found.append(sandbox.read_file(path))

        error = self._with_file(path, read)
        return FileDownloadResponse(path, found[0] if found else None, error)

    def _with_file(self, path: str, use: Callable[[Sandbox], None]) -> str | None:
        """Use a file of the workspace; give what stood in the way, if anything did."""
        if not path.startswith("/"):
            return INVALID_PATH
        config = ensure_config()
        try:
            with self._source.lease(_thread(config), config) as sandbox:
                use(sandbox)
        except WorkspaceError as error:
            return _ERRORS.get(error.code, str(error))
        except SandboxClosed:
            raise
        except SandboxError as error:
            return str(error)
        return None

    # -- what deepagents would do in places that are not kept

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files, by default in the workspace instead of in all of the image."""
        return super().glob(pattern, path or BOX_ROOT)

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Do the same, natively async."""
        return await super().aglob(pattern, path or BOX_ROOT)

    def _edit_via_upload(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool
    ) -> EditResult:
        """Edit with one command, however long the strings: `/tmp` may not be kept."""
        return self._edit_inline(file_path, old_string, new_string, replace_all)

    async def _aedit_via_upload(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool
    ) -> EditResult:
        return await self._aedit_inline(file_path, old_string, new_string, replace_all)


def _arguments(command: str, timeout_s: int | None) -> dict[str, Any]:
    # On the command's first line, so that its lines keep their numbers.
    return {"command": f"exec 2>&1; {command}", "timeout_s": timeout_s or None}


def _thread(config: RunnableConfig) -> object:
    return config.get("configurable", {}).get("thread_id")


def _said(reply: Reply) -> str:
    """Give what the sandbox has to say of a fault, as lines."""
    if reply.fault_type is None:
        return ""
    first, *lines = reply.text.split("\n")
    advice = [line for line in lines[-1:] if line.startswith("next: ")]
    said = "".join(f"{line}\n" for line in (first, *advice))
    return _renamed(said)


def _renamed(said: str) -> str:
    """Name the limit of a call as deepagents' own tool does."""
    return said.replace("`timeout_s`", "`timeout`")
