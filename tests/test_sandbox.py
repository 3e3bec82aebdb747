"""The sandbox holds its contract."""

from __future__ import annotations

from kern_tools.sandbox_contract import SandboxContract


class TestFresh(SandboxContract):
    """A new box for every call."""
