"""What ended a run, as data; what is wrong with our house, as exceptions.

- `SandboxError`: something on the developer's side needs a change
    - `ConfigError`: an option cannot be used (also a `ValueError`)
        - `MountRefused`: a mount would defeat the isolation
    - `HostError`: this machine cannot run boxes
    - `SandboxClosed`: the sandbox is not open (any more)
    - `PoolFull`: a pool's sandboxes are all in use
    - `WorkspaceError`: a file of the workspace cannot be read or written
    - `SnapshotError`: a snapshot cannot be made, read or restored
    - `FaultError`: raised by `ExecutionResult.raise_for_fault` only
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict


class FaultType(StrEnum):
    """Who ended a run, when it was not the code itself."""

    TIMEOUT = "timeout"
    OOM = "oom"
    ESCAPE_BLOCKED = "escape_blocked"
    KILLED = "killed"
    EXEC_FAILED = "exec_failed"
    STARTUP_FAILED = "startup_failed"
    WORKSPACE_FULL = "workspace_full"


class SandboxFault(BaseModel):
    """The sandbox acted: it ended the run, or the run never began."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    type: FaultType | str
    """One of `FaultType`; a value that a newer kern adds stays a plain string."""
    message: str
    """One short sentence of ours, never kern's own text."""
    reason: str | None = None
    """What exactly happened within the type: `slow_build`, `image`, `mount`, `limits`,
    `host`, `not_found`, `not_executable`, `interpreter`."""
    retryable: bool = False
    """Nothing of the code ran, and the same call may work when made again."""
    actor: Literal["model", "operator"] = "model"
    """Who can do something about it: who wrote the code, or who runs the host."""


def startup_fault(
    reason: str, message: str, *, retryable: bool = False
) -> SandboxFault:
    """Make the fault of what did not start, for the operator to mend."""
    return SandboxFault(
        type=FaultType.STARTUP_FAILED,
        reason=reason,
        message=message,
        retryable=retryable,
        actor="operator",
    )


class SandboxError(RuntimeError):
    """Something on the developer's side needs a change; the message says which.

    Attributes:
        code: A stable word to branch on; messages may change.
        fault: The fault behind it, where a box was involved.
    """

    code = "sandbox"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        fault: SandboxFault | None = None,
    ) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        self.fault = fault


class ConfigError(SandboxError, ValueError):
    """An option cannot be used; `option` names it."""

    code = "bad_option"

    def __init__(
        self, message: str, *, option: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.option = option


class MountRefused(ConfigError):
    """A mount would hand the box something that defeats the isolation."""

    code = "mount_refused"


class HostError(SandboxError):
    """This machine cannot run boxes: no kern, not Linux, no image tool."""

    code = "host"


class SandboxClosed(SandboxError):
    """The sandbox is not open: use it inside `with`, or call `open` first."""

    code = "closed"


class PoolFull(SandboxError):
    """A pool has no room for another conversation: its sandboxes are all in use.

    `code` is `pool_full`, or `tenant_full` where it is the tenant's own limit.
    """

    code = "pool_full"


class WorkspaceError(SandboxError):
    """A file of the workspace cannot be read or written.

    `code` is one of `not_found`, `is_directory`, `not_regular`, `outside`, `bad_path`,
    `bad_data`, `too_large`, `permission`, `no_space`, `exists`, `io`.
    """

    code = "io"

    def __init__(self, message: str, *, code: str, path: str) -> None:
        super().__init__(message, code=code)
        self.path = path


class SnapshotError(SandboxError):
    """A snapshot cannot be made, read or restored.

    `code` is one of `bad_snapshot`, `newer_format`, `too_large`, `changed`,
    `not_found`, `exists`, `is_directory`, `not_regular`, `bad_location`, `permission`,
    `no_space`, `io`.
    """

    code = "bad_snapshot"

    def __init__(self, message: str, *, code: str, location: str) -> None:
        super().__init__(message, code=code)
        self.location = location
