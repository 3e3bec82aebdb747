"""The words a model reads, one file for each case of the adapters' contract.

After a change of words, write them again and read the difference:

    python -m tests.adapters.words
"""

from __future__ import annotations

from pathlib import Path

from kern_tools.testing import ADAPTER_CASES, AdapterCase, core_reply, steady

GOLDEN = Path(__file__).parent / "golden"


def golden_path(case: AdapterCase) -> Path:
    """Say where the words of a case are written down."""
    return GOLDEN / f"{case.name.replace(' ', '_')}.md"


def golden_text(case: AdapterCase) -> str:
    """Give the words of a case as they are today."""
    return f"{steady(core_reply(case.name).text)}\n"


if __name__ == "__main__":
    for case in ADAPTER_CASES:
        golden_path(case).write_text(golden_text(case), encoding="utf-8")
