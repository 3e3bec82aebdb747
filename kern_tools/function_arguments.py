"""What a function takes, as a model of it, and read off what a model wrote."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from .faults import ConfigError
from .jsontext import NotJson, is_object, read_json

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class BadArguments(Exception):
    """What is wrong with the arguments, in words for the model."""


def arguments_model(name: str, function: Callable[..., Any]) -> type[BaseModel]:
    """Describe what a function takes by its annotations.

    Args:
        name: What the model calls it.
        function: A plain function, or one that is async.

    Returns:
        A model whose fields have the parameters' names as aliases.

    Raises:
        ConfigError: No schema describes it.
    """
    try:
        parameters = inspect.signature(function, eval_str=True).parameters
    except (NameError, TypeError, ValueError) as error:
        raise odd_function(name, f"has no annotations to read ({error})") from error
    fields: dict[str, Any] = {}
    for number, each in enumerate(parameters.values()):
        if each.kind not in _NAMED:
            raise odd_function(name, f"takes {each}, which no schema describes")
        kind = Any if each.annotation is each.empty else each.annotation
        default = ... if each.default is each.empty else each.default
        # Under a name of ours, for a parameter may be called `json` or `model_config`.
        fields[f"argument_{number}"] = (kind, Field(default, alias=each.name))
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    return create_model(name, __config__=config, **fields)


def odd_function(name: str, why: str) -> ConfigError:
    """Make the error for a function that cannot be described."""
    remedy = "give an OtherTool(definition, function) with a schema of your own"
    return ConfigError(f"others: {name}() {why}; {remedy}", option="others")


def written_arguments(
    function: Callable[..., Any], model: type[BaseModel] | None, written: object
) -> dict[str, Any]:
    """Read what a model wrote.

    Args:
        function: What is to be called with it.
        model: From `arguments_model`, checks it; None lets the function's own
            signature do so.
        written: JSON text of an object, or a mapping.

    Returns:
        The arguments by name.

    Raises:
        BadArguments: They cannot be used.
    """
    values = _object(written)
    if model is not None:
        try:
            checked = model.model_validate(values)
        except ValidationError as error:
            raise BadArguments(_flaws(error)) from None
        fields = model.model_fields
        return {str(fields[f].alias): getattr(checked, f) for f in fields}
    try:
        inspect.signature(function).bind(**values)
    except TypeError as error:
        raise BadArguments(f"{str(error).capitalize()}.") from None
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
        raise BadArguments(f"The arguments are not JSON: {error}.") from None
    if not is_object(value):
        raise BadArguments("The arguments must be one JSON object.")
    return value


def _flaws(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    named = ((".".join(map(str, flaw["loc"])), flaw["msg"]) for flaw in found)
    return "\n".join(f"`{name}`: {said}." for name, said in named)
