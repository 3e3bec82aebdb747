"""How the bug bank's tests read what came of a call."""

from __future__ import annotations

import unicodedata

from kern_tools import ExecutionResult
from kern_tools.reply import result_of_artifact
from kern_tools.testing import Outcome


def ran(outcome: Outcome) -> ExecutionResult:
    """Give the run behind a call that has one, as code of the framework finds it."""
    result = result_of_artifact(outcome.artifact)
    assert result is not None
    return result


def verdict(outcome: Outcome) -> str:
    """Give the first line of what the model reads."""
    return outcome.text.partition("\n")[0]


def controls(text: str) -> set[str]:
    """Give what would steer a terminal or hide text, line breaks and tabs apart."""
    steering = {char for char in text if unicodedata.category(char) in ("Cc", "Cf")}
    return steering - {"\n", "\t"}
