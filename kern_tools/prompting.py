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
from .hints import Hint
from .quantities import count, seconds, size

if TYPE_CHECKING:
    from jinja2 import Environment

DESCRIPTION_MAX_CHARS = 1024
"""Source: `ToolMetadata.to_openai_tool` of llama-index-core 0.14 raises above it."""

_ROOM = "kern_tools.prompts"


def _line(text: str) -> str:
    r"""Make a name safe inside a line, and inside a template of a framework.

    Most of them read braces as a place to fill, also where a prompt is pasted into a
    larger one: those are spelled as in a string of Python, `\x7b`.
    """
    return escape_line(text).replace("{", r"\x7b").replace("}", r"\x7d")


_FILTERS: dict[str, Any] = {
    "line": _line,
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


def repair(hint: Hint, facts: SandboxFacts) -> str:
    """Say in one line what to do about a failure of the code itself.

    Args:
        hint: What was recognised, see `hint_for`.
        facts: What is true of the sandbox.
    """
    return _render(f"hints/{hint.name}.md.j2", facts, **hint.details)


def ran(fault: SandboxFault) -> bool:
    """Tell whether any of the code can have run before the fault."""
    return fault.type not in _NOTHING_RAN


def _render(template: str, facts: SandboxFacts, **more: Any) -> str:
    known = {field.name: getattr(facts, field.name) for field in fields(facts)}
    return environment().get_template(template).render(**known, **more).strip()


@cache
def environment() -> Environment:
    """Give what the templates are rendered in: filters, and no fact of its own."""
    from importlib.resources import files

    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def source(name: str) -> str:
        return files(_ROOM).joinpath(*name.split("/")).read_text(encoding="utf-8")

    made = Environment(
        loader=FunctionLoader(source),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(_FILTERS)
    return made
