"""Whatever the facts, each sentence is a claim, and each claim is true of the facts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import meta

from kern_tools.facts import SandboxFacts
from kern_tools.prompting import (
    DESCRIPTION_MAX_CHARS,
    environment,
    tool_description,
)
from tests.depth import examples

from .claim import Claim, Unclaimed, claims_in
from .registered import CLAIMS, lines_of
from .words import (
    DETAILS,
    FACTS,
    SOURCES,
    TEXTS,
    USUAL,
    VALUES,
    Block,
    Text,
    blocks,
    combinations,
    facts_used,
    literals,
    macros,
    macros_used,
    parsed,
    template_of,
)

PIECES = ("python", "runs", "named", "closed", "limits")
"""Macros that are a word, or that only join others."""
BLOCKS: dict[str, list[Block]] = {}
for _block in blocks():
    if _block.name not in PIECES:
        BLOCKS.setdefault(_block.name, []).append(_block)
COMPOSED = [t for t in TEXTS if t.name in ("system", "run_code", "run_command")]
SIMPLE = [text for text in TEXTS if text not in COMPOSED]
WITHOUT_CODE = {
    *("system", "keeps", "edits", "searches", "names"),
    *("verdicts", "length", "following"),
}
"""What the system prompt is made of where no tool runs anything."""
FACTS_OF_ANY = st.builds(
    SandboxFacts, **{name: st.sampled_from(VALUES[name]) for name in FACTS}
)


def said_in(text: str) -> frozenset[Claim]:
    """Give the claims of a text."""
    return frozenset[Claim]().union(*map(_said_in_line, lines_of(text)))


@cache
def _said_in_line(line: str) -> frozenset[Claim]:
    return frozenset(claim for claim, _ in claims_in(line, CLAIMS))


def due(facts: SandboxFacts, sources: set[str]) -> set[Claim]:
    """Give the claims that these sources have to make of the facts."""
    of_them = (claim for claim in CLAIMS if sources & set(claim.sources))
    return {claim for claim in of_them if claim.when(facts)}


def sources_of(text: Text, facts: SandboxFacts) -> set[str]:
    """Give the names of all that a text is put together from."""
    if text.name != "system":
        return {text.name, *macros_used(template_of(text))}
    if not {"run_code", "run_command"} & set(facts.tools):
        return WITHOUT_CODE
    return {"system", *macros_used("system.md.j2")} - {"keeps", "figures"}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_macro_makes_its_claims(name: str) -> None:
    """In every combination of its facts each claim is true, and none is left out."""
    jinja = environment()
    (first, *_) = BLOCKS[name]
    for facts in combinations(first.uses, first.tools):
        texts = (block.of(jinja, facts) for block in BLOCKS[name])
        said = frozenset[Claim]().union(*map(said_in, texts))
        assert said == due(facts, {name}), facts


@pytest.mark.parametrize("text", SIMPLE, ids=lambda text: text.name)
def test_a_text_makes_its_claims(text: Text) -> None:
    """In every combination of the facts that it depends on."""
    for facts in combinations(facts_used(template_of(text))):
        texts = list(text.of(facts))
        said = frozenset[Claim]().union(*map(said_in, texts))
        assert said == (due(facts, sources_of(text, facts)) if texts else set()), facts
        assert all(len(each) <= DESCRIPTION_MAX_CHARS for each in texts)


def check_composed(text: Text, facts: SandboxFacts) -> None:
    """A text makes the claims of all its parts, but for lists that do not fit."""
    (words,) = text.of(facts)
    said, wanted = said_in(words), due(facts, sources_of(text, facts))
    assert said <= wanted
    assert wanted - said <= due(facts, {"installed"})
    if text.name != "system":
        assert len(words) <= DESCRIPTION_MAX_CHARS
    lines = words.split("\n")
    assert lines == [line.strip() for line in lines]
    assert "\n\n\n" not in words
    assert [mark for mark in ("  ", " .", "None", "{", "}") if mark in words] == []


@pytest.mark.parametrize("text", COMPOSED, ids=lambda text: text.name)
@examples(50, 1000)
@given(facts=FACTS_OF_ANY)
def test_a_text_is_put_together_from_its_macros(
    text: Text, facts: SandboxFacts
) -> None:
    """Of any facts at all: all the parts, in good order, within the bound."""
    check_composed(text, facts)


# What texts depend on most, every value with every other.
MAIN = {
    "mode": VALUES["mode"],
    "network": VALUES["network"][:3],
    "limits_enforced": VALUES["limits_enforced"],
    "packages": ((), USUAL.packages),
    "tools": (
        *(("run_code",), ("run_command",), ("read_file", "write_file", "list_files")),
        *(USUAL.tools, VALUES["tools"][-1]),
    ),
}


def test_the_main_facts_go_together_in_every_combination() -> None:
    """Each sentence is claimed, and the descriptions keep within their bound."""
    for values in itertools.product(*MAIN.values()):
        facts = replace(USUAL, **dict(zip(MAIN, values, strict=True)))
        for text in COMPOSED:
            if text.name in ("system", *facts.tools):
                check_composed(text, facts)


LONGEST = replace(
    USUAL,
    packages=VALUES["packages"][-1],
    timeout_max_s=86_400.125,
    memory_mb=123_456_789,
    pids=4_194_304,
    cpus=4095.99,
)


@pytest.mark.parametrize("name", ["run_code", "run_command"])
def test_the_longest_description_keeps_within_the_bound(name: str) -> None:
    """Of the longest values, in every combination of what changes its sentences."""
    names = ("mode", "network", "languages", "looked_into", "limits_enforced")
    for values in itertools.product(*(VALUES[each] for each in names)):
        facts = replace(LONGEST, **dict(zip(names, values, strict=True)))
        assert len(tool_description(name, facts)) <= DESCRIPTION_MAX_CHARS, facts


# -- claims and templates, each held against the other


def test_no_claim_is_left_over() -> None:
    """Each stands in a source that there is, and says nothing that others say."""
    sources = {*BLOCKS, *(text.name for text in TEXTS)}
    assert {name for claim in CLAIMS for name in claim.sources} <= sources
    assert len({claim.words.pattern for claim in CLAIMS}) == len(CLAIMS)


def test_each_sentence_of_a_template_is_rendered() -> None:
    """No words wait behind a condition that these facts never meet."""
    rendered = "\n".join(dict.fromkeys(all_texts()))
    for template in SOURCES:
        for words in literals(template):
            assert words in rendered, (template, words)


def all_texts() -> Iterator[str]:
    """Render everything, in the combinations of each macro and each simple text."""
    jinja = environment()
    for block in itertools.chain(*BLOCKS.values()):
        for facts in combinations(block.uses, block.tools):
            yield block.of(jinja, facts)
    for text in SIMPLE:
        for facts in combinations(facts_used(template_of(text))):
            yield from text.of(facts)
    for facts in combinations(frozenset({"mode", "languages", "looked_into"})):
        for text in COMPOSED:
            yield from text.of(facts)
    yield from TEXTS[0].of(USUAL.offering("files"))


def test_words_that_no_claim_stands_for_are_found() -> None:
    """The test above can fail: a sentence more, a word less, another number."""
    for words in (
        "No network: nothing can be downloaded or installed. Ask twice.",
        "No network: nothing can be installed.",
        "At most plenty of memory.",
    ):
        with pytest.raises(Unclaimed):
            said_in(words)


def test_what_has_no_probe_says_nothing_of_the_sandbox() -> None:
    """Advice alone can do without: what to do, with nothing that could be wrong."""
    for claim in CLAIMS:
        if claim.probe is None:
            assert set(claim.words.groupindex) <= {"most"}
            kind = claim.sources[0].partition(": ")[0]
            assert kind in ("fault", "hint"), claim


@pytest.mark.parametrize("name", SOURCES)
def test_a_template_uses_known_facts_only(name: str) -> None:
    """What a text says can be traced to a field of the facts."""
    used = meta.find_undeclared_variables(parsed(name))
    given = {"fault", "limit_s", "brief", *DETAILS[0]}
    assert used <= set(FACTS) | given | set(macros())


def test_every_template_is_one_that_is_rendered() -> None:
    """Texts that nobody reads are not kept, and none is missing."""
    shared = {template for template in SOURCES if template.startswith("_")}
    assert set(SOURCES) - shared == set(map(template_of, TEXTS))
