"""Tools as the JSON that each model API, and MCP, takes.

Source: https://platform.openai.com/docs/guides/function-calling,
https://docs.claude.com/en/docs/agents-and-tools/tool-use,
https://ai.google.dev/api/caching#FunctionDeclaration and
https://modelcontextprotocol.io/specification/2025-11-25/server/tools
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .tools import Tool
from .wire import chat_function, free_text_tool, response_function

Definition = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """One API's way to define a tool.

    Attributes:
        define: Writes a tool so; told whether for strict mode, where all properties are
            required and absent is null.
        strict: What is usual there.
    """

    define: Callable[[Tool, bool], Definition]
    strict: bool = False


def _custom(tool: Tool, strict: bool) -> Definition:
    if tool.name == "run_code":
        return free_text_tool(tool)
    return response_function(tool, strict=strict)


def _anthropic(tool: Tool, strict: bool) -> Definition:
    return _named(tool, "input_schema", strict) | ({"strict": True} if strict else {})


def _named(tool: Tool, schema: str, strict: bool) -> Definition:
    head = {"name": tool.name, "description": tool.description}
    return {**head, schema: tool.schema(strict=strict)}


FORMS: Mapping[str, Form] = {
    "openai-chat": Form(lambda t, strict: chat_function(t, strict=strict), strict=True),
    "openai-responses": Form(
        lambda t, strict: response_function(t, strict=strict), strict=True
    ),
    "openai-custom": Form(_custom, strict=True),
    "anthropic": Form(_anthropic),
    "gemini": Form(lambda t, strict: _named(t, "parametersJsonSchema", strict)),
    "mcp": Form(lambda t, strict: _named(t, "inputSchema", strict)),
    "json-schema": Form(lambda t, strict: _named(t, "schema", strict), strict=True),
}
"""Every form by its name on the command line."""
