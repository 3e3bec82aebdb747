"""Our tools called the way each framework does, for contracts and cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kern_tools.adapters.langchain.caller import LangChainCaller
from kern_tools.adapters.llama_index.caller import LlamaIndexCaller
from kern_tools.adapters.openai.caller import ChatCaller as OpenAIChatCaller
from kern_tools.adapters.openai.caller import ResponsesCaller as OpenAICaller
from kern_tools.reply import Reply
from kern_tools.testing import Outcome
from kern_tools.tools import Tool

__all__ = [
    "CoreCaller",
    "LangChainCaller",
    "LlamaIndexCaller",
    "OpenAICaller",
    "OpenAIChatCaller",
]


@dataclass
class CoreCaller:
    """The core's own tools, with no framework around them."""

    tools: dict[str, Tool]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call a tool."""
        return self._read(self.tools[tool].call(dict(arguments), call_id="c1"))

    async def acall(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call it natively async."""
        return self._read(await self.tools[tool].acall(dict(arguments), call_id="c1"))

    def _read(self, reply: Reply) -> Outcome:
        return Outcome(
            text=reply.text,
            images=reply.images,
            fault_type=reply.fault_type,
            is_error=reply.is_error,
            artifact=reply.artifact,
        )
