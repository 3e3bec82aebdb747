"""What a sandbox does, as events of LlamaIndex: streamed by tools, taken by steps."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Literal, Self

from kern_tools.events import OnOutput, OutputEvent
from kern_tools.extras import missing
from kern_tools.reply import Reply, member, result_of_artifact
from kern_tools.result import ExecutionResult
from kern_tools.stop import Stop, StopReason

try:
    from llama_index.core.workflow import Context, Event
except ImportError as error:
    missing("llama-index", error)

__all__ = [
    "KernFault",
    "KernOutput",
    "KernStop",
    "fault_event",
    "listener",
    "result_of",
    "stop_event",
    "tell",
]


def result_of(output: object) -> ExecutionResult | None:
    """Read the run behind a tool's output.

    Args:
        output: A `ToolOutput`, a `ToolCallResult`, either one as a dict, the raw
            output itself, or any other object.

    Returns:
        The result, also after a serializer; None where there was no run.
    """
    for name in ("tool_output", "raw_output"):
        output = member(output, name, output)
    return result_of_artifact(output)


class KernOutput(Event):
    """A piece of output in an agent's event stream; fields as in `OutputEvent`.

    `call_id` is the one in the result: LlamaIndex does not tell a tool its own.
    """

    call_id: str
    stream: Literal["stdout", "stderr"]
    text: str
    dropped_bytes: int = 0


class KernFault(Event):
    """The sandbox ended a call, or could not start it; fields as in `SandboxFault`.

    Tools stream one for each fault, and a step can return one to another step:

        class Analysis(Workflow):
            @step
            async def go(self, ctx: Context, ev: StartEvent) -> KernFault | StopEvent:
                output = await run_code.acall(code=ev.code, ctx=ctx)
                return KernFault.of(output) or StopEvent(result=output.content)

            @step
            async def explain(self, ev: KernFault) -> StopEvent:
                return StopEvent(result=f"{ev.type}: {ev.message}")
    """

    tool: str
    """The tool that was called."""
    type: str
    """One of `FaultType`, or what a newer kern adds."""
    message: str
    reason: str | None = None
    retryable: bool = False
    actor: Literal["model", "operator"] = "model"
    attempts: int = 1
    """How often the call was made, see `FaultPolicy`."""
    repeats: int = 0
    """How often in a row the same call had failed before."""
    call_id: str | None = None
    """The one in the result: LlamaIndex does not tell a tool its own."""
    text: str = ""
    """What the model reads of it."""

    @classmethod
    def of(cls, output: object) -> Self | None:
        """Read the fault off a tool's output.

        Args:
            output: A `ToolOutput` or a `ToolCallResult`.

        Returns:
            The event; None where the sandbox did not act.
        """
        output = member(output, "tool_output", output)
        name, text = member(output, "tool_name", ""), member(output, "content", "")
        return cls._made(str(name), str(text), result_of(output))

    @classmethod
    def _made(cls, tool: str, text: str, result: ExecutionResult | None) -> Self | None:
        if result is None or result.fault is None:
            return None
        return cls(
            tool=tool,
            text=text,
            call_id=result.call_id,
            attempts=result.attempts,
            repeats=result.repeats,
            **result.fault.model_dump(mode="json"),
        )


class KernStop(Event):
    """A policy ended the loop; fields as in `Stop`. No call runs after it."""

    reason: StopReason
    message: str
    tool: str
    count: int


def fault_event(reply: Reply) -> KernFault | None:
    """Make the event of a reply, where the sandbox acted."""
    return KernFault._made(reply.name, reply.text, reply.result)  # pyright: ignore[reportPrivateUsage]


def stop_event(stop: Stop) -> KernStop:
    """Make the event of a loop's end."""
    return KernStop(**stop.model_dump(exclude={"fault"}))


def tell(context: Context[Any], event: Event) -> None:
    """Write to the event stream of the run whose step called a tool, if one did."""
    with suppress(Exception):  # the context is not a running step's: no stream
        context.write_event_to_stream(event)


def listener(context: Context[Any]) -> OnOutput:
    """Stream what code writes, while it runs; it may be called on any thread."""
    loop = asyncio.get_running_loop()

    def write(event: OutputEvent) -> None:
        tell(context, KernOutput(**asdict(event)))

    return lambda event: loop.call_soon_threadsafe(write, event)
