"""The words a model reads about a sandbox, rendered from its own facts.

The texts are templates in `kern_tools.prompts`. Jinja is imported when the first one is
rendered: a call that went well needs none of them.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any

from .escaping import escape_line
from .facts import SandboxFacts
from .faults import FaultType, SandboxFault
from .quantities import count, seconds, size

if TYPE_CHECKING:
    from jinja2 import Environment

DESCRIPTION_MAX_CHARS = 1024
"""Source: `ToolMetadata.to_openai_tool` of llama-index-core 0.14 raises above it."""

_ROOM = "kern_tools.prompts"
_FILTERS: dict[str, Any] = {
    "line": escape_line,
    "seconds": seconds,
    "size": size,
    "count": count,
}
_NOTHING_RAN = (FaultType.EXEC_FAILED, FaultType.STARTUP_FAILED)


def system_prompt(facts: SandboxFacts) -> str:
    """Say what the sandbox is, what holds in it, and how to read its replies.

    Returns:
        Plain Markdown that fits `SystemMessage`, `system_prompt=`, `instructions=`.
    """
    return _render("system.md.j2", facts)


def tool_description(name: str, facts: SandboxFacts) -> str:
    """Describe a tool in at most `DESCRIPTION_MAX_CHARS` characters.

    Lists with no bound of their own, such as packages and domains, are left to
    `system_prompt` where they do not fit.

    Args:
        name: The tool, which is the name of its template too.
        facts: What is true of the sandbox.
    """
    template = f"tools/{name}.md.j2"
    text = _render(template, facts, brief=False)
    if len(text) <= DESCRIPTION_MAX_CHARS:
        return text
    return _render(template, facts, brief=True)


def advice(
    fault: SandboxFault, facts: SandboxFacts, *, timeout_s: float | None = None
) -> str:
    """Say in one line what to do about a fault.

    Args:
        fault: What the sandbox did.
        facts: What is true of the sandbox.
        timeout_s: The limit of the call; None for the usual one.
    """
    known = fault.type in set(FaultType)
    name = str(fault.type) if known else "unknown"
    limit_s = facts.timeout_s if timeout_s is None else timeout_s
    return _render(f"faults/{name}.md.j2", facts, fault=fault, limit_s=limit_s)


def hint(name: str, facts: SandboxFacts) -> str:
    """Say in one line what to do about an error of the code, such as `no_stdin`."""
    return _render(f"hints/{name}.md.j2", facts)


def ran(fault: SandboxFault) -> bool:
    """Tell whether any of the code can have run before the fault."""
    return fault.type not in _NOTHING_RAN


def _render(template: str, facts: SandboxFacts, **more: Any) -> str:
    known = {field.name: getattr(facts, field.name) for field in fields(facts)}
    return _environment().get_template(template).render(**known, **more).strip()


@cache
def _environment() -> Environment:
    from importlib.resources import files

    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def source(name: str) -> str:
        return files(_ROOM).joinpath(*name.split("/")).read_text(encoding="utf-8")

    environment = Environment(
        loader=FunctionLoader(source),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(_FILTERS)
    return environment
