"""The tools of a sandbox as LlamaIndex function tools."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, cast
from uuid import uuid4

from kern_tools.events import OnOutput, OutputEvent
from kern_tools.extras import missing
from kern_tools.reply import Reply, member, result_of_artifact
from kern_tools.result import ExecutionResult
from kern_tools.sandbox import Sandbox
from kern_tools.source import Pool, Source
from kern_tools.tools import Tool, tools_of

try:
    from llama_index.core.async_utils import (
        asyncio_run,  # pyright: ignore[reportUnknownVariableType]
    )
    from llama_index.core.base.llms.types import ContentBlock, ImageBlock, TextBlock
    from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
    from llama_index.core.tools.tool_spec.base import BaseToolSpec
    from llama_index.core.workflow import Context, Event
except ImportError as error:
    missing("llama-index", error)

__all__ = [
    "CONVERSATION",
    "KernFunctionTool",
    "KernOutput",
    "KernToolSpec",
    "as_tools",
    "result_of",
]

CONVERSATION = "kern_conversation"
"""The key in `ctx.store`; a typed state has to have a field of that name."""
_KEY = f"ctx=Context(...), where a typed state needs a field {CONVERSATION!r}"


def as_tools(
    sandbox: Sandbox | Pool,
    tools: str | Sequence[str] = ("code", "files"),
    *,
    strict: bool = True,
    images: Literal["parts", "none"] = "parts",
    tenant: Callable[[Any], Any] | None = None,
) -> list[FunctionTool]:
    """Offer tools of `sandbox` to a LlamaIndex agent.

    Args:
        sandbox: Where the calls run; open for as long as the agent runs. Of a pool,
            each `Context` has a sandbox of its own, also once it was serialized: its
            id is kept in `ctx.store`, under `CONVERSATION`.
        tools: Names of sets or of single tools.
        strict: Schemas for strict mode: all properties required, absent is null.
        images: `parts` sends images as `ImageBlock`s, `none` leaves them out.
        tenant: With a pool, given the `Context`, tells whose it is; may be async.

    Returns:
        One tool per name, each with native sync and async.
    """
    source = Source(sandbox, tenant=tenant, key=_KEY)
    return [
        KernFunctionTool(tool, strict=strict, images=images == "parts")
        for tool in tools_of(source, tools)
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


class KernToolSpec(BaseToolSpec):
    """The same tools, for code that wants a tool spec; arguments as in `as_tools`."""

    def __init__(
        self,
        sandbox: Sandbox | Pool,
        tools: str | Sequence[str] = ("code", "files"),
        *,
        strict: bool = True,
        images: Literal["parts", "none"] = "parts",
        tenant: Callable[[Any], Any] | None = None,
    ) -> None:
        self._tools = as_tools(
            sandbox, tools, strict=strict, images=images, tenant=tenant
        )
        self.spec_functions = [tool.metadata.get_name() for tool in self._tools]

    def to_tool_list(
        self,
        spec_functions: Sequence[Any] | None = None,
        func_to_metadata_mapping: Mapping[str, ToolMetadata] | None = None,
    ) -> list[FunctionTool]:
        """Return the tools, or those named in `spec_functions`."""
        wanted = self.spec_functions if spec_functions is None else spec_functions
        return [tool for tool in self._tools if tool.metadata.get_name() in wanted]


@dataclass
class _Metadata(ToolMetadata):
    """What the model is told; the schema is ours, `required` and all."""

    parameters: dict[str, Any] = field(default_factory=dict[str, Any])

    def get_parameters_dict(self) -> dict[str, Any]:
        return copy.deepcopy(self.parameters)


class KernOutput(Event):
    """A piece of output in an agent's event stream; fields as in `OutputEvent`.

    `call_id` is the one in the result: LlamaIndex does not tell a tool its own.
    """

    call_id: str
    stream: Literal["stdout", "stderr"]
    text: str
    dropped_bytes: int = 0


class KernFunctionTool(FunctionTool):
    """One tool of a sandbox; made by `as_tools`.

    `blocks` hold the text and the images, `raw_output` the result as plain JSON;
    `is_error` is set on a fault and on arguments that cannot be used. An agent's run
    streams what the code writes as `KernOutput` events, while it runs.
    """

    def __init__(self, tool: Tool, *, strict: bool, images: bool) -> None:
        def run(**arguments: object) -> str:
            return tool.call(arguments).text

        async def arun(**arguments: object) -> str:
            return (await tool.acall(arguments)).text

        self._tool = tool
        self._images = images
        metadata = _Metadata(
            name=tool.name,
            description=tool.description,
            fn_schema=tool.arguments,
            parameters=tool.schema(strict=strict),
        )
        super().__init__(fn=run, async_fn=arun, metadata=metadata)
        # Agents then pass the `Context`, over whatever a model wrote by that name.
        self.requires_context = tool.source.is_pool or tool.spec.streams
        self.ctx_param_name = "ctx" if self.requires_context else None

    # `self` is positional only: a model may well write an argument of that name.
    def __call__(self, /, *args: object, **kwargs: object) -> ToolOutput:
        """Run one call."""
        return self.call(*args, **kwargs)

    def call(self, /, *args: object, **kwargs: object) -> ToolOutput:
        """Run one call; arguments as the model wrote them."""
        context = self._context(kwargs)
        keyed = context if self._tool.source.is_pool else None
        reply = self._tool.call(
            self._named(args, kwargs),
            conversation=asyncio_run(_conversation(keyed)) if keyed else None,
            offered=context,
        )
        return self._output(reply, args, kwargs)

    async def acall(self, /, *args: object, **kwargs: object) -> ToolOutput:
        """Run one call; cancelling it ends the box."""
        context = self._context(kwargs)
        keyed = context if self._tool.source.is_pool else None
        reply = await self._tool.acall(
            self._named(args, kwargs),
            conversation=await _conversation(keyed) if keyed else None,
            offered=context,
            on_output=None if context is None else _listener(context),
        )
        return self._output(reply, args, kwargs)

    def _context(self, kwargs: dict[str, Any]) -> Context[Any] | None:
        """Take the context out of what goes to the tool and into `raw_input`."""
        if not isinstance(kwargs.get("ctx"), Context):
            return None
        return cast("Context[Any]", kwargs.pop("ctx"))

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = self._tool.arguments.model_fields
        return dict(zip(names, args, strict=False)) | kwargs

    def _output(
        self, reply: Reply, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> ToolOutput:
        blocks: list[ContentBlock] = [TextBlock(text=reply.text)]
        if self._images:
            blocks += [
                ImageBlock(image=image.data, image_mimetype=image.mime)
                for image in reply.images
            ]
        # A lone surrogate in what the model wrote would fail every serializer.
        raw = {"args": args, "kwargs": kwargs}
        written = json.dumps(raw, ensure_ascii=False, default=repr)
        return ToolOutput(
            tool_name=reply.name,
            blocks=blocks,
            raw_input=json.loads(written.encode(errors="replace")),
            raw_output=reply.artifact,
            is_error=reply.is_error,
        )


async def _conversation(context: Context[Any]) -> str | None:
    """Give the id of a context's conversation, made at the first call."""
    known: str | None = await context.store.get(CONVERSATION, default=None)
    if known is not None:
        return known
    try:
        async with context.store.edit_state() as state:
            known = getattr(state, CONVERSATION, None)  # a call beside this one's
            if known is None:
                known = uuid4().hex
                setattr(state, CONVERSATION, known)
    except ValueError:
        return None  # a typed state without the field
    return known


def _listener(context: Context[Any]) -> OnOutput:
    """Write to the event stream of the run whose step called the tool, if one did."""
    loop = asyncio.get_running_loop()

    def write(event: OutputEvent) -> None:
        with suppress(Exception):  # the context is not a running step's: no stream
            context.write_event_to_stream(KernOutput(**asdict(event)))

    return lambda event: loop.call_soon_threadsafe(write, event)
