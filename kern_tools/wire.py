"""Tools, calls and answers in the words of the OpenAI API.

Calls are of five kinds: in Chat Completions `function` and `custom`, the latter with
free text; in Responses `function_call`, `custom_tool_call` and `shell_call`. They are
read by key or by attribute, so that dicts and the objects of any SDK version will do.

Source: https://platform.openai.com/docs/api-reference/chat/create and
https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

from .reply import ImagePart, member
from .tools import Tool

LOCAL_SHELL: dict[str, Any] = {"type": "shell", "environment": {"type": "local"}}
"""The shell tool of Responses, whose commands run where the caller is."""

_FREE_TEXT = "The input is the Python source itself, not JSON and without a fence."
_ACTION = ("commands", "timeout_ms", "max_output_length")


def chat_function(tool: Tool, *, strict: bool) -> dict[str, Any]:
    """Define a function for Chat Completions.

    Args:
        tool: What the model may call.
        strict: Ask for strict mode; else the key is left out, as servers without
            that mode may refuse it.

    Returns:
        An element of `tools=`.
    """
    function = _described(tool, strict=strict) | ({"strict": True} if strict else {})
    return {"type": "function", "function": function}


def response_function(tool: Tool, *, strict: bool) -> dict[str, Any]:
    """Define a function for Responses, which takes one to be strict unless told.

    Args:
        tool: What the model may call.
        strict: Whether to ask for strict mode.

    Returns:
        An element of `tools=`.
    """
    return {"type": "function", **_described(tool, strict=strict), "strict": strict}


def free_text_tool(tool: Tool) -> dict[str, Any]:
    """Define a custom tool for Responses, whose input is code as it is.

    Args:
        tool: A tool that runs code.

    Returns:
        An element of `tools=`.
    """
    return {"type": "custom", **_free_text(tool)}


def chat_free_text_tool(tool: Tool) -> dict[str, Any]:
    """Define the same for Chat Completions."""
    return {"type": "custom", "custom": _free_text(tool)}


def _free_text(tool: Tool) -> dict[str, Any]:
    description = f"{tool.free_text_description}\n{_FREE_TEXT}"
    head = {"name": tool.name, "description": description}
    return {**head, "format": {"type": "text"}}


def _described(tool: Tool, *, strict: bool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema(strict=strict),
    }


class WireCall(NamedTuple):
    """One call, as it was written; nothing in it is checked.

    Attributes:
        kind: Its type, one of the five.
        name: The tool's name, or whatever stands there; `shell` for a `shell_call`.
        written: Its arguments, usually JSON text; of a custom tool the free text; of a
            `shell_call` its action, as a dict.
        call_id: The id that its answer has to carry, or None.
        raw: The call itself.
        is_cut: It is the last one of a turn that the limit on tokens ended.
    """

    kind: str
    name: Any
    written: Any
    call_id: str | None
    raw: Any
    is_cut: bool = False

    @property
    def is_free_text(self) -> bool:
        """Whether `written` is text of the tool's own, not JSON."""
        return self.kind in ("custom", "custom_tool_call")

    @property
    def is_chat(self) -> bool:
        """Whether it came from Chat Completions."""
        return self.kind in ("function", "custom")

    @property
    def is_shell(self) -> bool:
        """Whether it is a `shell_call`."""
        return self.kind == "shell_call"


class WireAnswer(NamedTuple):
    """What a call is answered with.

    Attributes:
        call: The call.
        text: What the model reads.
        images: What it sees besides.
        contents: The `output` of a `shell_call_output`, in place of the text.
    """

    call: WireCall
    text: str
    images: Sequence[ImagePart] = ()
    contents: Sequence[dict[str, Any]] = ()


def calls_in(turn: object) -> list[WireCall]:
    """Read the calls of one model turn.

    Args:
        turn: A chat completion or its message, a response, or a list of calls;
            whatever else stands in a response or a list is passed over, and so is a
            call whose output is there already, as where the server ran it.

    Returns:
        The calls, in order.

    Raises:
        TypeError: `turn` is something else, such as a stream not read yet.
    """
    answered: list[Any] = []
    read: list[WireCall] = []
    for item in _items_in(turn):
        call = _read(item)
        if call is not None:
            read.append(call)
        elif _is_output(item):
            answered.append(member(item, "call_id"))
    calls = [call for call in read if call.call_id not in answered]
    if calls and _is_cut(turn):
        calls[-1] = calls[-1]._replace(is_cut=True)
    return calls


def items_for(answers: Sequence[WireAnswer]) -> list[Any]:
    """Write the items to append to the history.

    Args:
        answers: In the order of the calls.

    Returns:
        The output items of Responses; for Chat the tool messages and then, where
        there are images, one user message with all of them: a tool message there
        carries text only, and all of them must come first.
    """
    items = [_message(a) if a.call.is_chat else _output(a) for a in answers]
    shown = [part for a in answers if a.call.is_chat for part in _shown(a)]
    return [*items, {"role": "user", "content": shown}] if shown else items


def _items_in(turn: object) -> Iterable[Any]:
    if isinstance(turn, list | tuple):
        return cast("Iterable[Any]", turn)
    choices = member(turn, "choices")
    message = member(choices[0], "message") if choices else turn
    for holder, name in ((message, "tool_calls"), (turn, "output")):
        found = member(holder, name)
        if isinstance(found, list | tuple):
            return cast("Iterable[Any]", found)
    if choices == [] or member(message, "role") == "assistant":
        return ()
    raise TypeError(
        "expected a chat completion, its message, a response or a list of calls, "
        f"got {type(turn).__name__!r}; of a stream, pass what it came to in the end"
    )


def _is_cut(turn: object) -> bool:
    if isinstance(turn, list | tuple):
        return False
    choices = member(turn, "choices")
    finish = member(choices[0], "finish_reason") if choices else None
    return finish == "length" or member(turn, "status") == "incomplete"


def _is_output(item: object) -> bool:
    return str(member(item, "type")).endswith("_call_output")


def _read(raw: object) -> WireCall | None:
    kind = member(raw, "type") or ("function" if member(raw, "function") else None)
    if kind == "shell_call":
        return _read_shell(raw)
    if kind in ("function", "custom"):
        body, call_id = member(raw, kind), member(raw, "id")
    elif kind in ("function_call", "custom_tool_call"):
        body, call_id = raw, member(raw, "call_id")
    else:
        return None
    written = member(body, "input" if kind.startswith("custom") else "arguments")
    answerable = call_id if isinstance(call_id, str) else None
    return WireCall(kind, member(body, "name"), written, answerable, raw)


def _read_shell(raw: object) -> WireCall | None:
    if member(member(raw, "environment"), "type") == "container_reference":
        return None  # The server runs it, in a container of its own.
    action, call_id = member(raw, "action"), member(raw, "call_id")
    given = {name: member(action, name) for name in _ACTION}
    written = {name: value for name, value in given.items() if value is not None}
    answerable = call_id if isinstance(call_id, str) else None
    return WireCall("shell_call", "shell", written, answerable, raw)


def _message(answer: WireAnswer) -> dict[str, Any]:
    call_id = answer.call.call_id
    return {"role": "tool", "tool_call_id": call_id, "content": answer.text}


def _shown(answer: WireAnswer) -> list[dict[str, Any]]:
    if not answer.images:
        return []
    label = f"Images of tool call {answer.call.call_id}:"
    urls = [{"url": image.data_url} for image in answer.images]
    images = [{"type": "image_url", "image_url": url} for url in urls]
    return [{"type": "text", "text": label}, *images]


def _output(answer: WireAnswer) -> dict[str, Any]:
    call = answer.call
    item: dict[str, Any] = {"type": f"{call.kind}_output", "call_id": call.call_id}
    item["output"] = _content(answer)
    length = call.written.get("max_output_length") if call.is_shell else None
    if isinstance(length, int):
        item["max_output_length"] = length
    # A program of the model's that made the call reads the answer by its caller.
    caller = member(call.raw, "caller")
    if member(caller, "type") == "program":
        item["caller"] = {"type": "program", "caller_id": member(caller, "caller_id")}
    return item


def _content(answer: WireAnswer) -> Any:
    if answer.call.is_shell:
        return list(answer.contents)
    output: Any = answer.text
    if answer.images:
        output = [{"type": "input_text", "text": answer.text}]
        output += [
            {"type": "input_image", "image_url": image.data_url, "detail": "auto"}
            for image in answer.images
        ]
    return output
