"""The tools offered, by name and in sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from .code_tools import RUN_CODE, RUN_COMMAND, RunCode, RunCommand
from .edit_tool import EDIT_FILE, EditFile
from .escaping import escape_line
from .file_tools import (
    LIST_FILES,
    READ_FILE,
    WRITE_FILE,
    ListFiles,
    ReadFile,
    WriteFile,
)
from .once import once
from .options import flag, one_of
from .properties import quoted
from .reply import Reply
from .reply_text import bad_arguments
from .sandbox import Sandbox
from .search_tools import FIND_FILES, SEARCH_FILES, FindFiles, SearchFiles
from .source import Pool, Source
from .toolsets import DEFAULT_SETS, TOOL_SETS, tool_names
from .toolspec import Tool, ToolSpec

__all__ = [
    "TOOLS",
    "TOOL_ALIASES",
    "TOOL_SETS",
    "EditFile",
    "FindFiles",
    "ListFiles",
    "ReadFile",
    "RunCode",
    "RunCommand",
    "SearchFiles",
    "Tool",
    "ToolSpec",
    "WriteFile",
    "tools_of",
    "unknown_tool_reply",
]

TOOLS: Mapping[str, ToolSpec] = {
    spec.name: spec
    for spec in (
        *(RUN_CODE, READ_FILE, WRITE_FILE, LIST_FILES),
        *(RUN_COMMAND, EDIT_FILE, SEARCH_FILES, FIND_FILES),
    )
}
"""Every tool, by its name."""

_MEANT = {
    "run_code": (
        *("python", "python_repl", "python_interpreter", "ipython", "interpreter"),
        *("run_python", "execute_python", "code_interpreter", "code_execution"),
        *("execute", "execute_code", "exec_code", "run", "code"),
    ),
    "run_command": (
        *("bash", "shell", "sh", "terminal", "cmd", "command", "exec"),
        *("run_bash", "run_shell", "run_terminal_cmd", "execute_command"),
        *("execute_bash", "shell_command", "run_shell_command", "run_in_terminal"),
    ),
    "edit_file": ("edit", "str_replace", "replace_in_file", "search_replace"),
    "search_files": ("grep", "grep_search", "search", "search_file_content", "rg"),
    "find_files": ("glob", "file_search", "find", "glob_file_search"),
}
TOOL_ALIASES: Mapping[str, str] = {
    alias: name for name, aliases in _MEANT.items() for alias in aliases
}
"""What models call a tool when they do not read its name, and the name."""


def tools_of(
    sandbox: Sandbox | Pool | Source,
    tools: str | Sequence[str] = DEFAULT_SETS,
    *,
    bare_code: bool = False,
    idempotent: bool = False,
    images: Literal["parts", "none"] = "parts",
) -> list[Tool]:
    """Bind tools to a sandbox, or to a pool of them.

    Args:
        sandbox: Where their calls run.
        tools: Names of sets or of single tools.
        bare_code: Text that is not JSON, sent to a tool that runs code, is the code.
        idempotent: A call that is made again under its id is given its first reply
            and does not run again, see `once`.
        images: With `none` nothing that a model reads promises it an image.

    Returns:
        One tool for each name, in order, each once.

    Raises:
        ConfigError: A name is neither a set nor a tool, or an option is what it cannot
            be.
    """
    names = tool_names(tools)
    flag("idempotent", idempotent)
    shown = one_of("parts", "none")("images", images) == "parts"
    specs = [once(TOOLS[name]) if idempotent else TOOLS[name] for name in names]
    return [
        Tool(spec, sandbox, bare_code=bare_code, among=names, images=shown)
        for spec in specs
    ]


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
