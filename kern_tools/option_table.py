"""Which check each option takes, and the checks that only one option has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from .faults import ConfigError
from .mounts import check_workspace
from .options import (
    Check,
    FrozenMap,
    callback,
    each,
    flag,
    near,
    number,
    one_of,
    optional,
    refusal,
    text,
    whole,
)

if TYPE_CHECKING:
    from pydantic import SecretStr


def _image(option: str, value: object) -> str:
    remedy = "write 'host', or a reference such as 'python:3.12-slim'"
    if not isinstance(value, str):
        raise refusal(option, value, "is not a str", remedy)
    if not value or value.startswith("-"):
        raise refusal(option, value, "is no image reference", remedy)
    if not value.isprintable() or any(char.isspace() for char in value):
        raise refusal(option, value, "holds a space or a control character", remedy)
    return value


def _capability(option: str, value: object) -> str:
    known = ["ALL", *CAPABILITIES]
    if isinstance(value, str) and value.removeprefix("CAP_") in known:
        return value
    meant = near(value, [n.lower() for n in known]) if isinstance(value, str) else []
    names = [repr(name.upper()) for name in meant] or ["'ALL'", "'NET_RAW'"]
    remedy = f"write a name such as {' or '.join(names)}"
    raise refusal(option, value, "is not a Linux capability", remedy)


def _env(option: str, value: object) -> FrozenMap[str, SecretStr]:
    # No message quotes a value here: it may be a secret, also where it is misplaced.
    if not isinstance(value, Mapping):
        kind = type(value).__name__
        raise ConfigError(
            f"{option} is of type {kind}, not a mapping; write"
            f" {option}={{'NAME': 'value'}}, or {{}} for none",
            option=option,
        )
    pairs = cast("Mapping[object, object]", value).items()
    return FrozenMap({_env_name(n): _env_value(str(n), v) for n, v in pairs})


def _env_name(name: object) -> str:
    if isinstance(name, str) and re.fullmatch(_ENV_NAME, name):
        return name
    head, equals, _ = name.partition("=") if isinstance(name, str) else (name, "", "")
    shown = f"{head!r} followed by '='" if equals else repr(head)
    raise ConfigError(
        f"env names a variable {shown}; use letters, digits, '_', '.' and '-', no digit"
        " first, and give the value as the mapping's value",
        option="env",
    )


def _env_value(name: str, value: object) -> SecretStr:
    from pydantic import SecretStr  # a third of pydantic's import: only when needed

    plain = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(plain, str):
        raise ConfigError(
            f"env[{name!r}] is of type {type(plain).__name__}; write it as a str",
            option="env",
        )
    if any(char in "\0\n\r" or "\ud800" <= char <= "\udfff" for char in plain):
        raise ConfigError(
            f"env[{name!r}] holds a NUL, a newline or a lone surrogate; encode it, as"
            " base64 for one, or write it to a workspace file",
            option="env",
        )
    return SecretStr(plain)


_ENV_NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"

# fmt: off
CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL",
    "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE",
    "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE",
    "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT",
    "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE",
    "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN",
    "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)
# fmt: on
"""Every capability of Linux. Source: capabilities(7)."""

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ACCOUNT = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}"
_DAY_S = 86_400

_distribution = text(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?",
    "write the bare name of an installed distribution, such as 'pandas'; its"
    " installed version is taken",
)
_domain = text(
    rf"(?=.{{1,253}}$)(?:{_LABEL}\.)+[A-Za-z](?:[A-Za-z0-9-]{{0,61}}[A-Za-z0-9])",
    "write a bare host name such as 'example.com': no scheme, port, path, address or"
    " wildcard, and other scripts as 'xn--...'",
)
_profile = text(
    r"(?:vcpu|vgpio|vdisk):[A-Za-z0-9][A-Za-z0-9._-]*",
    "write 'vcpu:NAME', 'vgpio:NAME' or 'vdisk:NAME', as defined in kern.toml",
)

CHECKS: Mapping[str, Check] = {
    "mode": one_of("fresh", "resident", "kernel"),
    "prewarm": whole(0, 256, "boxes"),
    "setup": optional(
        text(
            r"[^\0\ud800-\udfff]*[^\s\0\ud800-\udfff][^\0\ud800-\udfff]*",
            "write a shell line such as 'pip install pandas'",
        )
    ),
    "setup_timeout_s": number(0.001, _DAY_S, "seconds"),
    "deps_readonly": flag,
    "toolchain": flag,
    "setup_code": optional(text(r"[^\0]*", "write Python source")),
    "max_age_s": number(1, 30 * _DAY_S, "seconds"),
    "timeout_max_s": optional(number(0.001, _DAY_S, "seconds")),
    "image": _image,
    "packages": each(_distribution),
    "workspace": optional(lambda _, value: check_workspace(cast("str", value))),
    "workspace_max_bytes": optional(whole(1, 1 << 50, "bytes")),
    "memory_mb": optional(whole(2, 1 << 24, "MiB")),
    "cpus": optional(number(0.01, 4096, "cores")),
    "pids": optional(whole(2, 1 << 22, "processes")),
    "timeout_s": number(0.001, _DAY_S, "seconds"),
    "network": flag,
    "egress_allow": each(_domain),
    "cap_drop": each(_capability),
    "profiles": each(_profile),
    "env": _env,
    "max_output_bytes": whole(1, 1 << 30, "bytes"),
    "enforce_limits": flag,
    "require_limits": flag,
    "security_profile": optional(one_of("untrusted")),
    "apparmor": optional(
        text(
            r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,127}",
            "write the name of a loaded profile, such as 'docker-default'",
        )
    ),
    "user": optional(
        text(
            rf"{_ACCOUNT}(?::{_ACCOUNT})?",
            "write an account of the image as 'name', '1000' or '1000:1000'",
        )
    ),
    "track_files": flag,
    "offline": flag,
    "pull_timeout_s": number(0.001, _DAY_S, "seconds"),
    "max_running": whole(1, 4096, "calls"),
    "on_stdout": optional(callback),
    "on_stderr": optional(callback),
}
"""Option to check; `config` checks `budget`, and `mounts` and `tmpfs` together."""
