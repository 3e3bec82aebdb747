"""Our tools called as OpenAI's models call them, for the contract of adapters."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kern_tools.adapters.openai.tools import Answers, OpenAITools, as_tools
from kern_tools.contract_adapter import Outcome
from kern_tools.reply import ImagePart, Reply
from kern_tools.sandbox import Sandbox

__all__ = ["ChatCaller", "ResponsesCaller", "chat_caller", "responses_caller"]


@dataclass
class ResponsesCaller:
    """Function calls of Responses, and the items that answer them."""

    tools: OpenAITools

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

    def _read(self, answers: Answers) -> Outcome:
        (reply,), (item,) = answers, answers.items
        return _outcome(reply, item["output"])


class ChatCaller(ResponsesCaller):
    """Tool calls of Chat Completions, with the images in a message of their own."""

    def _call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        function = {"name": tool, "arguments": json.dumps(arguments)}
        return {"id": "c1", "type": "function", "function": function}

    def _read(self, answers: Answers) -> Outcome:
        (reply,), (message, *shown) = answers, answers.items
        parts: list[Any] = [part for each in shown for part in each["content"][1:]]
        images = [{"image_url": part["image_url"]["url"]} for part in parts]
        return _outcome(reply, [{"text": message["content"]}, *images])


def responses_caller(sandbox: Sandbox) -> ResponsesCaller:
    """Call every tool of `sandbox`."""
    return ResponsesCaller(as_tools(sandbox, "coding"))


def chat_caller(sandbox: Sandbox) -> ChatCaller:
    """Call every tool of `sandbox`."""
    return ChatCaller(as_tools(sandbox, "coding"))


def _outcome(reply: Reply, output: Any) -> Outcome:
    text, *images = [{"text": output}] if isinstance(output, str) else output
    return Outcome(
        text=text["text"],
        images=tuple(_image(each["image_url"]) for each in images),
        fault_type=reply.fault_type,
        is_error=reply.is_error,
        artifact=reply.artifact,
    )


def _image(url: str) -> ImagePart:
    head, data = url.split(";base64,")
    return ImagePart(head.removeprefix("data:"), base64.b64decode(data))
