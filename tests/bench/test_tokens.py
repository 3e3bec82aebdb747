"""Our replies cost no more than the shortest that says as much."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.outcomes import OUTCOMES

from .tokens import KEPT, OURS, Compared, Text, TokenRecord, compare, table
from .vocabulary import NAMES, tokens_in


def text(of: str, tokens: int, *missing: str, characters: int = 10) -> Text:
    """Make one up."""
    counts: dict[str, int] = dict.fromkeys(NAMES, tokens)
    return Text(
        of=of, characters=characters, tokens=counts, missing=[*missing], words=""
    )


@pytest.fixture(scope="module")
def kept() -> TokenRecord:
    """Read the record of the last whole run."""
    return TokenRecord.read(KEPT)


@pytest.fixture(scope="module")
def today() -> TokenRecord:
    """Have every outcome told by our tool as it is now."""
    return compare([OURS])


def test_the_vocabularies_are_the_real_ones() -> None:
    """Known texts have their known number of tokens."""
    assert tokens_in("hello world") == {"o200k_base": 2, "cl100k_base": 2}
    assert tokens_in("antidisestablishmentarianism")["cl100k_base"] == 6
    assert tokens_in("```\n<|endoftext|>")["o200k_base"] > 2


def test_counting_needs_no_network() -> None:
    """Every proxy leads nowhere, and no cache is left from before."""
    code = "from tests.bench.vocabulary import tokens_in; print(tokens_in('a b c'))"
    nowhere = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **nowhere, "TMPDIR": "/nonexistent"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "{'o200k_base': 3, 'cl100k_base': 3}\n", done.stderr


def test_the_record_has_every_outcome_and_every_peer(kept: TokenRecord) -> None:
    """What is kept is a whole run of what there is today."""
    assert kept.absent == {}
    assert [each.outcome for each in kept.compared] == [o.name for o in OUTCOMES]
    assert [each.facts for each in kept.compared] == [list(o.facts) for o in OUTCOMES]
    assert len({text.of for each in kept.compared for text in each.texts}) == 4


def test_no_reply_costs_more_than_the_shortest_that_says_as_much(
    kept: TokenRecord, today: TokenRecord
) -> None:
    """Of ours as they are now, against the others as they were measured."""
    for measured, now in zip(kept.compared, today.compared, strict=True):
        others = measured.texts[1:]
        held = replace(measured, texts=[now.ours, *others])
        assert held.is_met, (now.ours, held.bar)


@pytest.mark.parametrize(
    ("texts", "is_met"),
    [
        ([text(OURS, 9), text("a", 9), text("b", 20)], True),
        ([text(OURS, 9), text("a", 8)], False),
        ([text(OURS, 9), text("a", 8, "output")], True),
        ([text(OURS, 9, "output"), text("a", 20)], False),
        ([text(OURS, 9), text("a", 9, characters=9)], False),
        ([text(OURS, 9)], True),
    ],
)
def test_the_bar_is_the_shortest_text_that_says_it_all(
    texts: list[Text], is_met: bool
) -> None:
    """One that leaves a fact unsaid is no bar, and ours may leave none."""
    compared = Compared(outcome="made up", facts=["output"], texts=texts)
    assert compared.is_met is is_met
    record = TokenRecord(began="", absent={}, compared=[compared])
    assert ("**over**" in table(record)) is not is_met


def test_a_record_reads_back_as_it_was_written(
    today: TokenRecord, tmp_path: Path
) -> None:
    """All of it."""
    today.write(tmp_path / "kept.json")
    assert TokenRecord.read(tmp_path / "kept.json") == today
