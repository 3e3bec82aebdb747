"""What is promised, where, and which clauses and tests hold it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_TEST = "::"


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise, of ours or of what we build on.

    Attributes:
        source: Where it is made: a section of our README or SECURITY.md, or a document
            of others.
        says: What is promised.
        clauses: The clauses that hold it, without `test_`.
        tests: Tests of the checkout that hold it, or its rest, as `file::test`.
    """

    source: str
    says: str
    clauses: tuple[str, ...]
    tests: tuple[str, ...]


@cache
def promises() -> Sequence[Promise]:
    """Give every promise, in the order of the manifest, `promises.toml`."""
    text = files("kern_tools").joinpath("promises.toml").read_text(encoding="utf-8")
    return [
        Promise(
            source,
            says,
            tuple(name for name in held_by if _TEST not in name),
            tuple(name for name in held_by if _TEST in name),
        )
        for source, made in tomllib.loads(text).items()
        for says, held_by in made.items()
    ]


@cache
def _by_clause() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for promise in promises():
        for clause in promise.clauses:
            found.setdefault(clause, {})[promise.source] = None
    return {clause: tuple(sources) for clause, sources in found.items()}


def sources_of(clause: str) -> tuple[str, ...]:
    """Say where what a clause holds is promised.

    Args:
        clause: Its name, without `test_`.

    Returns:
        The sources; none for a clause that is no contract's of ours.
    """
    return _by_clause().get(clause, ())
