"""OpenAI Agents SDK: the tools of a sandbox as function tools, and as its shell."""

from kern_tools.adapters.openai_agents.shell import as_shell_tool
from kern_tools.adapters.openai_agents.tools import (
    PROVIDER_KEY,
    KernParts,
    KernText,
    as_tools,
    end_on_stop,
    result_of,
    stop_of,
)

__all__ = [
    "PROVIDER_KEY",
    "KernParts",
    "KernText",
    "as_shell_tool",
    "as_tools",
    "end_on_stop",
    "result_of",
    "stop_of",
]
