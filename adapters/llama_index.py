"""The tools of a sandbox as LlamaIndex function tools."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kern_tools.extras import missing
from kern_tools.members import member
from kern_tools.reply import Reply, result_of_artifact
from kern_tools.result import ExecutionResult
from kern_tools.sandbox import Sandbox
from kern_tools.tools import Tool, tools_of

try:
    from llama_index.core.base.llms.types import ContentBlock, ImageBlock, TextBlock
    from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
    from llama_index.core.tools.tool_spec.base import BaseToolSpec
except ImportError as error:
    missing("llama-index", error)

__all__ = ["KernFunctionTool", "KernToolSpec", "as_tools", "result_of"]


def as_tools(
    sandbox: Sandbox,
    tools: str | Sequence[str] = ("code", "files"),
    *,
    strict: bool = True,
    images: Literal["parts", "none"] = "parts",
) -> list[FunctionTool]:
    """Offer tools of `sandbox` to a LlamaIndex agent.

    Args:
        sandbox: Where the calls run; open for as long as the agent runs.
        tools: Names of sets or of single tools.
        strict: Schemas for strict mode: all properties required, absent is null.
        images: `parts` sends images as `ImageBlock`s, `none` leaves them out.

    Returns:
        One tool per name, each with native sync and async.
    """
    return [
        KernFunctionTool(tool, strict=strict, images=images == "parts")
        for tool in tools_of(sandbox, tools)
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
        sandbox: Sandbox,
        tools: str | Sequence[str] = ("code", "files"),
        *,
        strict: bool = True,
        images: Literal["parts", "none"] = "parts",
    ) -> None:
        self._tools = as_tools(sandbox, tools, strict=strict, images=images)
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
    `is_error` is set on a fault and on arguments that cannot be used.
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

    # `self` is positional only: a model may well write an argument of that name.
    def __call__(self, /, *args: object, **kwargs: object) -> ToolOutput:
        """Run one call."""
        return self.call(*args, **kwargs)

    def call(self, /, *args: object, **kwargs: object) -> ToolOutput:
        """Run one call; arguments as the model wrote them."""
        return self._output(self._tool.call(self._named(args, kwargs)), args, kwargs)

    async def acall(self, /, *args: object, **kwargs: object) -> ToolOutput:
        """Run one call; cancelling it ends the box."""
        reply = await self._tool.acall(self._named(args, kwargs))
        return self._output(reply, args, kwargs)

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
