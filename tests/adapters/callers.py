"""Our tools called the way each framework does, for contracts and cases."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from llama_index.core.base.llms.types import ImageBlock
from llama_index.core.tools import FunctionTool, ToolOutput

from kern_tools.adapters import openai
from kern_tools.reply import ImagePart, Reply
from kern_tools.testing import Outcome
from kern_tools.tools import Tool


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


@dataclass
class LangChainCaller:
    """Tool calls, as an agent makes them."""

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
        blocks = message.content if isinstance(message.content, list) else []
        fault = message.artifact["fault"]
        return Outcome(
            text=str(message.text),
            images=tuple(
                ImagePart(block["mime_type"], base64.b64decode(block["base64"]))
                for block in blocks
                if isinstance(block, dict) and block["type"] == "image"
            ),
            fault_type=fault and fault["type"],
            is_error=message.status == "error",
            artifact=message.artifact,
        )


@dataclass
class LlamaIndexCaller:
    """Keyword arguments, as an agent passes them."""

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


@dataclass
class OpenAICaller:
    """Function calls of Responses, as a response carries them."""

    tools: openai.OpenAITools

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call a tool."""
        return self._read(self.tools.answer([self._call(tool, arguments)]))

    async def acall(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call it natively async."""
        return self._read(await self.tools.aanswer([self._call(tool, arguments)]))

    def _call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        written = json.dumps(arguments)
        kind = {"type": "function_call", "call_id": "c1"}
        return {**kind, "name": tool, "arguments": written}

    def _read(self, answers: openai.Answers) -> Outcome:
        (reply,), (item,) = answers, answers.items
        return self._outcome(reply, item["output"])

    def _outcome(self, reply: Reply, output: Any) -> Outcome:
        text, *images = [{"text": output}] if isinstance(output, str) else output
        return Outcome(
            text=text["text"],
            images=tuple(_image(each["image_url"]) for each in images),
            fault_type=reply.fault_type,
            is_error=reply.is_error,
            artifact=reply.artifact,
        )


class OpenAIChatCaller(OpenAICaller):
    """Tool calls of Chat Completions, with the images in a message of their own."""

    def _call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        function = {"name": tool, "arguments": json.dumps(arguments)}
        return {"id": "c1", "type": "function", "function": function}

    def _read(self, answers: openai.Answers) -> Outcome:
        (reply,), (message, *shown) = answers, answers.items
        parts: list[Any] = [part for each in shown for part in each["content"][1:]]
        images = [{"image_url": part["image_url"]["url"]} for part in parts]
        return self._outcome(reply, [{"text": message["content"]}, *images])


def _image(url: str) -> ImagePart:
    head, data = url.split(";base64,")
    return ImagePart(head.removeprefix("data:"), base64.b64decode(data))
