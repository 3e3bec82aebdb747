"""Our tools called as LangChain's agents call them, for the contract of adapters."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from kern_tools.adapters.langchain.tools import as_tools
from kern_tools.contract_adapter import Outcome
from kern_tools.reply import ImagePart
from kern_tools.sandbox import Sandbox

__all__ = ["LangChainCaller", "caller"]


@dataclass
class LangChainCaller:
    """Tool calls in, `ToolMessage`s out."""

    tools: dict[str, BaseTool]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call a tool."""
        return self._read(self.tools[tool].invoke(self._call(tool, arguments)))

    async def acall(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call it natively async."""
        message = await self.tools[tool].ainvoke(self._call(tool, arguments))
        return self._read(message)

    def _call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        args = dict(arguments)
        return {"type": "tool_call", "id": "c1", "name": tool, "args": args}

    def _read(self, message: ToolMessage) -> Outcome:
        blocks: Any = [] if isinstance(message.content, str) else message.content
        fault = message.artifact["fault"]
        return Outcome(
            text=str(message.text),
            images=tuple(
                ImagePart(block["mime_type"], base64.b64decode(block["base64"]))
                for block in blocks
                if block["type"] == "image"
            ),
            fault_type=fault and fault["type"],
            is_error=message.status == "error",
            artifact=message.artifact,
        )


def caller(sandbox: Sandbox) -> LangChainCaller:
    """Call every tool of `sandbox`."""
    return LangChainCaller({t.name: t for t in as_tools(sandbox, "coding")})
