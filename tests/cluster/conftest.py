"""A real Ray cluster on loopback: a head that runs no sandbox, and nodes that do."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress

import pytest

from .nodes import Nodes


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all of this folder, which takes minutes."""
    for item in items:
        if "/tests/cluster/" in item.path.as_posix():
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    """Two nodes that can hold sandboxes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Ray's own start
        found = Nodes()
        found.add()
        found.add()
    yield found
    with suppress(Exception):
        found.close()
