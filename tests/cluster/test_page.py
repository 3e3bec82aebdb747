"""The page's code runs as it is printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

import kern_tools.cluster

from .nodes import Nodes

PAGE = Path(kern_tools.cluster.__file__).with_name("README.md")


def test_the_page_is_true(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every Python block, on a cluster that `RAY_ADDRESS` names."""
    monkeypatch.setenv("RAY_ADDRESS", nodes.address)
    examples = list(Sybil([PythonCodeBlockParser()]).parse(PAGE))
    for example in examples:
        example.evaluate()
    assert len(examples) == 1
    assert "42" in capsys.readouterr().out
