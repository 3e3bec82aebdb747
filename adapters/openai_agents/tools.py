"""The tools of a sandbox as function tools of the OpenAI Agents SDK."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from kern_tools.adapters.openai_agents.watches import (
    PROVIDER_KEY,
    Watches,
    end_on_stop,
    stop_of,
    with_stop,
)
from kern_tools.events import OnOutput
from kern_tools.extras import missing
from kern_tools.options import flag
from kern_tools.policy import FaultPolicy
from kern_tools.reply import Reply, member, result_of_artifact
from kern_tools.result import ExecutionResult
from kern_tools.sandbox import Sandbox
from kern_tools.source import Pool, Source
from kern_tools.stop import Stop
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
    "end_on_stop",
    "result_of",
    "source_of",
    "stop_of",
]

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
    policy: FaultPolicy | None = None,
    idempotent: bool = False,
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
        policy: Bounds for the calls of each run; with `tool_use_behavior=end_on_stop`
            an agent ends where it says so. A run that goes on from a stored `RunState`
            begins to count anew.
        idempotent: A call that is made again under its id, as by a run that goes on
            from a stored state, is given its first reply and does not run again.
            Remembered are the last 256 calls of each open sandbox, in this process.

    Returns:
        A `FunctionTool` for each name. The result is in `custom_data` of the items of
        a run, which is never sent to the model.
    """
    flag("strict", strict)
    source = source_of(sandbox, tenant)
    watches = None if policy is None else Watches(policy)
    return [
        _function_tool(
            tool,
            strict=strict,
            images=images == "parts",
            conversation=conversation,
            on_output=on_output,
            watches=watches,
        )
        for tool in tools_of(source, tools, idempotent=idempotent, images=images)
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

    __slots__ = ("artifact", "stop")

    artifact: dict[str, Any]
    """The result as plain JSON."""
    stop: Stop | None
    """Why a policy ends the run, if it does."""


class KernParts(list[Any]):
    """What the model is given of a call that brought images: its text, then those."""

    __slots__ = ("artifact", "stop")

    artifact: dict[str, Any]
    """The result as plain JSON."""
    stop: Stop | None
    """Why a policy ends the run, if it does."""


def _function_tool(
    tool: Tool,
    *,
    strict: bool,
    images: bool,
    conversation: Callable[[RunContext], Any] | None,
    on_output: OnOutput | None,
    watches: Watches | None,
) -> agents.FunctionTool:
    async def invoke(context: ToolContext[Any], written: str) -> Any:
        watch = None if watches is None else watches.of(context)
        call = tool.acall if watch is None else partial(watch.acall, tool)
        reply = await call(
            written,
            call_id=context.tool_call_id,
            conversation=None if conversation is None else conversation(context),
            offered=context,
            on_output=on_output,
        )
        stop = None if watch is None else watch.stopped
        return _output(reply, images=images, stop=stop)

    return agents.FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.schema(strict=strict),
        on_invoke_tool=invoke,
        strict_json_schema=strict,
        custom_data_extractor=_custom_data,
    )


def _output(reply: Reply, *, images: bool, stop: Stop | None) -> KernText | KernParts:
    output: KernText | KernParts = KernText(reply.text)
    if images and reply.images:
        shown = [agents.ToolOutputImage(image_url=i.data_url) for i in reply.images]
        output = KernParts([agents.ToolOutputText(text=reply.text), *shown])
    output.artifact, output.stop = reply.artifact, stop
    return output


def _custom_data(context: FunctionToolCustomDataContext) -> dict[str, Any] | None:
    """Find the artifact, unless a guardrail put other words in place of ours."""
    if not isinstance(context.output, KernText | KernParts):
        return None
    output = context.output
    return with_stop(output.artifact, output.stop)
