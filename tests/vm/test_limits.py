"""The contract of limits, on a host that can show all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kern_tools.conformance_record import MODES
from kern_tools.testing import LimitsContract

from .machine import answers_of

pytestmark = [pytest.mark.vm, pytest.mark.verify, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """Boot the machine once and give what came of each clause."""
    return answers_of(Path(__file__).parent / "guest/limits.py")


def test_every_clause_is_tried_in_every_mode(rows: list[dict[str, Any]]) -> None:
    """None is passed over where caps bind."""
    clauses = {n for n in dir(LimitsContract) if n.startswith("test_")}
    assert {f"test_{row['clause']}" for row in rows} == clauses
    assert all(tuple(row["modes"]) == MODES for row in rows)


def test_every_clause_holds(rows: list[dict[str, Any]]) -> None:
    """Each case says why it does not, if it does not."""
    checks = [
        (row["clause"], mode, check["case"], check["state"], check["reason"])
        for row in rows
        for mode, cases in row["modes"].items()
        for check in cases
    ]
    assert [check for check in checks if check[3] != "holds"] == []
