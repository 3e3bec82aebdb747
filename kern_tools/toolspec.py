"""One tool: its words, its arguments, and what it does, bound to a sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

from pydantic import BaseModel, ConfigDict

from .arguments import Read, read_arguments
from .events import OnOutput
from .facts import SandboxFacts
from .faults import SandboxError
from .observing import Asked, aaround, around
from .prompting import tool_description
from .reply import Reply
from .reply_text import bad_arguments, note_lines, with_notes
from .sandbox import Sandbox
from .saying import saying, without_limit
from .schema import plain_schema, strict_schema
from .source import Pool, Source

_UNSEEN = "images are not passed on to you; look at the data instead"


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
    trace_context: Mapping[str, Any] | None


class Tool:
    """A tool bound to a sandbox, or to a pool of them: all that an adapter sees."""

    def __init__(
        self,
        spec: ToolSpec,
        sandbox: Sandbox | Pool | Source,
        *,
        bare_code: bool = False,
        among: tuple[str, ...] | None = None,
        images: bool = True,
    ) -> None:
        self.spec = spec
        self.source = sandbox if isinstance(sandbox, Source) else Source(sandbox)
        self.bare_code = bare_code
        self.among = among
        self.images = images

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
        return tool_description(self.name, self._facts())

    @property
    def free_text_description(self) -> str:
        """The same where the code comes as text alone, with no limit beside it."""
        return tool_description(self.name, without_limit(self._facts()))

    def _facts(self) -> SandboxFacts:
        facts = self.source.describe()
        if self.among is not None:
            facts = facts.offering(self.among)
        return facts if self.images else replace(facts, images=0)

    def schema(self, *, strict: bool = True) -> dict[str, Any]:
        """Describe the arguments as JSON schema.

        Args:
            strict: For strict mode: all properties required, absent is null.

        Returns:
            A new dict, the caller's to change.
        """
        schema = (strict_schema if strict else plain_schema)(self.arguments)
        language = schema["properties"].get("language")
        if language is not None:
            spoken = self.source.describe().spoken
            language["enum"] = [
                each for each in language["enum"] if each is None or each in spoken
            ]
        return schema

    def call(
        self,
        arguments: object,
        *,
        call_id: str | None = None,
        conversation: object = None,
        offered: object = None,
        on_output: OnOutput | None = None,
        trace_context: Mapping[str, Any] | None = None,
    ) -> Reply:
        """Answer one call.

        Args:
            arguments: What the model wrote: JSON text, a mapping, or anything else.
            call_id: The framework's id of the call.
            conversation: The framework's id of the conversation, for a pool.
            offered: What a pool's `tenant` is called with; None for `conversation`.
            on_output: Given an `OutputEvent` for each piece that the code writes, as
                it comes; by tools that run something. Called as in `CallStream.run`.
            trace_context: What came with the call to continue a trace, such as
                `traceparent`; for `telemetry`, where nothing is traced around it.

        Returns:
            The reply, with `error="bad_arguments"` where nothing could be run, and with
            the fault `startup_failed` where a pool has no sandbox for the call.

        Raises:
            SandboxClosed: The sandbox is not open.
            HostError: This machine cannot run boxes.
        """
        given: Given = {
            "call_id": call_id,
            "conversation": conversation,
            "offered": offered,
            "on_output": on_output,
            "trace_context": trace_context,
        }
        return self.observed(
            arguments, given, lambda: self.answer(self.read(arguments), **given)
        )

    async def acall(self, arguments: object, **given: Unpack[Given]) -> Reply:
        """Answer one call as `call` does; cancelling it ends its box first."""
        return await self.aobserved(
            arguments, given, lambda: self.aanswer(self.read(arguments), **given)
        )

    def observed(
        self, arguments: object, given: Given, make: Callable[[], Reply]
    ) -> Reply:
        """Make a call and tell of it whoever observes the sandbox.

        Args:
            arguments: What the model wrote.
            given: As in `call`.
            make: Makes it; `call` itself tells of it already.
        """
        observer = self.source.observer
        if observer is None:
            return make()
        return around(observer, self._asked(arguments, given), make)

    async def aobserved(
        self, arguments: object, given: Given, make: Callable[[], Awaitable[Reply]]
    ) -> Reply:
        """Do as `observed`, natively async."""
        observer = self.source.observer
        if observer is None:
            return await make()
        return await aaround(observer, self._asked(arguments, given), make)

    def _asked(self, arguments: object, given: Given) -> Asked:
        return Asked(
            name=self.name,
            mode=self.source.mode,
            arguments=arguments,
            call_id=given.get("call_id"),
            describe=lambda: self.description,
            trace_context=given.get("trace_context"),
        )

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
            with self.source.lease(*_whose(given)) as sandbox, self._saying(read):
                reply = self.spec.run(sandbox, read.arguments, call_id, listener)
        except SandboxError as error:
            reply = self.source.refused(self.name, error, call_id)
        return self._noted(reply, read)

    async def aanswer(self, read: Read[BaseModel], **given: Unpack[Given]) -> Reply:
        """Answer one call as `answer` does; cancelling it ends its box first."""
        call_id, listener = given.get("call_id"), given.get("on_output")
        if read.arguments is None:
            return bad_arguments(self.name, str(read.problem), call_id)
        wanted = read.arguments
        try:
            async with await self.source.alease(*_whose(given)) as sandbox:
                with self._saying(read):
                    reply = await self.spec.arun(sandbox, wanted, call_id, listener)
        except SandboxError as error:
            reply = self.source.refused(self.name, error, call_id)
        return self._noted(reply, read)

    def _saying(self, read: Read[BaseModel]) -> AbstractContextManager[None]:
        """Leave room for the notes that are put into the reply."""
        unseen = () if self.images else (_UNSEEN,)
        return saying(note_lines([*read.repairs, *unseen]))

    def _noted(self, reply: Reply, read: Read[BaseModel]) -> Reply:
        unseen = (_UNSEEN,) if reply.images and not self.images else ()
        return with_notes(reply, [*read.repairs, *unseen])


def _whose(given: Given) -> tuple[object, object]:
    return given.get("conversation"), given.get("offered")
