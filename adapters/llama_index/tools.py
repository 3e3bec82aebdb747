"""The tools of a sandbox as LlamaIndex function tools."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import NoneType
from typing import Any, Literal, cast
from uuid import uuid4

from kern_tools.adapters.llama_index.call_ids import CallIdOf, step_call_id
from kern_tools.adapters.llama_index.signals import (
    KernOutput,
    fault_event,
    listener,
    result_of,
    stop_event,
    tell,
)
from kern_tools.adapters.llama_index.watches import Watches
from kern_tools.extras import missing
from kern_tools.options import flag
from kern_tools.policy import FaultPolicy
from kern_tools.reply import Reply
from kern_tools.sandbox import Sandbox
from kern_tools.source import Pool, Source
from kern_tools.tools import Tool, tools_of
from kern_tools.watch import FaultWatch

try:
    from llama_index.core.async_utils import (
        asyncio_run,  # pyright: ignore[reportUnknownVariableType]
    )
    from llama_index.core.base.llms.types import ContentBlock, ImageBlock, TextBlock
    from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
    from llama_index.core.tools.tool_spec.base import BaseToolSpec
    from llama_index.core.workflow import Context
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
    policy: FaultPolicy | None = None,
    idempotent: bool = False,
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
        policy: Bounds for the calls of each run; `KernFunctionAgent` ends where it says
            so. A call without a `Context` belongs to no run, so that it is made again
            where nothing ran, and counts for nothing.
        idempotent: A call that an agent makes again under its id, as a run does that
            goes on from a stored `Context`, is given its first reply and does not run
            again. Remembered are the last 256 calls of each open sandbox, in this
            process.

    Returns:
        One tool per name, each with native sync and async.

    Raises:
        ConfigError: This release of the framework does not tell which call it makes.
    """
    flag("strict", strict)
    source = Source(sandbox, tenant=tenant, key=_KEY)
    watches = None if policy is None else Watches(policy)
    return [
        KernFunctionTool(
            tool,
            strict=strict,
            images=images == "parts",
            watches=watches,
            call_id=step_call_id() if idempotent else None,
        )
        for tool in tools_of(source, tools, idempotent=idempotent, images=images)
    ]


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
        policy: FaultPolicy | None = None,
        idempotent: bool = False,
    ) -> None:
        self._tools = as_tools(
            sandbox,
            tools,
            strict=strict,
            images=images,
            tenant=tenant,
            policy=policy,
            idempotent=idempotent,
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


class KernFunctionTool(FunctionTool):
    """One tool of a sandbox; made by `as_tools`.

    `blocks` hold the text and the images, `raw_output` the result as plain JSON;
    `is_error` is set on a fault and on arguments that cannot be used. An agent's run
    streams what the code writes as `KernOutput` events, while it runs, a `KernFault`
    for each fault, and a `KernStop` where a policy ends the loop.
    """

    def __init__(
        self,
        tool: Tool,
        *,
        strict: bool,
        images: bool,
        watches: Watches | None = None,
        call_id: CallIdOf | None = None,
    ) -> None:
        def run(**arguments: object) -> str:
            return tool.call(arguments).text

        async def arun(**arguments: object) -> str:
            return (await tool.acall(arguments)).text

        self._tool = tool
        self._images = images
        self._call_id = call_id
        self.called_as = tool.name
        """The name an agent calls it by; another one where a function wraps it."""
        self.watches = watches
        metadata = _Metadata(
            name=tool.name,
            description=tool.description,
            fn_schema=tool.arguments,
            parameters=tool.schema(strict=strict),
        )
        super().__init__(fn=run, async_fn=arun, metadata=metadata)
        # Agents then pass the `Context`, over whatever a model wrote by that name.
        wants = (tool.source.is_pool, tool.spec.streams, watches is not None)
        self.requires_context = any(wants)
        self.ctx_param_name = "ctx" if self.requires_context else None

    # `self` is positional only: a model may well write an argument of that name.
    def __call__(self, /, *args: object, **kwargs: object) -> ToolOutput:
        """Run one call."""
        return self.call(*args, **kwargs)

    def call(self, /, *args: object, **kwargs: object) -> ToolOutput:
        """Run one call; arguments as the model wrote them."""
        context = self._context(kwargs)
        keyed = context if self._tool.source.is_pool else None
        watch = self._watch(context)
        call = self._tool.call if watch is None else partial(watch.call, self._tool)
        reply = call(
            self._named(args, kwargs),
            call_id=self._id(),
            conversation=asyncio_run(_conversation(keyed)) if keyed else None,
            offered=context,
        )
        return self._output(reply, args, kwargs)

    async def acall(self, /, *args: object, **kwargs: object) -> ToolOutput:
        """Run one call; cancelling it ends the box."""
        context = self._context(kwargs)
        keyed = context if self._tool.source.is_pool else None
        watch = self._watch(context)
        call = self._tool.acall if watch is None else partial(watch.acall, self._tool)
        was_stopped = watch is not None and watch.stopped is not None
        reply = await call(
            self._named(args, kwargs),
            call_id=self._id(),
            conversation=await _conversation(keyed) if keyed else None,
            offered=context,
            on_output=None if context is None else listener(context),
        )
        if context is not None:
            _tell_all(context, reply, None if was_stopped else watch)
        return self._output(reply, args, kwargs)

    def _id(self) -> str | None:
        return None if self._call_id is None else self._call_id(self.called_as)

    def _watch(self, context: Context[Any] | None) -> FaultWatch | None:
        return None if self.watches is None else self.watches.of(context)

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
        named = {_plain(name): _plain(value) for name, value in kwargs.items()}
        return ToolOutput(
            tool_name=reply.name,
            blocks=blocks,
            raw_input={"args": [_plain(value) for value in args], "kwargs": named},
            raw_output=reply.artifact,
            is_error=reply.is_error,
        )


def _plain(written: object) -> Any:
    """Give what a model wrote as every serializer takes it: no lone surrogate."""
    if type(written) in (int, float, bool, NoneType):
        return written
    if isinstance(written, str) and written.isascii():
        return written
    text = json.dumps(written, ensure_ascii=False, default=repr)
    return json.loads(text.encode(errors="replace"))


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


def _tell_all(context: Context[Any], reply: Reply, watch: FaultWatch | None) -> None:
    """Stream what a call came to, and the end that it brought."""
    fault = fault_event(reply)
    if fault is not None:
        tell(context, fault)
    if watch is not None and watch.stopped is not None:
        tell(context, stop_event(watch.stopped))
