"""LlamaIndex: the tools of a sandbox as function tools."""

from kern_tools.adapters.llama_index.tools import (
    CONVERSATION,
    KernFunctionTool,
    KernOutput,
    KernToolSpec,
    as_tools,
    result_of,
)

__all__ = [
    "CONVERSATION",
    "KernFunctionTool",
    "KernOutput",
    "KernToolSpec",
    "as_tools",
    "result_of",
]
