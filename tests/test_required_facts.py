"""Whatever comes of a call, the text says all that a model needs, and not much else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kern_tools import Sandbox
from kern_tools.config import Budget
from kern_tools.rendering import render
from kern_tools.reply import TextPart
from kern_tools.tools import tools_of

from .outcomes import OUTCOMES, Outcome

IN_BOXES = [outcome for outcome in OUTCOMES if outcome.result is None]
RENDERED = [outcome for outcome in OUTCOMES if outcome.result is not None]
BY_SHELL = [outcome for outcome in OUTCOMES if outcome.command is not None]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """Give a sandbox in which all is at its default."""
    with Sandbox() as opened:
        yield opened


def text_of(sandbox: Sandbox, outcome: Outcome, tool: str) -> str:
    """Have it come about by a tool, and give what a model reads."""
    field = {"run_code": "code", "run_command": "command"}[tool]
    source = outcome.code if tool == "run_code" else outcome.command
    arguments = outcome.arguments or {field: source, "timeout_s": outcome.timeout_s}
    if outcome.options is None:
        (found,) = tools_of(sandbox, tool)
        return found.call(arguments).text
    with Sandbox(**outcome.options) as own:
        (found,) = tools_of(own, tool)
        return found.call(arguments).text


@pytest.mark.parametrize("outcome", IN_BOXES, ids=lambda outcome: outcome.name)
def test_run_code_says_what_has_to_be_said(sandbox: Sandbox, outcome: Outcome) -> None:
    """Each fact is in the text."""
    text = text_of(sandbox, outcome, "run_code")
    assert outcome.missing(text) == [], text


@pytest.mark.parametrize("outcome", BY_SHELL, ids=lambda outcome: outcome.name)
def test_run_command_says_the_same(sandbox: Sandbox, outcome: Outcome) -> None:
    """A shell's outcome is told by the same rules."""
    text = text_of(sandbox, outcome, "run_command")
    assert outcome.missing(text) == [], text


@pytest.mark.parametrize("outcome", RENDERED, ids=lambda outcome: outcome.name)
def test_what_no_box_here_shows_is_said_too(sandbox: Sandbox, outcome: Outcome) -> None:
    """Rendered from the result that such a box would give."""
    assert outcome.result is not None
    (part,) = render(outcome.result, facts=sandbox.describe(), budget=Budget())
    assert isinstance(part, TextPart)
    assert outcome.missing(part.text) == [], part.text


def test_a_fact_that_is_not_said_is_missed() -> None:
    """Every pattern can fail: an empty text says nothing."""
    for outcome in OUTCOMES:
        assert outcome.missing("") == list(outcome.facts)
