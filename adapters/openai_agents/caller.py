"""Our tools called in runs of the SDK's own runner, for the contract of adapters."""

# The SDK leaves parts of its types open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    ItemHelpers,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    Tool,
    ToolCallOutputItem,
    Usage,
)
from agents.tool import FunctionToolCustomDataContext
from agents.tool_context import ToolContext
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from kern_tools.adapters.openai_agents.tools import as_tools
from kern_tools.contract_adapter import Outcome
from kern_tools.reply import ImagePart
from kern_tools.sandbox import Sandbox

__all__ = ["AgentsCaller", "ScriptedModel", "asked", "caller", "said"]

_QUIET = RunConfig(tracing_disabled=True)


class ScriptedModel(Model):
    """Says what it was given, a turn for each request; without a server."""

    def __init__(self, *turns: Sequence[Any]) -> None:
        self._turns = iter(turns)

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        """Take the next turn."""
        output = list(next(self._turns))
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """Refuse: a script is said whole."""
        raise NotImplementedError("a scripted model does not stream")


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


@dataclass
class AgentsCaller:
    """Calls as an agent's model makes them, each in a run of its own."""

    tools: Sequence[Tool]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call a tool on a loop of its own, as `Runner.run_sync` does."""
        return asyncio.run(self.acall(tool, arguments))

    async def acall(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call it in the loop that runs."""
        call = asked(arguments, tool)
        if any("\ud800" in str(value) for value in arguments.values()):
            return self._read(await self._by_hand(call))
        model = ScriptedModel([call], [said()])
        agent = Agent(name="a", model=model, tools=list(self.tools))
        run = await Runner.run(agent, "go", run_config=_QUIET)
        (item,) = [i for i in run.new_items if i.type == "tool_call_output_item"]
        return self._read(item)

    async def _by_hand(self, call: ResponseFunctionToolCall) -> Any:
        """Do as the runner does where that falls over the arguments itself."""
        functions = [tool for tool in self.tools if isinstance(tool, FunctionTool)]
        (tool,) = (tool for tool in functions if tool.name == call.name)
        written = call.arguments
        context = ToolContext[Any](
            None, tool_name=call.name, tool_call_id="c1", tool_arguments=written
        )
        output = await tool.on_invoke_tool(context, written)
        sent: Any = ItemHelpers.tool_call_output_item(call, output)
        given = FunctionToolCustomDataContext(context, tool, output, sent)
        extract: Any = tool.custom_data_extractor
        return ToolCallOutputItem(
            agent=Agent(name="a"),
            raw_item=sent,
            output=output,
            custom_data=extract(given),
        )

    def _read(self, item: Any) -> Outcome:
        sent = item.raw_item["output"]
        text, *images = [{"text": sent}] if isinstance(sent, str) else sent
        # The SDK has no status: code looks at the fault and the error.
        data = item.custom_data
        fault = data["fault"]
        return Outcome(
            text=text["text"],
            images=tuple(_image(part["image_url"]) for part in images),
            fault_type=fault and fault["type"],
            is_error=fault is not None or data.get("error") == "bad_arguments",
            artifact=data,
        )


def caller(sandbox: Sandbox) -> AgentsCaller:
    """Call every tool of `sandbox`."""
    return AgentsCaller(as_tools(sandbox, "coding"))


def _image(url: str) -> ImagePart:
    head, data = url.split(";base64,")
    return ImagePart(head.removeprefix("data:"), base64.b64decode(data))
