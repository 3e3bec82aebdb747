"""What the contracts are run on: the parts of a sandbox, and every adapter."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import pytest

from .contract import SandboxClauses
from .contract_adapter import Adapter, AdapterContract
from .contract_backend import Backend, BackendContract
from .contract_calls import CallContract
from .contract_ending import EndingContract
from .contract_limits import LimitsContract
from .contract_place import PlaceContract
from .contract_walls import WallsContract
from .faults import ConfigError
from .sandbox import Sandbox

PARTS: Mapping[str, type[SandboxClauses]] = {
    "calls": CallContract,
    "ending": EndingContract,
    "place": PlaceContract,
    "walls": WallsContract,
    "limits": LimitsContract,
}
"""The parts of the sandbox itself."""
ADAPTERS: Mapping[str, str] = {
    "langchain": "kern_tools.adapters.langchain.caller:caller",
    "llama-index": "kern_tools.adapters.llama_index.caller:caller",
    "openai-responses": "kern_tools.adapters.openai.caller:responses_caller",
    "openai-chat": "kern_tools.adapters.openai.caller:chat_caller",
    "openai-agents": "kern_tools.adapters.openai_agents.caller:caller",
    "mcp": "kern_tools.adapters.mcp.caller:caller",
    "deepagents": "kern_tools.adapters.deepagents:as_backend",
}
"""Every adapter of ours, and what makes its caller, or its backend, of a sandbox."""
_BACKENDS = ("deepagents",)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is looked at, in one mode.

    Attributes:
        name: A part of the sandbox, or an adapter.
        mode: Of the sandbox.
        clauses: The contract, made for it.
    """

    name: str
    mode: str
    clauses: type

    @property
    def label(self) -> str:
        """What tells it from all others."""
        return f"{self.name}-{self.mode}"


def parts(modes: Iterable[str]) -> list[Subject]:
    """Make the contracts of the sandbox itself."""
    return [
        Subject(name, mode, type(name, (contract,), {"options": {"mode": mode}}))
        for mode in modes
        for name, contract in PARTS.items()
    ]


def adapter(name: str, modes: Iterable[str]) -> list[Subject]:
    """Make the contract of an adapter.

    Args:
        name: One of `ADAPTERS`, or `module:function` of an adapter of one's own, whose
            function takes a `Sandbox` and returns an `Adapter`.
        modes: Of the sandbox.

    Raises:
        ImportError: Its framework is missing; for one of ours the text ends with the
            pip command.
        ConfigError: `name` is neither.
    """
    make = _made_by(name)
    bind = _backend_class if name in _BACKENDS else _adapter_class
    return [Subject(name, mode, bind(name, mode, make)) for mode in modes]


def _made_by(name: str) -> Callable[[Sandbox], Any]:
    module, colon, function = ADAPTERS.get(name, name).partition(":")
    if not (module and colon and function):
        raise ConfigError(
            f"adapter {name!r} is none of {', '.join(ADAPTERS)}; for one of your own"
            " name its caller as 'module:function'",
            option="adapter",
        )
    found: Any = getattr(importlib.import_module(module), function, None)
    if not callable(found):
        raise ConfigError(
            f"adapter {name!r}: {module} has no function {function!r}; define it there,"
            " to take a Sandbox and return a kern_tools.testing.Adapter",
            option="adapter",
        )
    return cast("Callable[[Sandbox], Any]", found)


def _adapter_class(name: str, mode: str, make: Callable[[Sandbox], Adapter]) -> type:
    def given(self: object, sandbox: Sandbox) -> Adapter:
        return make(sandbox)

    fixture = pytest.fixture(given, name="adapter")
    return type(name, (AdapterContract,), {"mode": mode, "adapter": fixture})


def _backend_class(name: str, mode: str, make: Callable[[Sandbox], Backend]) -> type:
    def given(self: object, sandbox: Sandbox) -> Backend:
        return make(sandbox)

    fixture = pytest.fixture(given, name="backend")
    return type(name, (BackendContract,), {"mode": mode, "backend": fixture})
