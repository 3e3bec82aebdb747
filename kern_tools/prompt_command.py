"""`kern-tools prompt`: the words that a model is told, as they are for a sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from . import flags
from .facts import SandboxFacts
from .faults import FaultType, SandboxFault
from .hints import HINTS, Hint
from .opening import opened
from .prompting import advice, repair, system_prompt, tool_description
from .screen import print_json, show_heading
from .toolsets import TOOL_NAMES, tool_names

_REASONS = {
    FaultType.EXEC_FAILED: ("not_found", "not_executable"),
    FaultType.STARTUP_FAILED: ("slow_build", "host"),
}
_EXAMPLE = {"module": "NAME", "variable": "NAME", "program": "NAME"}


@flags.sandbox_options
def prompt(
    ctx: typer.Context,
    names: flags.Tools = "code,files",
    system: Annotated[
        bool, typer.Option("--system", help="The system prompt alone.")
    ] = False,
    description: Annotated[
        str | None,
        typer.Option(metavar="TOOL", help="The description of that tool alone."),
    ] = None,
    faults: Annotated[
        bool,
        typer.Option(
            "--faults",
            help="What a reply advises after each fault, and after errors of code.",
        ),
    ] = False,
    as_json: flags.AsJson = False,
) -> None:
    """Print what a model is told about a sandbox with these options."""
    tools = tool_names(flags.split(names))
    if description is not None:
        flags.choice("--description", description, TOOL_NAMES)
    with opened(flags.config_of(ctx.params), warm=False) as sandbox:
        facts = sandbox.describe().offering(tools)
    if as_json:
        print_json(_all(facts))
    elif system:
        print(system_prompt(facts))
    elif description is not None:
        print(tool_description(description, facts))
    else:
        _show(dict(_advice(facts)) if faults else _words(facts))


def _words(facts: SandboxFacts) -> dict[str, str]:
    return {"": system_prompt(facts), **_descriptions(facts)}


def _descriptions(facts: SandboxFacts) -> dict[str, str]:
    return {name: tool_description(name, facts) for name in facts.tools}


def _advice(facts: SandboxFacts) -> Iterator[tuple[str, str]]:
    for kind in FaultType:
        for reason in _REASONS.get(kind, (None,)):
            fault = SandboxFault(
                type=kind,
                reason=reason,
                message="",
                retryable=reason == "slow_build",
            )
            name = str(kind) if reason is None else f"{kind} ({reason})"
            yield name, advice(fault, facts)
    for name in HINTS:
        if name != "no_network" or facts.network != "on":
            yield name, repair(Hint(name, _EXAMPLE), facts)


def _all(facts: SandboxFacts) -> dict[str, Any]:
    return {
        "system": system_prompt(facts),
        "tools": _descriptions(facts),
        "advice": dict(_advice(facts)),
    }


def _show(words: dict[str, str]) -> None:
    for number, (name, text) in enumerate(words.items()):
        if number:
            print()
        if name:
            show_heading(f"{name}:")
        print(text)
