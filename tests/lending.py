"""A pool of one sandbox that a test can break, and that counts what it lends."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext

from kern_tools import Sandbox, SandboxConfig
from kern_tools.facts import SandboxFacts
from kern_tools.source import Leased

from .standstill import Standstill


class Lender:
    """Lends one sandbox to every call.

    Args:
        sandbox: What it lends.
        mended_at: The call before which `broken` is left: mended while calls go on.
    """

    def __init__(self, sandbox: Sandbox, *, mended_at: int = 0) -> None:
        self.calls = 0
        self.broken = ExitStack()
        self._sandbox = sandbox
        self._mended_at = mended_at

    @property
    def config(self) -> SandboxConfig:
        """The sandbox's."""
        return self._sandbox.config

    def describe(self) -> SandboxFacts:
        """Say the sandbox's."""
        return self._sandbox.describe()

    def lease(self, conversation: object, *, tenant: object = None) -> Leased:
        """Lend it."""
        self.calls += 1
        if self.calls == self._mended_at:
            self.broken.close()
        return nullcontext(self._sandbox)


def held_up(sandbox: Sandbox, standstill: Standstill) -> AbstractContextManager[None]:
    """Hold up the boxes of a sandbox, once kern was asked about this machine."""
    sandbox.describe()
    return standstill.held()
