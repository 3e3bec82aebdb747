"""From open sandboxes to what is probed in each of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace

from kern_tools.prompting import system_prompt, tool_description

from .claim import Claim, Live, Said
from .registered import read

Found = dict[str, list[tuple[Claim, Said]]]
"""By the sandbox's name, the claims that are probed there."""


def texts_of(live: Live) -> Iterator[str]:
    """Give all that a model is told of a sandbox."""
    yield system_prompt(live.facts)
    for name in live.facts.tools:
        yield tool_description(name, live.facts)
    yield system_prompt(live.facts.offering("files"))
    yield system_prompt(replace(live.facts, limits_enforced=None))


def to_probe(lives: Mapping[str, Live]) -> Found:
    """Give what each sandbox is to show: all words that it can, once in each mode."""
    seen: set[tuple[str, str]] = set()
    found: Found = {}
    for name, live in lives.items():
        found[name] = []
        for claim, said in itertools.chain(*map(read, texts_of(live))):
            words = (live.facts.mode, said[0])
            if words not in seen and claim.where(live.facts) and claim.probe:
                found[name].append((claim, said))
                seen.add(words)
    return found


def probe(live: Live, claim: Claim, said: Said) -> None:
    """Show that it is so; a failure names the words that are wrong."""
    assert claim.probe is not None
    try:
        claim.probe(live, said)
    except BaseException as error:
        error.add_note(f"the claim: {said[0]}")
        raise
