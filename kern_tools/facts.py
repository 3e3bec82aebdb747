"""What is true of one sandbox, for the words that are written about it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal, Self

from .toolsets import tool_names

if TYPE_CHECKING:
    from .config import SandboxConfig
    from .image import ImageRef

TOOLS = tool_names()
HOST_LANGUAGES = ("python", "bash", "sh")
LANGUAGES = (*HOST_LANGUAGES, "node")

_UNIT_BYTES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxFacts:
    """What is true of one sandbox, as plain values; all that templates may use.

    Attributes:
        mode: What survives a call: `fresh` files, `resident` also /tmp and processes,
            `kernel` also Python names.
        image: The reference of the image.
        host_python: The image is made from the Python that runs this process.
        python_version: Of the image, `3.12.4`; None where that is not known.
        packages: Name and version of the Python packages that code can import.
        languages: What `run_code` takes here.
        timeout_s: The limit of a call that asks for none.
        timeout_max_s: The highest limit a call may ask for.
        memory_mb: The cap asked for, in MiB; None for no cap.
        cpus: The cap asked for.
        pids: The cap asked for.
        limits_enforced: Whether caps bind on this machine; None where not known.
        network: `off`, `on`, or the only domains that can be reached.
        workspace: Where the workspace is in the box.
        tmpfs: Path and bytes of each scratch directory that a box has of its own.
        mounts: Path of each further mount, and whether it can be written.
        workspace_max_bytes: The cap on the workspace; None for no cap.
        max_output_bytes: How much of a stream is kept.
        text_chars: How many characters a reply may have.
        images: How many images a reply may carry.
        tools: The names of the tools offered.
    """

    mode: Literal["fresh", "resident", "kernel"] = "fresh"
    image: str
    host_python: bool
    python_version: str | None
    packages: tuple[tuple[str, str], ...] = ()
    languages: tuple[str, ...] = HOST_LANGUAGES
    timeout_s: float = 30
    timeout_max_s: float = 30
    memory_mb: int | None = 512
    cpus: float | None = None
    pids: int | None = 256
    limits_enforced: bool | None = None
    network: Literal["off", "on"] | tuple[str, ...] = "off"
    workspace: str = "/workspace"
    tmpfs: tuple[tuple[str, int], ...] = ()
    mounts: tuple[tuple[str, bool], ...] = ()
    workspace_max_bytes: int | None = None
    max_output_bytes: int = 1 << 20
    text_chars: int = 8000
    images: int = 4
    tools: tuple[str, ...] = TOOLS

    @classmethod
    def of(
        cls,
        config: SandboxConfig,
        image: ImageRef,
        *,
        limits_enforced: bool | None = None,
        tools: Sequence[str] = TOOLS,
        installed: Sequence[tuple[str, str]] = (),
    ) -> Self:
        """Read the facts off a sandbox that is open.

        Args:
            config: Its options.
            image: The image its boxes are made of.
            limits_enforced: What kern last said about the caps.
            tools: The names of the tools offered.
            installed: Name and version of what `setup` installed.
        """
        return cls(
            mode=config.mode,
            image=config.image,
            host_python=image.host_python,
            python_version=platform.python_version() if image.host_python else None,
            packages=(*_versions(tuple(config.packages)), *installed),
            languages=HOST_LANGUAGES if image.host_python else LANGUAGES,
            timeout_s=config.timeout_s,
            timeout_max_s=config.timeout_max_s or config.timeout_s,
            memory_mb=config.memory_mb,
            cpus=config.cpus,
            pids=config.pids,
            limits_enforced=limits_enforced,
            network="on" if config.network else tuple(config.egress_allow) or "off",
            tmpfs=tuple((path, _bytes(size)) for path, size in config.scratch.items()),
            mounts=tuple((bind.target, not bind.read_only) for bind in config.binds),
            workspace_max_bytes=config.workspace_max_bytes,
            max_output_bytes=config.max_output_bytes,
            text_chars=config.budget.text_chars,
            images=config.budget.images,
            tools=tuple(tools),
        )

    def offering(self, tools: str | Sequence[str]) -> Self:
        """Give the same facts with other tools offered.

        Args:
            tools: Names of sets or of single tools.
        """
        return replace(self, tools=tool_names(tools))


@cache
def _versions(packages: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    if not packages:
        return ()
    from .packages import installed

    return tuple((found.name, found.version) for found in installed(packages))


def _bytes(size: str) -> int:
    return int(size[:-1]) * _UNIT_BYTES[size[-1].lower()]
