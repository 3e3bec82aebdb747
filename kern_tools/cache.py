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


def record_place() -> dict[str, str]:
    """Return the environment that tells kern where to keep its records of boxes.

    Without a home it would take the folder for temporary files, and refuse to mount the
    workspaces that lie there too.

    Raises:
        HostError: There is no place for our own files either.
    """
    if os.environ.get("HOME") or os.environ.get("XDG_DATA_HOME"):
        return {}
    return {"XDG_DATA_HOME": str(made_cache_folder("records"))}


def tellable(folder: Path) -> Path:
    """Return a directory that kern can be told: it reads UTF-8 alone.

    Raises:
        HostError: Its name holds other bytes.
    """
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise HostError(
            f"the directory {str(folder)!r} has a name that is not UTF-8, which kern"
            " cannot be told: set TMPDIR to another"
        ) from None
    return folder
