"""What stays of a conversation whose sandbox its pool has closed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .call import Lost
from .conversations import Conversation, Namer
from .faults import SandboxError, SnapshotError, startup_fault
from .sandbox import Sandbox

OnEvict = Callable[[Sandbox, str, str | None], Any]
"""Called with the open sandbox, the conversation's key and its tenant."""

REMEMBERED_MOST = 1 << 16
"""How many closed conversations are remembered; of older ones nobody is told."""


class Keeping:
    """Keeps files where the pool has a place for them, and knows whom it closed.

    Args:
        namer: Names the snapshots.
        snapshots: A folder or URL, or None.
        on_evict: The developer's own way to keep something.
    """

    def __init__(
        self,
        namer: Namer,
        snapshots: str | os.PathLike[str] | None,
        on_evict: OnEvict | None,
    ) -> None:
        self._namer = namer
        self._snapshots = None if snapshots is None else os.fspath(snapshots)
        self._on_evict = on_evict
        self._closed: dict[str, bool] = {}

    def evict(self, whose: Conversation, sandbox: Sandbox) -> None:
        """Do what is to be done before the pool closes a sandbox by itself.

        Raises:
            SandboxError: It could not be done; the sandbox should be kept.
        """
        if self._on_evict is not None:
            try:
                self._on_evict(sandbox, whose.key, whose.tenant)
            except Exception as error:
                message = f"on_evict raised {type(error).__name__}"
                raise _unkept(message, "on_evict") from error
        if sandbox.is_open:  # on_evict may have closed it
            self.save(whose, sandbox)

    def save(self, whose: Conversation, sandbox: Sandbox) -> None:
        """Keep the files of a sandbox, where there is a place for them.

        Raises:
            SandboxError: They could not be saved.
        """
        if self._snapshots is None:
            return
        try:
            sandbox.snapshot(self._location(whose))
        except SandboxError as error:
            raise _unkept(f"a snapshot failed ({error})", "snapshot") from error

    def restore(self, whose: Conversation, sandbox: Sandbox) -> Lost | None:
        """Bring back what was kept; tell what an earlier sandbox took with it.

        Raises:
            SandboxError: Something was kept and cannot be brought back.
        """
        name = self._namer.name(whose)
        if self._snapshots is not None:
            try:
                sandbox.restore(self._location(whose))
            except SnapshotError as error:
                if error.code != "not_found":
                    raise
            else:
                self._closed.pop(name, None)
                return "names"
        return "files" if self._closed.pop(name, False) else None

    def remember(self, whose: Conversation) -> None:
        """Note that a conversation's sandbox is closed."""
        self._closed[self._namer.name(whose)] = True
        if len(self._closed) > REMEMBERED_MOST:
            self._closed.pop(next(iter(self._closed)), None)

    def forget(self, whose: Conversation) -> None:
        """Let go of everything that was kept."""
        self._closed.pop(self._namer.name(whose), None)
        if self._snapshots is not None:
            from .snapshot import remove_snapshot  # only where there are any

            remove_snapshot(self._location(whose))

    def _location(self, whose: Conversation) -> str:
        assert self._snapshots is not None
        return f"{self._snapshots.rstrip('/')}/{self._namer.name(whose)}.tar.gz"


def _unkept(what: str, reason: str) -> SandboxError:
    message = f"{what}, so that the sandbox which should make room is kept"
    fault = startup_fault(reason, message, retryable=True)
    return SandboxError(message, code=reason, fault=fault)
