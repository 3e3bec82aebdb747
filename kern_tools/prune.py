"""Find and remove what a killed process left, and nothing of a living one.

A process that ends in order leaves nothing. One that is killed leaves its folders, at
times a box whose code has cleared its parent-death signal, and kern's scratch. Whose a
thing is stands in its name, and `ownership` tells whether that process lives.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .binary import run_kern
from .expiry import OLDER_THAN_DAYS, expire_images, expire_setups
from .faults import SandboxError
from .ownership import (
    BOX_PREFIX,
    PREFIX,
    DeadOwner,
    dead_owner,
    kept_environments,
    remove_folder,
    tokens,
)
from .processes import named_boxes, send_signal, wait_gone

_END_S = 5.0
_RECOVER_WAIT_S = 120.0
_log = logging.getLogger(__name__)
_begun: set[int] = set()  # the pids of this process and its parents by fork


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """What killed processes had left.

    Attributes:
        processes: How many processes ended without cleaning up.
        boxes: Names of boxes that ran on.
        workspaces: Workspaces that were to be removed at their close.
        folders: Other folders: private files of boxes, unfinished installs and images.
        files: Copies that kern keeps of the environments of such boxes, and snapshots
            that were not finished.
        setups: What `setup` installed, and nobody used for long.
        images: Images that were built here, and nobody used for long.
        kern: What kern said when it reclaimed its own scratch; None where not asked.
        dry_run: They are still there.
    """

    processes: int
    boxes: tuple[str, ...]
    workspaces: tuple[Path, ...]
    folders: tuple[Path, ...]
    files: tuple[Path, ...]
    setups: tuple[Path, ...] = ()
    images: tuple[str, ...] = ()
    kern: str | None
    dry_run: bool

    @property
    def empty(self) -> bool:
        """Nothing was left."""
        ended = self.boxes or self.workspaces or self.folders or self.files
        return not (ended or self.setups or self.images)


def prune(
    dry_run: bool = False, *, older_than_days: float = OLDER_THAN_DAYS
) -> PruneReport:
    """Remove what killed processes of this user left, and what nobody used for long.

    Nothing of a living process is touched. Workspaces that were passed in stay, and so
    do images that were pulled.

    Args:
        dry_run: Only look.
        older_than_days: How long what `setup` installed, and images that were built
            here, are kept after their last use.

    Returns:
        What was found, and is gone now unless `dry_run`.

    Raises:
        HostError: There is no usable kern, or no place for our marks.
        SandboxError: kern could not remove an image.
        subprocess.TimeoutExpired: kern took too long over its own scratch.
    """
    setups = expire_setups(older_than_days=older_than_days, dry_run=dry_run)
    images = expire_images(older_than_days=older_than_days, dry_run=dry_run)
    found = [_pruned(token, dry_run=dry_run) for token in tokens()]
    dead = [report for report in found if report is not None]
    kern = None
    if not dry_run:
        kern = _recover()
    return PruneReport(
        processes=len(dead),
        boxes=tuple(name for one in dead for name in one.boxes),
        workspaces=tuple(path for one in dead for path in one.workspaces),
        folders=tuple(path for one in dead for path in one.folders),
        files=tuple(path for one in dead for path in one.files),
        setups=setups,
        images=images,
        kern=kern,
        dry_run=dry_run,
    )


def prune_once() -> None:
    """Start a look for our own leftovers, on a thread, once in a process."""
    if os.getpid() in _begun:
        return
    _begun.add(os.getpid())
    threading.Thread(target=_prune_ours, name="kern-tools-prune", daemon=True).start()


def _prune_ours() -> None:
    try:
        if [token for token in tokens() if _pruned(token, dry_run=False) is not None]:
            _recover()
    except (OSError, SandboxError, subprocess.TimeoutExpired) as error:
        _log.warning("what killed processes left could not be removed: %s", error)


def _recover() -> str:
    """Have kern reclaim its own scratch of boxes that were killed; give its words."""
    return run_kern(["recover"], timeout_s=_RECOVER_WAIT_S).stdout.strip()


def _pruned(token: str, *, dry_run: bool) -> PruneReport | None:
    with dead_owner(token, keep=dry_run) as dead:
        if dead is None:
            return None
        boxes = _end_boxes(f"{BOX_PREFIX}{token}-", dry_run=dry_run)
        files = kept_environments(token)
        if not dry_run:
            for folder in dead.folders:
                remove_folder(folder)
            for file in (*files, *dead.files):
                file.unlink(missing_ok=True)
        return _report(dead, boxes, files, dry_run=dry_run)


def _report(
    dead: DeadOwner, boxes: Sequence[str], files: Sequence[Path], *, dry_run: bool
) -> PruneReport:
    workspaces = [path for path in dead.folders if path.name.startswith(f"{PREFIX}ws-")]
    return PruneReport(
        processes=1,
        boxes=tuple(boxes),
        workspaces=tuple(workspaces),
        folders=tuple(path for path in dead.folders if path not in workspaces),
        files=(*files, *dead.files),
        kern=None,
        dry_run=dry_run,
    )


def _end_boxes(prefix: str, *, dry_run: bool) -> list[str]:
    """End the boxes of one dead process, and wait until they are gone."""
    found = list(named_boxes(prefix))
    try:
        if not dry_run:
            for _, descriptor in found:
                send_signal(descriptor, signal.SIGKILL)
            for name, descriptor in found:
                if not wait_gone(descriptor, _END_S):
                    _log.warning("the box %s was killed and did not end", name)
    finally:
        for _, descriptor in found:
            os.close(descriptor)
    return sorted({name for name, _ in found})
