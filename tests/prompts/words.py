"""All texts that are rendered from facts, and all values that their facts can take."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from jinja2 import Environment, Template, nodes

from kern_tools.facts import SandboxFacts
from kern_tools.faults import FaultType, SandboxFault
from kern_tools.hints import HINTS, Hint
from kern_tools.prompting import advice, repair, system_prompt, tool_description
from kern_tools.toolsets import TOOL_NAMES

ROOM = files("kern_tools.prompts")
FACTS = tuple(field.name for field in fields(SandboxFacts))
USUAL = SandboxFacts(
    image="host",
    host_python=True,
    python_version="3.12.4",
    packages=(("matplotlib", "3.10.1"), ("pandas", "2.2.3")),
    limits_enforced=True,
    tmpfs=(("/tmp", 64 << 20),),
)
MANY = tuple((f"package-{number}", "2025.10.1") for number in range(70))
DOMAINS = tuple(f"files-{number}.example.org" for number in range(40))
ALL_LANGUAGES = ("python", "bash", "sh", "node")

VALUES: Mapping[str, tuple[Any, ...]] = {
    "mode": ("fresh", "resident", "kernel"),
    "image": ("host",),
    "host_python": (True,),
    "looked_into": (True, False),
    "python_version": ("3.12.4", None),
    "packages": ((), (("pandas", "2.2.3"),), USUAL.packages, MANY),
    "languages": (
        *(ALL_LANGUAGES, ("python", "bash", "sh"), ("python",)),
        *(("bash", "sh"), ("sh",), ("node",), ()),
    ),
    "programs": ((), ("git",), tuple(f"tool-{n}" for n in range(40))),
    "node_packages": ((), ("lodash",), tuple(f"part-{n}" for n in range(40))),
    "unlisted": (False, True),
    "timeout_s": (30, 0.5),
    "timeout_max_s": (30, 86_400.125),
    "memory_mb": (512, 123_456_789, None),
    "cpus": (None, 0.5, 4095.99),
    "pids": (256, 4_194_304, None),
    "limits_enforced": (True, None, False),
    "network": ("off", "on", ("example.org",), DOMAINS),
    "workspace": ("/workspace",),
    "tmpfs": ((), USUAL.tmpfs, tuple((f"/s/{n}", 1 << 40) for n in range(50))),
    "mounts": (
        (),
        (("/data", False),),
        (("/out", True),),
        (("/data", False), ("/models", False), ("/out", True)),
    ),
    "deps": (None, "/opt/kern-deps"),
    "home": (False, True),
    "env": ((), ("TOKEN",), ("A", "B")),
    "workspace_max_bytes": (None, 123_456_789_012),
    "max_output_bytes": (1 << 20,),
    "text_chars": (8000, 256),
    "images": (4, 1, 0),
    "tools": tuple(
        chosen
        for count in range(1, len(TOOL_NAMES) + 1)
        for chosen in itertools.combinations(TOOL_NAMES, count)
    ),
}
"""Every fact, and values that between them take every way through the templates."""

DETAILS = (
    {"module": "lodash", "variable": "df", "program": "git"},
    {"module": "pandas.nothing", "variable": "df", "program": "git"},
)
"""What hints are given besides, as if it had been recognised."""


@dataclass(frozen=True, slots=True)
class Text:
    """One text as a model gets it.

    Attributes:
        name: `system`, a tool's name, `fault: TYPE` or `hint: NAME`.
        variants: What it takes besides the facts: one rendering for each.
    """

    name: str
    variants: tuple[Any, ...] = (None,)

    def of(self, facts: SandboxFacts) -> Iterator[str]:
        """Render it in each variant, where such a sandbox can come to say it."""
        kind, _, which = self.name.partition(": ")
        if which == "no_network" and facts.network == "on":
            return
        for variant in self.variants:
            if kind == "system":
                yield system_prompt(facts)
            elif kind == "hint":
                yield repair(Hint(which, variant), facts)
            elif kind == "fault":
                yield advice(variant, facts)
            else:
                yield tool_description(self.name, facts)


def _faults(kind: str) -> tuple[SandboxFault, ...]:
    made = {"type": kind, "message": "it ended"}
    options = itertools.product((None, "not_executable"), (True, False))
    return tuple(
        SandboxFault.model_validate(made | {"reason": reason, "retryable": retryable})
        for reason, retryable in options
    )


TEXTS = (
    Text("system"),
    *map(Text, TOOL_NAMES),
    *(Text(f"fault: {kind}", _faults(kind)) for kind in (*FaultType, "unknown")),
    *(
        Text(f"hint: {name}", DETAILS if name == "no_module" else DETAILS[:1])
        for name in HINTS
    ),
)


# -- the templates as they are written


def _sources(room: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    for entry in room.iterdir():
        if entry.is_dir():
            yield from _sources(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".j2"):
            yield prefix + entry.name, entry.read_text("utf-8")


SOURCES: Mapping[str, str] = dict(sorted(_sources(ROOM)))


@cache
def parsed(template: str) -> nodes.Template:
    """Give a template's syntax tree."""
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters |= dict.fromkeys(("line", "seconds", "size", "count"), str)
    return environment.parse(SOURCES[template])


def template_of(text: Text) -> str:
    """Give the name of the template behind a text."""
    kind, _, which = text.name.partition(": ")
    folder = {"fault": "faults", "hint": "hints"}.get(kind)
    if kind == "system":
        return "system.md.j2"
    return f"{folder}/{which}.md.j2" if folder else f"tools/{kind}.md.j2"


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a template that is rendered on its own: a macro, with its arguments."""

    template: str
    name: str
    arguments: tuple[Any, ...] = ()

    def of(self, environment: Environment, facts: SandboxFacts) -> str:
        """Render it."""
        call = f"{self.name}({', '.join(map(repr, self.arguments))})"
        source = (
            f'{{% from "{self.template}" import {self.name} with context %}}'
            f"{{{{ {call.replace('True', 'true').replace('False', 'false')} }}}}"
        )
        known = {name: getattr(facts, name) for name in FACTS}
        return _compiled(environment, source).render(**known).strip()

    @property
    def uses(self) -> frozenset[str]:
        """The facts that it depends on."""
        return _facts_of(self.name)

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that it asks for, each by its name."""
        return _tools_of(self.name)


_ARGUMENTS = {
    "installed": ((60,), (0,)),
    "reach": ((True,), (False,)),
    "named": (),
    "list": (),
}
_SHARED = ("_facts.md.j2", "_work.md.j2")


@cache
def _compiled(environment: Environment, source: str) -> Template:
    return environment.from_string(source)


@cache
def macros() -> dict[str, tuple[str, nodes.Macro]]:
    """Give each shared macro by its name, with its template."""
    return {
        macro.name: (template, macro)
        for template in _SHARED
        for macro in parsed(template).find_all(nodes.Macro)
    }


@cache
def _facts_of(macro: str) -> frozenset[str]:
    names = {name.name for name in macros()[macro][1].find_all(nodes.Name)}
    inner = names & macros().keys()
    return frozenset(names & set(FACTS)).union(*map(_facts_of, inner - {macro}))


@cache
def _tools_of(macro: str) -> tuple[str, ...]:
    constants = macros()[macro][1].find_all(nodes.Const)
    inner = {name.name for name in macros()[macro][1].find_all(nodes.Name)}
    found = {str(constant.value) for constant in constants}
    found |= {tool for name in inner & macros().keys() for tool in _tools_of(name)}
    return tuple(name for name in TOOL_NAMES if name in found)


def blocks() -> list[Block]:
    """Give every macro that stands for sentences of its own."""
    return [
        Block(template, name, arguments)
        for name, (template, _) in macros().items()
        for arguments in _ARGUMENTS.get(name, ((),))
    ]


def combinations(
    names: frozenset[str], tools: Sequence[str] = TOOL_NAMES
) -> Iterator[SandboxFacts]:
    """Give the facts in every combination of the values of some.

    Args:
        names: The facts that are to differ.
        tools: The tools that matter, of which every subset is offered.
    """
    chosen = [name for name in FACTS if name in names]
    values = dict(VALUES) | {"tools": subsets(tools)}
    for each in itertools.product(*(values[name] for name in chosen)):
        yield replace(USUAL, **dict(zip(chosen, each, strict=True)))


def subsets(tools: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Give every choice of some tools, the empty one too."""
    return tuple(
        chosen
        for count in range(len(tools) + 1)
        for chosen in itertools.combinations(tools, count)
    )


def macros_used(template: str) -> frozenset[str]:
    """Give the macros that a template calls, and those that these call."""
    imports = parsed(template).find_all(nodes.FromImport)
    called = {str(name) for each in imports for name in each.names}
    inner = {
        name.name
        for macro in called
        for name in macros()[macro][1].find_all(nodes.Name)
        if name.name in macros()
    }
    return frozenset(called | inner)


def facts_used(template: str) -> frozenset[str]:
    """Give the facts that a template depends on, and what it calls or includes."""
    tree = parsed(template)
    names = {name.name for name in tree.find_all(nodes.Name)} & set(FACTS)
    return frozenset(names).union(*map(_facts_of, macros_used(template)))


def literals(template: str) -> Iterator[str]:
    """Give each piece of text that stands in a template as it is read by a model."""
    tree = parsed(template)
    for data in tree.find_all(nodes.TemplateData):
        yield from (line.strip() for line in data.data.splitlines() if line.strip())
    for constant in tree.find_all(nodes.Const):
        if isinstance(constant.value, str) and re.search(
            r"[a-z]{2} [a-z]", constant.value
        ):
            yield constant.value.strip(" ;,.")
