"""A real small model behind llama.cpp's server, for as long as the tests run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .weights import SHELF, Unobtainable, server, weights

_HERE = Path(__file__).parent
_TOLD = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Have a place for what is told at the end."""
    config.stash[_TOLD] = []


@pytest.fixture(scope="session")
def told(pytestconfig: pytest.Config) -> list[str]:
    """Lines that are shown at the end of the run, failed or not."""
    return pytestconfig.stash[_TOLD]


@pytest.fixture(scope="session")
def model_url(told: list[str]) -> Iterator[str]:
    """What to pass as `base_url`; skips, loudly, where the model cannot be had."""
    try:
        command = (weights(), _HERE / "template.jinja")
        packages = server()
    except Unobtainable as error:
        told.append(f"NOTHING WAS TESTED WITH A REAL MODEL: {error}")
        pytest.skip(f"no model: {error}")
    with _served(packages, *command) as address:
        yield f"{address}/v1"


@contextmanager
def _served(packages: Path, *command: Path) -> Generator[str]:
    log = SHELF / "server.log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, str(_HERE / "serve.py"), *map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "PYTHONPATH": str(packages)},
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise RuntimeError(f"the model's server did not start: see {log}")
        yield address
        process.stdin.close()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Tell what the model did, or why it could not be asked."""
    if config.stash[_TOLD]:
        terminalreporter.section("the real model")
        for line in config.stash[_TOLD]:
            terminalreporter.write_line(line)
