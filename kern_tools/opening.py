"""The sandbox of a command."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from .config import SandboxConfig
from .image import ensure_image
from .sandbox import Sandbox
from .screen import progress


@contextmanager
def opened(config: SandboxConfig, *, warm: bool = True) -> Generator[Sandbox]:
    """Open a sandbox for a `with` block; what takes long is told on stderr.

    Args:
        config: Its options.
        warm: Keep boxes ready; a command of one call or none has no use for them.

    Raises:
        SandboxError: The sandbox cannot be opened; `fault` says why.
    """
    with progress() as tell:
        ensure_image(
            config.image,
            packages=config.packages,
            offline=config.offline,
            pull_timeout_s=config.pull_timeout_s,
            progress=tell,
        )
    with Sandbox(config if warm else replace(config, prewarm=0)) as sandbox:
        yield sandbox
