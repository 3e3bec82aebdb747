"""The words a model reads, one file for each case of the adapters' contract.

After a change of words, write them again and read the difference:

    python -m tests.adapters.words
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kern_tools.testing import ADAPTER_CASES, AdapterCase, core_reply, steady
from tests.depth import in_part

GOLDEN = Path(__file__).parent / "golden"


def golden_path(case: AdapterCase) -> Path:
    """Say where the words of a case are written down."""
    return GOLDEN / f"{case.name.replace(' ', '_')}.md"


def golden_text(case: AdapterCase) -> str:
    """Give the words of a case as they are today."""
    return f"{steady(core_reply(case.name).text)}\n"


def by_turns(first: int) -> pytest.MarkDecorator:
    """Take each case of the contract one way, and the next case the other way.

    Args:
        first: 0 to begin the native async way, 1 to begin the other; who begins
            differently has what is left out here.
    """
    return in_part(
        lambda test: (
            (
                ADAPTER_CASES.index(test.callspec.params["case"])
                + ("async" in test.name)
                + first
            )
            % 2
            == 1
        )
    )


if __name__ == "__main__":
    for case in ADAPTER_CASES:
        golden_path(case).write_text(golden_text(case), encoding="utf-8")
