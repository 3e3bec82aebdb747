"""A model of the OpenAI Agents SDK that says what a script has, without a server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from agents import Model, ModelResponse, Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)


class ScriptedModel(Model):
    """Says what it was given, a turn for each request; without a server."""

    def __init__(self, *turns: Sequence[Any]) -> None:
        self._turns = iter(turns)

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        """Take the next turn."""
        output = list(next(self._turns))
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """Refuse: what is streamed comes from the scripted server."""
        raise NotImplementedError


def asked(
    arguments: Mapping[str, Any] | str, name: str = "run_code", call_id: str = "c1"
) -> ResponseFunctionToolCall:
    """Write a tool call."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ResponseFunctionToolCall(
        type="function_call", call_id=call_id, name=name, arguments=text
    )


def said(text: str = "done") -> ResponseOutputMessage:
    """Write a message."""
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id="m1", type="message", role="assistant", status="completed", content=[part]
    )
