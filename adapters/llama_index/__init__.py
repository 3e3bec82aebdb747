"""LlamaIndex: the tools of a sandbox as function tools."""

from kern_tools.adapters.llama_index.agents import (
    KernFunctionAgent,
    StopsOnFault,
    stop_of,
)
from kern_tools.adapters.llama_index.code_act import code_execute_fn
from kern_tools.adapters.llama_index.events import events_of
from kern_tools.adapters.llama_index.signals import (
    KernFault,
    KernOutput,
    KernStop,
    result_of,
)
from kern_tools.adapters.llama_index.tools import (
    CONVERSATION,
    KernFunctionTool,
    KernToolSpec,
    as_tools,
)

__all__ = [
    "CONVERSATION",
    "KernFault",
    "KernFunctionAgent",
    "KernFunctionTool",
    "KernOutput",
    "KernStop",
    "KernToolSpec",
    "StopsOnFault",
    "as_tools",
    "code_execute_fn",
    "events_of",
    "result_of",
    "stop_of",
]
