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
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import to_json

from .escaping import escape
from .faults import ConfigError
from .jsontext import NotJson, is_object, read_json
from .loop_result import StopLoop
from .reply import ImagePart, Part, Reply, TextPart, member
from .toolspec import bad_arguments, text_reply

_ERROR_MAX_CHARS = 2_000
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


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
        except Exception as error:
            return self._failed(error)
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise async_refused(str(self.tool.name))
        return self._reply(answer)

    async def arun(self) -> Reply:
        """Answer it; a function that is not async has a thread of its own."""
        import asyncio

        asked = self._asked()
        if isinstance(asked, Reply):
            return asked
        try:
            if self.tool.is_async:
                return self._reply(await asked())
            answer = await asyncio.to_thread(asked)
            return self._reply(await answer if inspect.isawaitable(answer) else answer)
        except Exception as error:
            return self._failed(error)

    def _asked(self) -> Callable[[], Any] | Reply:
        """Give the call with its arguments, or the reply to bad ones."""
        function = self.tool.function
        assert function is not None
        if self.tool.kind == "custom":
            return lambda: function(str(self.written or ""))
        try:
            given = _arguments(self.tool, self.written)
        except _BadArguments as error:
            return bad_arguments(str(self.tool.name), str(error), self.call_id)
        return lambda: function(**given)

    def _reply(self, answer: object) -> Reply:
        if isinstance(answer, Reply):
            return replace(answer, call_id=self.call_id)
        parts = _parts(answer)
        return Reply(name=str(self.tool.name), parts=parts, call_id=self.call_id)

    def _failed(self, error: Exception) -> Reply:
        if self.tool.reraise or isinstance(error, StopLoop):
            raise error
        said = f"error: {type(error).__name__}: {error}"[:_ERROR_MAX_CHARS]
        name = str(self.tool.name)
        return text_reply(name, escape(said), self.call_id, error="tool_error")


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
        raise ConfigError(
            f"others: {given!r:.80} is no tool; give a function, an OtherTool, or a"
            " definition as in tools=[...] of the OpenAI API",
            option="others",
        )
    return _described(given)


def async_refused(name: str) -> ConfigError:
    """Make the error for an async tool where nothing awaits it."""
    return ConfigError(
        f"others: {name} is async, and run_loop is not; use arun_loop, or a plain"
        " function",
        option="others",
    )


class _BadArguments(Exception):
    """What is wrong with the arguments, in words for the model."""


def _described(function: Callable[..., Any]) -> OtherTool:
    name = str(getattr(function, "__name__", type(function).__name__))
    if not _NAME.fullmatch(name):
        raise _odd(name, "has no name that a model could call")
    model = _model(name, function)
    schema: dict[str, Any] = {"properties": {}, **model.model_json_schema()}
    definition: dict[str, Any] = {
        "type": "function",
        "name": name,
        "description": inspect.getdoc(function) or "",
        "parameters": schema,
        "strict": False,
    }
    return OtherTool(definition, function, arguments=model)


def _model(name: str, function: Callable[..., Any]) -> type[BaseModel]:
    try:
        parameters = inspect.signature(function, eval_str=True).parameters
    except (NameError, TypeError, ValueError) as error:
        raise _odd(name, f"has no annotations to read ({error})") from error
    fields: dict[str, Any] = {}
    for number, each in enumerate(parameters.values()):
        if each.kind not in _NAMED:
            raise _odd(name, f"takes {each}, which no schema describes")
        kind = Any if each.annotation is each.empty else each.annotation
        default = ... if each.default is each.empty else each.default
        # Under a name of ours, for a parameter may be called `json` or `model_config`.
        fields[f"argument_{number}"] = (kind, Field(default, alias=each.name))
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    return create_model(name, __config__=config, **fields)


def _odd(name: str, why: str) -> ConfigError:
    remedy = "give an OtherTool(definition, function) with a schema of your own"
    return ConfigError(f"others: {name}() {why}; {remedy}", option="others")


def _arguments(tool: OtherTool, written: object) -> dict[str, Any]:
    values = _object(written)
    if tool.arguments is not None:
        try:
            checked = tool.arguments.model_validate(values)
        except ValidationError as error:
            raise _BadArguments(_flaws(error)) from None
        fields = tool.arguments.model_fields
        return {str(fields[f].alias): getattr(checked, f) for f in fields}
    try:
        inspect.signature(cast("Any", tool.function)).bind(**values)
    except TypeError as error:
        raise _BadArguments(f"{str(error).capitalize()}.") from None
    except ValueError:  # It has no signature, as some builtins: let it speak itself.
        pass
    return values


def _object(written: object) -> dict[str, Any]:
    if isinstance(written, Mapping):
        return dict(cast("Mapping[str, Any]", written))
    text = str(written or "").strip() or "{}"
    try:
        value, _ = read_json(text)
    except NotJson as error:
        raise _BadArguments(f"The arguments are not JSON: {error}.") from None
    if not is_object(value):
        raise _BadArguments("The arguments must be one JSON object.")
    return value


def _flaws(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    named = ((".".join(map(str, flaw["loc"])), flaw["msg"]) for flaw in found)
    return "\n".join(f"`{name}`: {said}." for name, said in named)


def _parts(answer: object) -> tuple[Part, ...]:
    several = isinstance(answer, list | tuple)
    parts: Sequence[object] = cast("Any", answer) if several else [answer]
    images = [part for part in parts if isinstance(part, ImagePart)]
    texts = [_text_of(part) for part in parts if _is_text(part)]
    if not parts or len(images) + len(texts) < len(parts):
        return (TextPart(_text(answer)),)
    return (TextPart("\n".join(texts) or "images follow"), *images)


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
