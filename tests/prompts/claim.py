"""A claim: words that a model reads, when they stand there, what shows them true."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from kern_tools import ExecutionResult, Sandbox
from kern_tools.facts import SandboxFacts
from kern_tools.reply import Reply
from kern_tools.tools import Tool, tools_of

Said = re.Match[str]
When = Callable[[SandboxFacts], bool]
Probe = Callable[["Live", Said], None]
Shows = Literal["boxes", "images", "caps"]


@dataclass(frozen=True, eq=False)
class Live:
    """An open sandbox with the facts that its words were rendered from.

    Attributes:
        sandbox: The real thing.
        facts: As its own `describe` gives them, with the tools it offers.
        server: `127.0.0.1:PORT` of an HTTP server on the loopback of this machine.
    """

    sandbox: Sandbox
    facts: SandboxFacts
    server: str = ""

    @cached_property
    def _tools(self) -> dict[str, Tool]:
        return {tool.name: tool for tool in tools_of(self.sandbox, self.facts.tools)}

    def call(self, tool: str, **arguments: object) -> Reply:
        """Call a tool as a model does."""
        return self._tools[tool].call(arguments)

    def run(self, code: str, language: str | None = None) -> ExecutionResult:
        """Run code in one call."""
        return self.sandbox.run_code(code, language or self.language)

    def says(self, code: str, language: str | None = None) -> str:
        """Run code that has to end well, and give what it printed."""
        result = self.run(code, language)
        assert result.success, (code, result)
        return result.stdout.strip()

    @property
    def language(self) -> str:
        """The first language that code can be written in here."""
        return self.facts.languages[0]


def always(facts: SandboxFacts) -> bool:
    """Hold whatever the facts."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One or more sentences.

    Attributes:
        words: A pattern for all of them; its groups are what is said in particular.
        sources: The macros or texts that they stand in.
        when: Of which facts, in those sources.
        probe: Shows in a real sandbox that what is said there is so, or fails; None
            for advice that says nothing about the sandbox.
        where: In which sandboxes the probe can be afforded, or made at all.
        shown_by: What shows it: sandboxes on the host image, those on other images, or
            a machine whose caps bind.
    """

    words: re.Pattern[str]
    sources: Sequence[str]
    when: When = always
    probe: Probe | None = None
    where: When = field(default=always)
    shown_by: Shows = "boxes"

    def __str__(self) -> str:
        return self.words.pattern[:60]


def claim(
    words: str,
    *sources: str,
    when: When = always,
    probe: Probe | None = None,
    where: When = always,
    shown_by: Shows = "boxes",
) -> Claim:
    """Make one; a group of the pattern stands for what differs, all else as it is."""
    compiled = re.compile(words, re.DOTALL)
    return Claim(
        words=compiled,
        sources=sources,
        when=when,
        probe=probe,
        where=where,
        shown_by=shown_by,
    )


class Unclaimed(AssertionError):
    """Words that no claim stands for."""


def claims_in(text: str, claims: Iterable[Claim]) -> Iterator[tuple[Claim, Said]]:
    """Take a text apart into claims, none of its words left over.

    Raises:
        Unclaimed: Some are.
    """
    known, position = list(claims), 0
    while position < len(text):
        if text[position] in " \n":
            position += 1
            continue
        tried = ((each, each.words.match(text, position)) for each in known)
        found = [(each, said) for each, said in tried if said]
        if not found:
            raise Unclaimed(text[position : position + 200])
        best, said = max(found, key=lambda pair: pair[1].end())
        yield best, said
        position = said.end()
