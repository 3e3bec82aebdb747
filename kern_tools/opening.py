"""The sandbox of a command."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from .config import SandboxConfig
from .image import ensure_image
from .sandbox import Sandbox
from .screen import progress


@contextmanager
def opened(config: SandboxConfig) -> Generator[Sandbox]:
    """Open a sandbox for a `with` block; what takes long is told on stderr.

    Args:
        config: Its options.

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
    with Sandbox(config) as sandbox:
        yield sandbox
