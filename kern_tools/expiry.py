"""Remove from the cache what nobody has used for long: setups, and images built here.

An image that was pulled is not ours to remove. What expires is made again when it is
asked for.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

from .binary import run_kern
from .cache import cache_folder
from .image_store import remove_image
from .ownership import owned_folder, remove_folder
from .uses import forget_uses, unused

OLDER_THAN_DAYS = 30.0
"""How long a thing is kept that nobody uses, unless told otherwise."""
BUILT_HERE = "localhost/kern-tools/"
_DAY_S = 86_400
_KEY = re.compile("[0-9a-f]{24}")


def expire_setups(*, older_than_days: float, dry_run: bool) -> tuple[Path, ...]:
    """Remove what `setup` installed, no living process uses, and none used for long.

    Args:
        older_than_days: How long.
        dry_run: Only look.

    Returns:
        The folders that are gone, or would be.

    Raises:
        HostError: There is no place for the cache.
    """
    before_s, found = _days_ago_s(older_than_days), _setups()
    return tuple(
        folder for folder in found if _expire_setup(folder, before_s, dry_run=dry_run)
    )


def expire_images(*, older_than_days: float, dry_run: bool) -> tuple[str, ...]:
    """Do the same for the images that were built here.

    Returns:
        Their references.

    Raises:
        HostError: There is no usable kern, or no place for the cache.
        SandboxError: kern could not remove one.
    """
    before_s = _days_ago_s(older_than_days)
    return tuple(
        reference
        for reference, built_s in _images()
        if _expire_image(reference, built_s, before_s, dry_run=dry_run)
    )


def _days_ago_s(days: float) -> float:
    return time.time() - days * _DAY_S


def _setups() -> list[Path]:
    shared = cache_folder() / "setup"
    found = shared.iterdir() if shared.is_dir() else ()
    return sorted(path for path in found if _KEY.fullmatch(path.name))


def _images() -> Iterator[tuple[str, float]]:
    """Give the images that were built here, each with the time of its build."""
    for row in json.loads(run_kern(["images", "--json"]).stdout):
        if str(row["image"]).startswith(BUILT_HERE):
            yield str(row["image"]), float(row.get("pulled") or 0)


def _expire_setup(folder: Path, before_s: float, *, dry_run: bool) -> bool:
    with unused("setup", folder.name) as used_s:
        if used_s is None or max(used_s, folder.stat().st_mtime) > before_s:
            return False
        if not dry_run:
            # Half of it must never stand in its place, whatever ends this process.
            aside = owned_folder("expired", folder.parent)
            folder.rename(aside / folder.name)
            forget_uses("setup", folder.name)
            _forget_lock(f"setup-{folder.name}")
            remove_folder(aside)
    return True


def _expire_image(
    reference: str, built_s: float, before_s: float, *, dry_run: bool
) -> bool:
    with unused("image", reference) as used_s:
        if used_s is None or max(used_s, built_s) > before_s:
            return False
        if not dry_run:
            remove_image(reference)
            forget_uses("image", reference)
    return True


def _forget_lock(name: str) -> None:
    (cache_folder() / f"{name}.lock").unlink(missing_ok=True)
