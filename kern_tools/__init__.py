"""A code sandbox for agents, with typed outcomes.

Names load on first use, so that `import kern_tools` costs next to nothing and brings
in no framework. The adapters are `kern_tools.adapters.langchain`, `.llama_index` and
`.openai`; what tests inherit is `kern_tools.testing`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import DEFAULT_TMPFS_MB, Budget, SandboxConfig
    from .events import OutputEvent, ResultEvent
    from .faults import (
        ConfigError,
        FaultType,
        HostError,
        MountRefused,
        PoolFull,
        SandboxClosed,
        SandboxError,
        SandboxFault,
        SnapshotError,
        WorkspaceError,
    )
    from .one_shot import arun_code, run_code
    from .policy import FaultPolicy
    from .pool import SandboxPool
    from .result import ExecutionResult, FaultError, FileInfo, RichResult
    from .sandbox import Sandbox
    from .stop import Stop, StopReason
    from .transcript import Transcript

    __version__: str

__all__ = [  # noqa: RUF022 - plain `sorted` order, which a test can hold.
    "Budget",
    "ConfigError",
    "DEFAULT_TMPFS_MB",
    "ExecutionResult",
    "FaultError",
    "FaultPolicy",
    "FaultType",
    "FileInfo",
    "HostError",
    "MountRefused",
    "OutputEvent",
    "PoolFull",
    "ResultEvent",
    "RichResult",
    "Sandbox",
    "SandboxClosed",
    "SandboxConfig",
    "SandboxError",
    "SandboxFault",
    "SandboxPool",
    "SnapshotError",
    "Stop",
    "StopReason",
    "Transcript",
    "WorkspaceError",
    "__version__",
    "arun_code",
    "run_code",
]

_MODULES = {
    "config": ("Budget", "DEFAULT_TMPFS_MB", "SandboxConfig"),
    "events": ("OutputEvent", "ResultEvent"),
    "faults": (
        "ConfigError",
        "FaultType",
        "HostError",
        "MountRefused",
        "PoolFull",
        "SandboxClosed",
        "SandboxError",
        "SandboxFault",
        "SnapshotError",
        "WorkspaceError",
    ),
    "one_shot": ("arun_code", "run_code"),
    "policy": ("FaultPolicy",),
    "pool": ("SandboxPool",),
    "result": ("ExecutionResult", "FaultError", "FileInfo", "RichResult"),
    "sandbox": ("Sandbox",),
    "stop": ("Stop", "StopReason"),
    "transcript": ("Transcript",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    value = _load(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _load(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("kern-tools")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
