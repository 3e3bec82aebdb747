"""The sandbox holds its contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from zlib import crc32

from kern_tools.sandbox_contract import SandboxContract
from tests.depth import in_part


class TestFresh(SandboxContract):
    """A new box for every call."""


@in_part(lambda test: crc32(test.name.encode()) % 3 == 0)
class TestCold(SandboxContract):
    """No box is started before its call."""

    options: ClassVar[Mapping[str, Any]] = {"prewarm": 0}


class TestResident(SandboxContract):
    """One box, a new interpreter for every call."""

    options: ClassVar[Mapping[str, Any]] = {"mode": "resident"}


class TestKernel(SandboxContract):
    """One interpreter for all calls."""

    options: ClassVar[Mapping[str, Any]] = {"mode": "kernel"}
