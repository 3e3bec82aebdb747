"""LangChain and LangGraph: the tools of a sandbox as LangChain tools."""

from kern_tools.adapters.langchain.tools import (
    KernTool,
    KernToolkit,
    as_tools,
    result_of,
)

__all__ = ["KernTool", "KernToolkit", "as_tools", "result_of"]
