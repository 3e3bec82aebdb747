"""The contracts, run on this machine: from an installed package, without a file."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .conformance_plugin import ContractPlugin, Tell
from .conformance_record import MODES, Conformance
from .faults import ConfigError

if TYPE_CHECKING:
    from .conformance_subjects import Subject

_CLAUSES = tuple(
    f"kern_tools.contract_{name}"
    for name in ("adapter", "backend", "calls", "ending", "limits", "place", "walls")
)
_NONE = "none"
_FOREIGN = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")
"""What would bring options and plugins of another project along."""


def run_contracts(
    *,
    modes: Sequence[str] = (),
    adapters: Sequence[str] = (),
    expression: str = "",
    quick: bool = False,
    tell: Tell,
) -> Conformance:
    """Run the clauses of every contract, and say what holds.

    Args:
        modes: Of the sandbox; all by default.
        adapters: Only these, and nothing of the sandbox itself; by default that and
            every adapter of ours whose framework is here. `module:function` is one of
            the caller's own, see `conformance_subjects.adapter`; `none` alone is the
            sandbox without adapters.
        expression: Of pytest's `-k`, over names of clauses, subjects, modes and cases.
        quick: One case of each clause, and of adapters a few, in one mode.
        tell: Told what begins.

    Returns:
        What came of each clause, also after an interrupt.

    Raises:
        ConfigError: A name or the expression cannot be used, or nothing is left.
        ImportError: The framework of a named adapter is missing.
    """
    left_out: dict[str, str] = {}

    def subjects() -> list[Subject]:
        return _subjects(modes, adapters, left_out)

    plugin = ContractPlugin(subjects, quick=quick, tell=tell)
    start_s = time.monotonic()
    code = _run(plugin, ["-k", expression] if expression else [])
    if plugin.error is not None:
        raise plugin.error
    if not plugin.checks or code == pytest.ExitCode.USAGE_ERROR:
        raise ConfigError(
            f"no clause is chosen by -k {expression!r}; write parts of their names, as"
            " 'timeout and kernel'",
            option="-k",
        )
    return Conformance(
        checks=plugin.checks,
        left_out=left_out,
        interrupted=code != pytest.ExitCode.OK and code != pytest.ExitCode.TESTS_FAILED,
        quick=quick,
        duration_s=time.monotonic() - start_s,
    )


def _subjects(
    modes: Sequence[str], adapters: Sequence[str], left_out: dict[str, str]
) -> list[Subject]:
    # Only now, so that pytest can rewrite the clauses' asserts to say the values.
    pytest.register_assert_rewrite(*_CLAUSES)
    from . import conformance_subjects as known

    modes = modes or MODES
    if adapters and list(adapters) != [_NONE]:
        return [each for name in adapters for each in known.adapter(name, modes)]
    found = known.parts(modes)
    for name in () if adapters else known.ADAPTERS:
        try:
            found += known.adapter(name, modes)
        except ImportError as error:
            left_out[name] = str(error)
    return found


def _run(plugin: ContractPlugin, chosen: list[str]) -> int:
    with _own_world() as folder:
        settings = folder / "pytest.ini"
        settings.write_text("[pytest]\npython_classes = *\n", encoding="utf-8")
        options = ["--noconftest", "--disable-plugin-autoload", "--capture=fd"]
        options += [f"--rootdir={folder}", f"--basetemp={folder / 'tmp'}"]
        for name in ("cacheprovider", "terminal", "warnings"):
            options += ["-p", f"no:{name}"]
        return int(pytest.main(["-c", str(settings), *options, *chosen], [plugin]))


@contextmanager
def _own_world() -> Generator[Path]:
    """Keep pytest to a folder that goes, and to what is asked for here."""
    kept = {name: os.environ.pop(name) for name in _FOREIGN if name in os.environ}
    wrote, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        with tempfile.TemporaryDirectory(prefix="kern-tools-") as folder:
            yield Path(folder)
    finally:
        sys.dont_write_bytecode = wrote
        os.environ.update(kept)
