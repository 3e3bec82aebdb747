"""Our directory below the user's cache: what outlives a process is kept there."""

from __future__ import annotations

import os
from pathlib import Path

from .faults import HostError


def cache_folder() -> Path:
    """Return our directory below the one where kern keeps its images.

    Raises:
        HostError: Neither HOME nor XDG_CACHE_HOME is set; kern would see no images.
    """
    cache = os.environ.get("XDG_CACHE_HOME")
    home = os.environ.get("HOME")
    if cache:
        return Path(cache) / "kern-tools"
    if home:
        return Path(home) / ".cache" / "kern-tools"
    raise HostError(
        "kern keeps its images below HOME, which is not set: set HOME or"
        " XDG_CACHE_HOME",
        code="no_home",
    )


def made_cache_folder(*names: str) -> Path:
    """Return our directory, or one in it, made where it is missing.

    Raises:
        HostError: It has no place, or cannot be made.
    """
    folder = cache_folder().joinpath(*names)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise HostError(
            f"the directory {str(folder)!r} cannot be made ({error.strerror}): set"
            " XDG_CACHE_HOME to one that can be written",
            code="no_home",
        ) from error
    return folder
