"""One tool: its words, its arguments, and what it does, bound to a sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from .arguments import Read, read_arguments
from .escaping import escape, escape_line
from .prompting import tool_description
from .reply import Reply, TextPart
from .sandbox import Sandbox
from .schema import plain_schema, strict_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool, before it has a sandbox.

    Attributes:
        name: What the model calls, and the name of the description's template.
        arguments: A flat model: strict, extra forbidden, attribute docstrings.
        run: Does it; raises nothing for what a model wrote.
        arun: The same, natively async.
        code_field: The property that holds code, or None.
    """

    name: str
    arguments: type[BaseModel]
    run: Callable[[Sandbox, Any, str | None], Reply]
    arun: Callable[[Sandbox, Any, str | None], Awaitable[Reply]]
    code_field: str | None = None


class Tool:
    """A tool bound to one sandbox: all that an adapter sees."""

    def __init__(
        self, spec: ToolSpec, sandbox: Sandbox, *, bare_code: bool = False
    ) -> None:
        self.spec = spec
        self.sandbox = sandbox
        self.bare_code = bare_code

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    @property
    def name(self) -> str:
        """What the model calls."""
        return self.spec.name

    @property
    def arguments(self) -> type[BaseModel]:
        """The arguments model."""
        return self.spec.arguments

    @property
    def description(self) -> str:
        """What the model is told, of this sandbox as it is configured."""
        return tool_description(self.name, self.sandbox.describe())

    def schema(self, *, strict: bool = True) -> dict[str, Any]:
        """Describe the arguments as JSON schema.

        Args:
            strict: For strict mode: all properties required, absent is null.

        Returns:
            A new dict, the caller's to change.
        """
        return (strict_schema if strict else plain_schema)(self.arguments)

    def call(self, arguments: object, *, call_id: str | None = None) -> Reply:
        """Answer one call.

        Args:
            arguments: What the model wrote: JSON text, a mapping, or anything else.
            call_id: The framework's id of the call.

        Returns:
            The reply, with `error="bad_arguments"` where nothing could be run.

        Raises:
            SandboxClosed: The sandbox is not open.
            HostError: This machine cannot run boxes.
        """
        read = self._read(arguments)
        if read.arguments is None:
            return bad_arguments(self.name, str(read.problem), call_id)
        reply = self.spec.run(self.sandbox, read.arguments, call_id)
        return with_notes(reply, read.repairs)

    async def acall(self, arguments: object, *, call_id: str | None = None) -> Reply:
        """Answer one call as `call` does; cancelling it ends its box first."""
        read = self._read(arguments)
        if read.arguments is None:
            return bad_arguments(self.name, str(read.problem), call_id)
        reply = await self.spec.arun(self.sandbox, read.arguments, call_id)
        return with_notes(reply, read.repairs)

    def _read(self, arguments: object) -> Read[BaseModel]:
        return read_arguments(
            arguments,
            self.arguments,
            code_field=self.spec.code_field,
            bare_code=self.bare_code,
        )


def bad_arguments(name: str, problem: str, call_id: str | None = None) -> Reply:
    """Tell the model that its arguments cannot be used, and what to send.

    Args:
        name: The tool that was called.
        problem: What was wrong and what to send.
        call_id: The framework's id of the call.

    Returns:
        The reply, with `error="bad_arguments"`.
    """
    return text_reply(
        name,
        f"bad arguments: nothing was run or changed.\n{escape(problem)}",
        call_id,
        error="bad_arguments",
    )


def text_reply(
    name: str, text: str, call_id: str | None, *, error: str | None = None
) -> Reply:
    """Make a reply of text alone, for a call that ran no code."""
    return Reply(name=name, parts=(TextPart(text),), error=error, call_id=call_id)


def with_notes(reply: Reply, notes: Sequence[str]) -> Reply:
    """State in a reply what was changed about its call.

    Args:
        reply: The reply; its first part is text, whose first line is the verdict.
        notes: Clauses, each to become a line under the verdict.

    Returns:
        The reply with those lines, or itself where there are none.
    """
    if not notes:
        return reply
    first, *others = reply.parts
    assert isinstance(first, TextPart)
    verdict, *rest = first.text.split("\n", 1)
    lines = [verdict, *(f"note: {escape_line(note)}." for note in notes), *rest]
    return replace(reply, parts=(TextPart("\n".join(lines)), *others))
