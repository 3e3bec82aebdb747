"""One tool call, made each framework's own way, and what came of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .faults import FaultType
from .result import ExecutionResult
from .sandbox import Sandbox
from .scripted_wire import Answer, Said, response_body

Arguments = Mapping[str, Any]
TOOL = "run_code"
"""The tool that is called."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What one call came to, read from the framework's own object.

    Attributes:
        text: What the model reads.
        images: How many images go to the model with it.
        result: What code reads beside it.
        duration_ms: How long the framework's call of the tool took.
    """

    text: str
    images: int
    result: ExecutionResult
    duration_ms: float

    @property
    def verdict(self) -> str:
        """What code branches on: the fault's type, or the exit code."""
        fault: FaultType | str | None = self.result.fault_type
        return f"exit {self.result.exit_code}" if fault is None else str(fault)


Carrier = Callable[[str, Arguments], Carried]
"""Takes a call's id and the arguments that a model wrote for `run_code`."""


def langchain(sandbox: Sandbox) -> Carrier:
    """Call the way LangChain's agents do: a tool call in, a `ToolMessage` out.

    Raises:
        ImportError: The framework is missing; the text ends with the pip command.
    """
    from kern_tools.adapters.langchain import as_tools, result_of

    (tool,) = as_tools(sandbox, TOOL)

    def carry(call_id: str, arguments: Arguments) -> Carried:
        call: Any = {"type": "tool_call", "name": TOOL, "args": dict(arguments)}
        start_s = time.perf_counter()
        message = tool.invoke({**call, "id": call_id})
        ended_ms = _since_ms(start_s)
        blocks: Any = [] if isinstance(message.content, str) else message.content
        images = sum(block["type"] == "image" for block in blocks)
        return Carried(str(message.text), images, _ran(result_of(message)), ended_ms)

    return carry


def llama_index(sandbox: Sandbox) -> Carrier:
    """Call the way LlamaIndex' agents do: keywords in, a `ToolOutput` out.

    Raises:
        ImportError: The framework is missing; the text ends with the pip command.
    """
    from kern_tools.adapters.llama_index import as_tools, result_of

    (tool,) = as_tools(sandbox, TOOL)

    def carry(call_id: str, arguments: Arguments) -> Carried:
        start_s = time.perf_counter()
        output = tool.call(**arguments)
        ended_ms = _since_ms(start_s)
        images = sum(block.block_type == "image" for block in output.blocks)
        return Carried(output.content, images, _ran(result_of(output)), ended_ms)

    return carry


def openai(sandbox: Sandbox) -> Carrier:
    """Call the way plain OpenAI code does: a response of the client in, items out.

    The response is of the client's own type; no model is asked.

    Raises:
        ImportError: The client is missing; the text ends with the pip command.
    """
    from kern_tools.adapters.openai import as_tools

    from .extras import missing

    try:
        from openai.types.responses import Response
    except ImportError as error:
        missing("openai", error)
    tools = as_tools(sandbox, TOOL)

    def carry(call_id: str, arguments: Arguments) -> Carried:
        call = Said(json.dumps(arguments), TOOL, call_id)
        body = response_body(Answer(1, "scripted", [call]))
        response = Response.model_validate(body)
        start_s = time.perf_counter()
        answers = tools.answer(response)
        ended_ms = _since_ms(start_s)
        output = answers.items[0]["output"]
        parts = [{"text": output}] if isinstance(output, str) else output
        images = sum("image_url" in part for part in parts)
        (reply,) = answers
        return Carried(parts[0]["text"], images, _ran(reply.result), ended_ms)

    return carry


FRAMEWORKS: Mapping[str, Callable[[Sandbox], Carrier]] = {
    "LangChain": langchain,
    "LlamaIndex": llama_index,
    "OpenAI": openai,
}
"""Every framework that has an adapter, and how its calls are made."""


def _since_ms(start_s: float) -> float:
    return (time.perf_counter() - start_s) * 1000


def _ran(result: ExecutionResult | None) -> ExecutionResult:
    assert result is not None, "the call was not run"
    return result
