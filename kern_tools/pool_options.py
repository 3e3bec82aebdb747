"""The options of a pool: its own, and those of every sandbox."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any, cast

from .config import SandboxConfig
from .faults import ConfigError
from .options import Check, check_names, number, optional, refusal, whole


def check_own(**options: object) -> None:
    """Check the options that are the pool's alone."""
    for name, check in _OWN.items():
        check(name, options[name])


def config_of(config: SandboxConfig | None, options: dict[str, Any]) -> SandboxConfig:
    """Give the options of every sandbox.

    Raises:
        ConfigError: They cannot be used, or not in a pool.
    """
    given = cast("object", config)
    if given is not None and not isinstance(given, SandboxConfig):
        raise ConfigError(
            f"SandboxPool({given!r}) is not given a SandboxConfig; write"
            " SandboxPool(timeout_s=5), or SandboxPool(**options)"
        )
    check_names(options, [*_OWN, *SandboxConfig.__dataclass_fields__])
    config = SandboxConfig(**options) if config is None else config.replace(**options)
    if config.workspace is not None:
        raise ConfigError(
            f"workspace={str(config.workspace)!r} would be shared by all conversations"
            " of the pool; leave it out, and give snapshots=... to keep files",
            option="workspace",
        )
    return config


def _place(option: str, value: object) -> object:
    if not isinstance(value, str | os.PathLike):
        remedy = "write a folder, or the URL of one, such as 's3://bucket/agents'"
        raise refusal(option, value, "is neither a path nor a URL", remedy)
    return cast("object", value)


def _secret(option: str, value: object) -> object:
    if not isinstance(value, str | bytes):  # which no message may show
        kind = type(value).__name__
        message = f"{option} is of type {kind}; write it as a str or as bytes"
        raise ConfigError(message, option=option)
    return value


def _listener(option: str, value: object) -> object:
    remedy = "pass a function of three arguments: sandbox, conversation, tenant"
    if not callable(value):
        raise refusal(option, value, "is not callable", remedy)
    if inspect.iscoroutinefunction(value):
        raise refusal(option, value, "is async, and nobody would await it", remedy)
    return value


_OWN: Mapping[str, Check] = {
    "max_sandboxes": whole(1, 1 << 16, "sandboxes"),
    "max_per_tenant": optional(whole(1, 1 << 16, "sandboxes")),
    "idle_timeout_s": optional(number(0.001, 1e9, "seconds")),
    "snapshots": optional(_place),
    "secret": _secret,
    "on_evict": optional(_listener),
}
