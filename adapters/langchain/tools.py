"""The tools of a sandbox as LangChain tools, for LangChain and LangGraph alike."""

# Annotations are no strings here: the framework reads those of `_run` at every call,
# and would compile them each time.

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import asdict
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, PrivateAttr, SkipValidation

from kern_tools.events import OnOutput
from kern_tools.extras import missing
from kern_tools.jsontext import is_object
from kern_tools.options import flag
from kern_tools.reply import Reply, member, result_of_artifact
from kern_tools.result import ExecutionResult
from kern_tools.sandbox import Sandbox
from kern_tools.source import Pool, Source
from kern_tools.tools import Tool, tools_of
from kern_tools.watch import FaultWatch

try:
    from langchain_core.messages import ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool, BaseToolkit
except ImportError as error:
    missing("langchain", error)

_KEY = "config={'configurable': {'thread_id': ...}}"

WATCH: ContextVar[FaultWatch | None] = ContextVar("kern_watch", default=None)
"""What makes the calls of our tools within a policy; set around one call."""

UNREADABLE = "unreadable"
"""The only key of arguments that came as text no JSON; see `CallRepair`."""

__all__ = ["UNREADABLE", "WATCH", "KernTool", "KernToolkit", "as_tools", "result_of"]


def as_tools(
    sandbox: Sandbox | Pool,
    tools: str | Sequence[str] = ("code", "files"),
    *,
    strict: bool = True,
    images: Literal["parts", "none"] = "parts",
    tenant: Callable[[RunnableConfig], Any] | None = None,
    idempotent: bool = False,
) -> list[BaseTool]:
    """Offer tools of `sandbox` to a LangChain agent.

    Args:
        sandbox: Where the calls run; open for as long as the agent runs. Of a pool,
            each `thread_id` of the config has a sandbox of its own.
        tools: Names of sets or of single tools.
        strict: Schemas for strict mode: all properties required, absent is null.
        images: `parts` sends images as content blocks, `none` leaves them out.
        tenant: With a pool, given the config, tells whose the conversation is.
        idempotent: A call that is made again under its id, as by a graph that resumes,
            is given its first reply and does not run again. Remembered are the last
            256 calls of each open sandbox, in this process.

    Returns:
        One tool per name, each with native sync and async.
    """
    flag("strict", strict)
    source = Source(sandbox, tenant=tenant, key=_KEY)
    return [
        KernTool(tool, strict=strict, images=images == "parts")
        for tool in tools_of(source, tools, idempotent=idempotent, images=images)
    ]


def result_of(message: object) -> ExecutionResult | None:
    """Read the run behind a message.

    Args:
        message: A `ToolMessage`, its artifact, or any other object.

    Returns:
        The result, also after a checkpoint; None where there was no run.
    """
    return result_of_artifact(member(message, "artifact", message))


class KernToolkit(BaseToolkit):
    """The same tools, for code that wants a toolkit; fields as in `as_tools`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    sandbox: SkipValidation[Sandbox | Pool]
    tools: str | Sequence[str] = ("code", "files")
    strict: bool = True
    images: Literal["parts", "none"] = "parts"
    tenant: Callable[[RunnableConfig], Any] | None = None
    idempotent: bool = False

    def get_tools(self) -> list[BaseTool]:
        """Return the tools."""
        return as_tools(
            self.sandbox,
            self.tools,
            strict=self.strict,
            images=self.images,
            tenant=self.tenant,
            idempotent=self.idempotent,
        )


class KernTool(BaseTool):
    """One tool of a sandbox; made by `as_tools`.

    Called with a tool call, it returns a `ToolMessage`: text, or blocks where there
    are images; `status="error"` on a fault and on arguments that cannot be used; the
    result as plain JSON in `artifact`. Called with a dict, it returns the content.

    In a LangGraph graph, output goes to its custom stream while the code runs: dicts
    with one key, `kern_tools`, that hold the fields of an `OutputEvent`. It is seen by
    `stream`, `astream` and `astream_events` with `stream_mode="custom"`.
    """

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    _tool: Tool = PrivateAttr()
    _images: bool = PrivateAttr()

    def __init__(self, tool: Tool, *, strict: bool, images: bool) -> None:
        super().__init__(
            name=tool.name,
            description=tool.description,
            args_schema=tool.schema(strict=strict),
        )
        self._tool = tool
        self._images = images

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the arguments model."""
        return self._tool.arguments

    def _to_args_and_kwargs(
        self, tool_input: object, tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # The framework would validate here and raise; whatever the model wrote
        # goes to the tool as it is, and the tool answers.
        return (_written(tool_input), tool_call_id), {}

    # The framework gives `config` to a parameter of exactly that type.
    def _run(
        self, arguments: object, call_id: str | None, config: RunnableConfig
    ) -> tuple[Any, Any]:
        watch = WATCH.get()
        call = partial(watch.call, self._tool) if watch else self._tool.call
        reply = call(
            arguments,
            call_id=call_id,
            conversation=_thread(config),
            offered=config,
            on_output=_graph_listener(),
        )
        return self._packed(reply, call_id)

    async def _arun(
        self, arguments: object, call_id: str | None, config: RunnableConfig
    ) -> tuple[Any, Any]:
        watch = WATCH.get()
        call = partial(watch.acall, self._tool) if watch else self._tool.acall
        reply = await call(
            arguments,
            call_id=call_id,
            conversation=_thread(config),
            offered=config,
            on_output=_graph_listener(),
        )
        return self._packed(reply, call_id)

    def _packed(self, reply: Reply, call_id: str | None) -> tuple[Any, Any]:
        images = reply.images if self._images else ()
        content: Any = reply.text
        artifact = reply.artifact
        if images:
            content = [{"type": "text", "text": reply.text}]
            content += [
                {"type": "image", "base64": image.base64, "mime_type": image.mime}
                for image in images
            ]
        if call_id is None:
            return content, artifact
        message = ToolMessage(
            content,
            artifact=artifact,
            status="error" if reply.is_error else "success",
            name=self.name,
            tool_call_id=call_id,
        )
        return message, artifact


def _written(arguments: object) -> object:
    """Give what the model wrote, also where it was no JSON."""
    if not is_object(arguments) or arguments.keys() != {UNREADABLE}:
        return arguments
    return arguments[UNREADABLE]


def _thread(config: RunnableConfig) -> object:
    """Give the id of the conversation, where the caller passed one."""
    return config.get("configurable", {}).get("thread_id")


def _graph_listener() -> OnOutput | None:
    """Write to the custom stream of the LangGraph graph that this runs in, if any."""
    graphs = sys.modules.get("langgraph.config")  # a graph that runs has loaded it
    if graphs is None:
        return None
    try:
        write = graphs.get_stream_writer()
    except (KeyError, RuntimeError):  # not in a graph
        return None
    return lambda event: write({"kern_tools": asdict(event)})
