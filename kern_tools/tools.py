"""The tools offered, by name and in sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .argwords import quoted
from .code_tools import RUN_CODE, RunCode
from .escaping import escape_line
from .faults import ConfigError
from .file_tools import (
    LIST_FILES,
    READ_FILE,
    WRITE_FILE,
    ListFiles,
    ReadFile,
    WriteFile,
)
from .reply import Reply
from .sandbox import Sandbox
from .toolspec import Tool, ToolSpec, bad_arguments

__all__ = [
    "TOOLS",
    "TOOL_ALIASES",
    "TOOL_SETS",
    "ListFiles",
    "ReadFile",
    "RunCode",
    "Tool",
    "ToolSpec",
    "WriteFile",
    "tools_of",
    "unknown_tool_reply",
]

TOOLS: Mapping[str, ToolSpec] = {
    spec.name: spec for spec in (RUN_CODE, READ_FILE, WRITE_FILE, LIST_FILES)
}
"""Every tool, by its name."""

TOOL_SETS: Mapping[str, tuple[str, ...]] = {
    "code": ("run_code",),
    "files": ("read_file", "write_file", "list_files"),
}
"""Tools that belong together, by the name of the set."""

TOOL_ALIASES: Mapping[str, str] = dict.fromkeys(
    (
        *("python", "python_repl", "python_interpreter", "ipython", "interpreter"),
        *("run_python", "execute_python", "code_interpreter", "code_execution"),
        *("execute", "execute_code", "exec_code", "run", "code"),
    ),
    "run_code",
)
"""What models call a tool when they do not read its name, and the name."""


def tools_of(
    sandbox: Sandbox,
    tools: str | Sequence[str] = ("code", "files"),
    *,
    bare_code: bool = False,
) -> list[Tool]:
    """Bind tools to a sandbox.

    Args:
        sandbox: Where their calls run.
        tools: Names of sets or of single tools.
        bare_code: Text that is not JSON, sent to a tool that runs code, is the code.

    Returns:
        One tool for each name, in order, each once.

    Raises:
        ConfigError: A name is neither a set nor a tool.
    """
    names = [tools] if isinstance(tools, str) else tools
    wanted = dict.fromkeys(each for name in names for each in _named(name))
    return [Tool(TOOLS[name], sandbox, bare_code=bare_code) for name in wanted]


def unknown_tool_reply(
    name: object, known: Iterable[str], *, call_id: str | None = None
) -> Reply:
    """Answer a call of a tool that is not there.

    Args:
        name: What the model called.
        known: The names of the tools it has.
        call_id: The framework's id of the call.

    Returns:
        The reply, with `error="bad_arguments"`.
    """
    listed = ", ".join(f"`{each}`" for each in known) or "none"
    problem = f"There is no tool {quoted(name)}. Call one of these: {listed}."
    return bad_arguments(escape_line(str(name))[:64], problem, call_id)


def _named(name: str) -> tuple[str, ...]:
    if name in TOOL_SETS:
        return TOOL_SETS[name]
    if name in TOOLS:
        return (name,)
    raise ConfigError(
        f"tools: {name!r} is neither a set nor a tool; the sets are "
        f"{', '.join(TOOL_SETS)}, the tools {', '.join(TOOLS)}",
        option="tools",
    )
