"""Our tools called as LlamaIndex' agents call them, for the contract of adapters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.llms.types import ImageBlock
from llama_index.core.tools import FunctionTool, ToolOutput

from kern_tools.adapters.llama_index.tools import as_tools
from kern_tools.contract_adapter import Outcome
from kern_tools.reply import ImagePart
from kern_tools.sandbox import Sandbox

__all__ = ["LlamaIndexCaller", "caller"]


@dataclass
class LlamaIndexCaller:
    """Keyword arguments in, `ToolOutput`s out."""

    tools: dict[str, FunctionTool]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call a tool."""
        return self._read(self.tools[tool](**arguments))

    async def acall(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call it natively async."""
        return self._read(await self.tools[tool].acall(**arguments))

    def _read(self, output: ToolOutput) -> Outcome:
        fault = output.raw_output["fault"]
        return Outcome(
            text=output.content,
            images=tuple(
                ImagePart(str(block.image_mimetype), block.resolve_image().read())
                for block in output.blocks
                if isinstance(block, ImageBlock)
            ),
            fault_type=fault and fault["type"],
            is_error=output.is_error,
            artifact=output.raw_output,
        )


def caller(sandbox: Sandbox) -> LlamaIndexCaller:
    """Call every tool of `sandbox`."""
    tools = as_tools(sandbox, "coding")
    return LlamaIndexCaller({tool.metadata.get_name(): tool for tool in tools})
