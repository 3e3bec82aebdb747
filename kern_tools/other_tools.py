"""Tools of the caller's own, beside those of a sandbox.

A plain function is described by its name, docstring and annotations:

    def get_weather(city: str, day: date | None = None) -> str:
        '''The weather of a city.'''

An `OtherTool` brings its own schema, and a schema alone is a tool that nobody here
answers: the server's own, or one whose calls are handed back.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

from pydantic import BaseModel
from pydantic_core import to_json

from .escaping import escape
from .faults import ConfigError
from .function_arguments import (
    BadArguments,
    arguments_model,
    odd_function,
    written_arguments,
)
from .loop_result import StopLoop
from .options import refusal
from .reply import ImagePart, Part, Reply, TextPart, member
from .reply_text import bad_arguments, text_reply

_ERROR_MAX_CHARS = 2_000
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class OtherTool:
    """A tool of the caller's own.

    Attributes:
        definition: What the model is told, as `tools=` of Chat Completions or of
            Responses takes it; either will do for both.
        function: Answers a call, given the arguments by name, of a custom tool the
            text; may be async with `arun_loop`. What it returns is the answer: text,
            `ImagePart`s, a list of both, or anything that can be JSON. None: calls are
            handed back, and the loop ends with them.
        reraise: Let what the function raises end the loop; else the model is told.
        arguments: Checks the arguments, where it is not None.
    """

    definition: Mapping[str, Any]
    function: Callable[..., Any] | None = None
    reraise: bool = False
    arguments: type[BaseModel] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_definition(self.definition)
        if self.function is not None and not callable(self.function):
            remedy = "give a function, or None to have its calls handed back"
            why = "cannot be called"
            raise refusal("others", self.function, why, remedy)
        if self.function is not None and not self.name:
            raise ConfigError(
                f"others: {dict(self.definition)!r:.80} names no tool; write it as in"
                " tools=[...] of the OpenAI API, with type and name",
                option="others",
            )

    @property
    def kind(self) -> str:
        """`function`, `custom`, or the type of a tool of the server."""
        return str(self.definition.get("type"))

    @property
    def name(self) -> str | None:
        """What the model calls; None of a tool of the server."""
        if self.kind not in ("function", "custom"):
            return None
        body = self.definition.get(self.kind, self.definition)
        name = member(body, "name")
        return name if isinstance(name, str) and name else None

    @property
    def is_async(self) -> bool:
        """Whether only an event loop can run it."""
        call = getattr(self.function, "__call__", None)  # noqa: B004 - of an object
        return inspect.iscoroutinefunction(self.function) or (
            inspect.iscoroutinefunction(call)
        )


@dataclass(frozen=True, slots=True)
class OtherCall:
    """One call of a tool of the caller's own.

    Attributes:
        tool: The tool, which has a function.
        written: What the model wrote.
        call_id: The call's id.
    """

    tool: OtherTool
    written: Any
    call_id: str

    def run(self) -> Reply:
        """Answer it, on this thread."""
        asked = self._asked()
        if isinstance(asked, Reply):
            return asked
        try:
            answer = asked()
            if not inspect.isawaitable(answer):
                return self._reply(answer)
        except Exception as error:
            return self._failed(error)
        if inspect.iscoroutine(answer):
            answer.close()
        raise async_refused(str(self.tool.name))

    async def arun(self) -> Reply:
        """Answer it; a function that is not async has a thread of its own."""
        import asyncio

        asked = self._asked()
        if isinstance(asked, Reply):
            return asked
        attempt = partial(_attempt, asked)
        if self.tool.is_async:
            answer, error = attempt()
        else:
            answer, error = await asyncio.to_thread(attempt)
        try:
            if error is not None:
                return self._failed(error)
            return self._reply(await answer if inspect.isawaitable(answer) else answer)
        except Exception as raised:
            return self._failed(raised)

    def _asked(self) -> Callable[[], Any] | Reply:
        """Give the call with its arguments, or the reply to bad ones."""
        function = self.tool.function
        assert function is not None
        if self.tool.kind == "custom":
            return lambda: function(str(self.written or ""))
        try:
            given = written_arguments(function, self.tool.arguments, self.written)
        except BadArguments as error:
            return bad_arguments(str(self.tool.name), str(error), self.call_id)
        return lambda: function(**given)

    def _reply(self, answer: object) -> Reply:
        if isinstance(answer, Reply):
            parts = _parts(list(answer.parts) or "")
            return replace(answer, parts=parts, call_id=self.call_id)
        parts = _parts(answer)
        return Reply(name=str(self.tool.name), parts=parts, call_id=self.call_id)

    def _failed(self, error: Exception) -> Reply:
        if self.tool.reraise or isinstance(error, StopLoop):
            raise error
        said = f"error: {type(error).__name__}: {_told(error)}"[:_ERROR_MAX_CHARS]
        name = str(self.tool.name)
        return text_reply(name, escape(said), self.call_id, error="tool_error")


def _attempt(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Call it and give its error: a future of Python 3.11 takes no `StopIteration`."""
    try:
        return call(), None
    except Exception as error:
        return None, error


def _told(error: Exception) -> str:
    """Give the words of an error, also where it cannot say them itself."""
    try:
        return str(error)
    except Exception as another:
        return f"(its text could not be read: {type(another).__name__})"


def other_tool(given: OtherTool | Mapping[str, Any] | Callable[..., Any]) -> OtherTool:
    """Make a tool of what a caller gave.

    Args:
        given: A tool, a definition alone, or a function with annotations.

    Raises:
        ConfigError: It is none of these, or the function cannot be described.
    """
    if isinstance(given, OtherTool):
        return given
    if isinstance(given, Mapping):
        return OtherTool(cast("dict[str, Any]", given))
    if not callable(given):
        raise _no_tool(given)
    return _described(given)


def _check_definition(given: object) -> None:
    if not isinstance(given, Mapping):
        raise _no_tool(given)


def _no_tool(given: object) -> ConfigError:
    remedy = (
        "give a function, an OtherTool, or a definition as in tools=[...] of the"
        " OpenAI API"
    )
    return refusal("others", given, "is no tool", remedy)


def async_refused(name: str) -> ConfigError:
    """Make the error for an async tool where nothing awaits it."""
    return ConfigError(
        f"others: {name} is async, and run_loop is not; use arun_loop, or a plain"
        " function",
        option="others",
    )


def _described(function: Callable[..., Any]) -> OtherTool:
    name = str(getattr(function, "__name__", type(function).__name__))
    if not _NAME.fullmatch(name):
        raise odd_function(name, "has no name that a model could call")
    model = arguments_model(name, function)
    schema: dict[str, Any] = {"properties": {}, **model.model_json_schema()}
    definition: dict[str, Any] = {
        "type": "function",
        "name": name,
        "description": inspect.getdoc(function) or "",
        "parameters": schema,
        "strict": False,
    }
    return OtherTool(definition, function, arguments=model)


def _parts(answer: object) -> tuple[Part, ...]:
    several = isinstance(answer, list | tuple)
    parts: Sequence[object] = cast("Any", answer) if several else [answer]
    images = [part for part in parts if isinstance(part, ImagePart)]
    texts = [_text_of(part) for part in parts if _is_text(part)]
    if not parts or len(images) + len(texts) < len(parts):
        return (TextPart(_text(answer)),)
    said = "\n".join(texts)
    return (TextPart(said or "images follow" if images else said), *images)


def _is_text(part: object) -> bool:
    return isinstance(part, str | TextPart)


def _text_of(part: object) -> str:
    return part.text if isinstance(part, TextPart) else str(part)


def _text(answer: object) -> str:
    if answer is None:
        return "ok"
    try:
        return to_json(answer).decode()
    except ValueError:  # It is nothing that JSON has.
        return str(answer)
