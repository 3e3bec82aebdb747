"""The tools of a sandbox as function tools of the OpenAI Agents SDK."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from kern_tools.events import OnOutput
from kern_tools.extras import missing
from kern_tools.reply import Reply, member, result_of_artifact
from kern_tools.result import ExecutionResult
from kern_tools.sandbox import Sandbox
from kern_tools.source import Pool, Source
from kern_tools.tools import Tool, tools_of

try:
    import agents
    from agents.tool import FunctionToolCustomDataContext
    from agents.tool_context import ToolContext
except ImportError as error:
    missing("openai-agents", error)

__all__ = [
    "PROVIDER_KEY",
    "KernParts",
    "KernText",
    "RunContext",
    "as_tools",
    "result_of",
    "source_of",
]

PROVIDER_KEY = "kern_tools"
"""Where `provider_data` of a shell call's output has the artifact."""

RunContext = agents.RunContextWrapper[Any]


def as_tools(
    sandbox: Sandbox | Pool,
    tools: str | Sequence[str] = ("code", "files"),
    *,
    strict: bool = True,
    images: Literal["parts", "none"] = "parts",
    conversation: Callable[[RunContext], Any] | None = None,
    tenant: Callable[[RunContext], Any] | None = None,
    on_output: OnOutput | None = None,
) -> list[agents.Tool]:
    """Offer tools of `sandbox` to an agent.

    Args:
        sandbox: Where the calls run; open for as long as the agent runs. Of a pool,
            each `conversation` has a sandbox of its own.
        tools: Names of sets or of single tools.
        strict: Schemas for strict mode: all properties required, absent is null.
        images: `parts` sends images as `ToolOutputImage`, which the SDK's models for
            Chat Completions drop; `none` leaves them out.
        conversation: With a pool, given the run's context, tells the id of its
            conversation: the SDK does not tell a tool of one.
        tenant: With a pool, given the same, tells whose it is; may be async.
        on_output: Given an `OutputEvent` for each piece that code writes, while it
            runs, on a thread of ours; its `call_id` is that of the tool call.

    Returns:
        A `FunctionTool` for each name. The result is in `custom_data` of the items of
        a run, which is never sent to the model.
    """
    source = source_of(sandbox, tenant)
    return [
        _function_tool(
            tool,
            strict=strict,
            images=images == "parts",
            conversation=conversation,
            on_output=on_output,
        )
        for tool in tools_of(source, tools)
    ]


def source_of(
    sandbox: Sandbox | Pool, tenant: Callable[[RunContext], Any] | None
) -> Source:
    """Say where calls run, and how the developer names a conversation."""
    return Source(sandbox, tenant=tenant, key="conversation=lambda run: ...")


def result_of(item: object) -> ExecutionResult | None:
    """Read the run behind an item.

    Args:
        item: A `ToolCallOutputItem`, its `custom_data`, or any other object.

    Returns:
        The result, also after a `RunState` was stored; of a shell call that of the
        command that decided. None where there was no run.
    """
    provided = member(member(item, "raw_item"), "provider_data")
    artifact = member(item, "custom_data") or member(provided, PROVIDER_KEY)
    return result_of_artifact(artifact or item)


class KernText(str):
    """What the model reads of a call that brought no image."""

    __slots__ = ("artifact",)

    artifact: dict[str, Any]
    """The result as plain JSON."""


class KernParts(list[Any]):
    """What the model is given of a call that brought images: its text, then those."""

    __slots__ = ("artifact",)

    artifact: dict[str, Any]
    """The result as plain JSON."""


def _function_tool(
    tool: Tool,
    *,
    strict: bool,
    images: bool,
    conversation: Callable[[RunContext], Any] | None,
    on_output: OnOutput | None,
) -> agents.FunctionTool:
    async def invoke(context: ToolContext[Any], written: str) -> Any:
        reply = await tool.acall(
            written,
            call_id=context.tool_call_id,
            conversation=None if conversation is None else conversation(context),
            offered=context,
            on_output=on_output,
        )
        return _output(reply, images=images)

    return agents.FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.schema(strict=strict),
        on_invoke_tool=invoke,
        strict_json_schema=strict,
        custom_data_extractor=_custom_data,
    )


def _output(reply: Reply, *, images: bool) -> KernText | KernParts:
    output: KernText | KernParts = KernText(reply.text)
    if images and reply.images:
        shown = [agents.ToolOutputImage(image_url=i.data_url) for i in reply.images]
        output = KernParts([agents.ToolOutputText(text=reply.text), *shown])
    output.artifact = reply.artifact
    return output


def _custom_data(context: FunctionToolCustomDataContext) -> dict[str, Any] | None:
    """Find the artifact, unless a guardrail put other words in place of ours."""
    artifact: dict[str, Any] | None = getattr(context.output, "artifact", None)
    return artifact
