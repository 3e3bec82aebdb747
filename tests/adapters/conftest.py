"""What the adapters' tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kern_tools import Sandbox, SandboxPool
from tests.standstill import Standstill

from .cells import Gate


def pytest_configure(config: pytest.Config) -> None:
    """Know the marks that langchain-tests puts on suites we do not run."""
    for name in ("benchmark", "vcr"):
        config.addinivalue_line("markers", f"{name}: a mark of langchain-tests")


@pytest.fixture(scope="package", autouse=True)
def no_authorities(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have clients of loopback servers read no certificates, 30 ms for each client."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSL_CERT_FILE", raising=False)
        patch.setenv("SSL_CERT_DIR", str(tmp_path_factory.mktemp("authorities")))
        yield


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A sandbox with the default tools' usual limit."""
    with Sandbox(timeout_s=20, prewarm=0) as sandbox:
        yield sandbox


@pytest.fixture
def patient() -> Iterator[Sandbox]:
    """A sandbox in which only a cancellation ends a call that waits."""
    with Sandbox(timeout_s=60, prewarm=0) as sandbox:
        yield sandbox


@pytest.fixture
def gate(patient: Sandbox) -> Iterator[Gate]:
    """What tells whether the cell `WAITS` runs in `patient`."""
    gate = Gate(patient)
    yield gate
    gate.close()


@pytest.fixture
def pool() -> Iterator[SandboxPool]:
    """A pool in which two conversations have room at once."""
    with SandboxPool(max_sandboxes=2, prewarm=0, timeout_s=20) as pool:
        yield pool


@pytest.fixture
def standstill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Standstill:
    """A way to hold up the boxes of one test."""
    return Standstill(monkeypatch, tmp_path)


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[Sandbox]:
    """A sandbox whose host has lost a folder that it mounts."""
    gone = tmp_path / "data"
    gone.mkdir()
    with Sandbox(mounts={str(gone): "/data"}, prewarm=0) as sandbox:
        gone.rmdir()
        yield sandbox
