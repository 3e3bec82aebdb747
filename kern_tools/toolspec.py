"""One tool: its words, its arguments, and what it does, bound to a sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

from pydantic import BaseModel, ConfigDict

from .arguments import Read, read_arguments
from .escaping import escape, escape_line
from .events import OnOutput
from .faults import SandboxError
from .prompting import tool_description
from .reply import Reply, TextPart
from .sandbox import Sandbox
from .schema import plain_schema, strict_schema
from .source import Pool, Source


class Arguments(BaseModel):
    """What the arguments of every tool are: flat, and nothing but what is asked for."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool, before it has a sandbox.

    Attributes:
        name: What the model calls, and the name of the description's template.
        arguments: Their model; each field has a docstring, which the model reads.
        run: Does it, given the sandbox, the arguments, the call's id and who listens;
            raises nothing for what a model wrote.
        arun: The same, natively async.
        code_field: The property that holds code, whose output can be listened to; or
            None.
    """

    name: str
    arguments: type[Arguments]
    run: Callable[[Sandbox, Any, str | None, OnOutput | None], Reply]
    arun: Callable[[Sandbox, Any, str | None, OnOutput | None], Awaitable[Reply]]
    code_field: str | None = None

    @property
    def streams(self) -> bool:
        """Whether there is output before the reply."""
        return self.code_field is not None


class Given(TypedDict, total=False):
    """What a framework tells of a call; see `Tool.call`."""

    call_id: str | None
    conversation: object
    offered: object
    on_output: OnOutput | None


class Tool:
    """A tool bound to a sandbox, or to a pool of them: all that an adapter sees."""

    def __init__(
        self,
        spec: ToolSpec,
        sandbox: Sandbox | Pool | Source,
        *,
        bare_code: bool = False,
        among: tuple[str, ...] | None = None,
    ) -> None:
        self.spec = spec
        self.source = sandbox if isinstance(sandbox, Source) else Source(sandbox)
        self.bare_code = bare_code
        self.among = among

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
        facts = self.source.describe()
        if self.among is not None:
            facts = facts.offering(self.among)
        return tool_description(self.name, facts)

    def schema(self, *, strict: bool = True) -> dict[str, Any]:
        """Describe the arguments as JSON schema.

        Args:
            strict: For strict mode: all properties required, absent is null.

        Returns:
            A new dict, the caller's to change.
        """
        return (strict_schema if strict else plain_schema)(self.arguments)

    def call(
        self,
        arguments: object,
        *,
        call_id: str | None = None,
        conversation: object = None,
        offered: object = None,
        on_output: OnOutput | None = None,
    ) -> Reply:
        """Answer one call.

        Args:
            arguments: What the model wrote: JSON text, a mapping, or anything else.
            call_id: The framework's id of the call.
            conversation: The framework's id of the conversation, for a pool.
            offered: What a pool's `tenant` is called with; None for `conversation`.
            on_output: Given an `OutputEvent` for each piece that the code writes, as
                it comes; by tools that run something. Called as in `CallStream.run`.

        Returns:
            The reply, with `error="bad_arguments"` where nothing could be run, and with
            the fault `startup_failed` where a pool has no sandbox for the call.

        Raises:
            SandboxClosed: The sandbox is not open.
            HostError: This machine cannot run boxes.
        """
        return self.answer(
            self.read(arguments),
            call_id=call_id,
            conversation=conversation,
            offered=offered,
            on_output=on_output,
        )

    async def acall(self, arguments: object, **given: Unpack[Given]) -> Reply:
        """Answer one call as `call` does; cancelling it ends its box first."""
        return await self.aanswer(self.read(arguments), **given)

    def read(self, arguments: object) -> Read[BaseModel]:
        """Read what a model wrote; nothing runs, and nothing is raised for it."""
        return read_arguments(
            arguments,
            self.arguments,
            code_field=self.spec.code_field,
            bare_code=self.bare_code,
        )

    def answer(self, read: Read[BaseModel], **given: Unpack[Given]) -> Reply:
        """Answer one call as `call` does, its arguments as `read` gave them."""
        call_id, listener = given.get("call_id"), given.get("on_output")
        if read.arguments is None:
            return bad_arguments(self.name, str(read.problem), call_id)
        try:
            with self.source.lease(*_whose(given)) as sandbox:
                reply = self.spec.run(sandbox, read.arguments, call_id, listener)
        except SandboxError as error:
            reply = self.source.refused(self.name, error, call_id)
        return with_notes(reply, read.repairs)

    async def aanswer(self, read: Read[BaseModel], **given: Unpack[Given]) -> Reply:
        """Answer one call as `answer` does; cancelling it ends its box first."""
        call_id, listener = given.get("call_id"), given.get("on_output")
        if read.arguments is None:
            return bad_arguments(self.name, str(read.problem), call_id)
        wanted = read.arguments
        try:
            async with await self.source.alease(*_whose(given)) as sandbox:
                reply = await self.spec.arun(sandbox, wanted, call_id, listener)
        except SandboxError as error:
            reply = self.source.refused(self.name, error, call_id)
        return with_notes(reply, read.repairs)


def _whose(given: Given) -> tuple[object, object]:
    return given.get("conversation"), given.get("offered")


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
