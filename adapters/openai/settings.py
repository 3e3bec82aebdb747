"""What a loop is given, checked before the model is asked, and made into its parts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from kern_tools.adapters.openai.chat import Chat
from kern_tools.adapters.openai.offered import Offered
from kern_tools.adapters.openai.responses import Responses
from kern_tools.adapters.openai.step import Limits, Teller
from kern_tools.adapters.openai.steps import Steps
from kern_tools.adapters.openai.surface import Surface
from kern_tools.adapters.openai.tools import OpenAITools
from kern_tools.loop_events import OnEvent
from kern_tools.options import (
    Check,
    each,
    flag,
    number,
    one_of,
    optional,
    refusal,
    text,
    whole,
)
from kern_tools.other_tools import OtherTool, async_refused, other_tool
from kern_tools.policy import FaultPolicy, check_policy
from kern_tools.wire_definitions import for_chat, for_responses

Api = Literal["responses", "chat"]
Other = OtherTool | Mapping[str, Any] | Callable[..., Any]

_MANY = 1_000_000_000
_YEAR_S = 31_536_000


def _function(option: str, value: object) -> object:
    if not callable(value):
        raise refusal(option, value, "is not callable", "give a function, or None")
    return value


def _plain_function(option: str, value: object) -> object:
    _function(option, value)
    if inspect.iscoroutinefunction(value):
        raise refusal(option, value, "is async", "give a plain function")
    return value


def _other(option: str, value: object) -> object:
    return other_tool(cast("Other", value))


_TEXT = text(r"(?s).*", "give a str")
_CHECKS: Mapping[str, Check] = {
    "model": text(r"(?s).+", "give the name of a model"),
    "api": one_of("responses", "chat"),
    "instructions": optional(_TEXT),
    "stream": flag,
    "free_text": flag,
    "shell": flag,
    "others": each(_other),
    "chain": flag,
    "previous_response_id": optional(_TEXT),
    "policy": optional(check_policy),
    "on_event": optional(_plain_function),
    "on_fault": optional(_function),
    "max_turns": whole(1, _MANY, "turns"),
    "max_total_tokens": optional(whole(1, _MANY, "tokens")),
    "time_limit_s": optional(number(0.001, _YEAR_S, "seconds")),
}
_OURS = {
    "messages": "pass the conversation as history",
    "input": "pass the conversation as history",
    "n": "a loop follows one answer; leave it out",
    "background": "a loop waits for its answers; leave it out",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The arguments of `run_loop` but the client, the tools and the history."""

    model: str
    api: Api
    instructions: str | None
    stream: bool
    free_text: bool
    shell: bool
    others: Sequence[Other]
    chain: bool
    previous_response_id: str | None
    max_turns: int
    max_total_tokens: int | None
    time_limit_s: float | None
    policy: FaultPolicy | None
    on_event: OnEvent | None
    on_fault: Callable[..., Any] | None
    conversation: object
    request: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            check(name, getattr(self, name))
        for name in self.request.keys() & _OURS.keys():
            raise refusal(name, self.request[name], "is the loop's own", _OURS[name])
        for name in ("shell", "chain", "previous_response_id"):
            if self.api == "chat" and getattr(self, name):
                why = "is for Responses alone"
                raise refusal(name, getattr(self, name), why, "use api='responses'")
        if self.is_chained and self.request.get("store") is False:
            why = "keeps the server from keeping the conversation"
            raise refusal("store", False, why, "leave out store, or chain")

    @property
    def is_chained(self) -> bool:
        """The server keeps the conversation."""
        return self.chain or self.previous_response_id is not None

    def steps(self, tools: OpenAITools, history: str | list[Any]) -> Steps:
        """Make the loop."""
        _refuse_mistaken(tools, history)
        watch = None if self.policy is None else self.policy.start()
        others = [other_tool(other) for other in self.others]
        offered = Offered(
            tools.tools, tools.shell_tool, others, self.conversation, watch
        )
        said = {"role": "user", "content": history}
        return Steps(
            surface=self._surface(tools, others),
            offered=offered,
            history=[said] if isinstance(history, str) else history,
            limits=Limits(
                max_turns=self.max_turns,
                max_total_tokens=self.max_total_tokens,
                time_limit_s=self.time_limit_s,
            ),
            tell=Teller(self.on_event),
            images=tools.images,
            streams=self.stream,
            hears_faults=self.on_fault is not None,
            last_id=self.previous_response_id,
        )

    def _surface(self, tools: OpenAITools, others: Sequence[OtherTool]) -> Surface:
        given: dict[str, Any] = {"model": self.model, **self.request}
        offered = self._definitions(tools, others)
        if offered:  # An empty list is refused.
            given["tools"] = offered
        if self.api == "chat":
            return Chat(given, self.instructions, self.stream)
        return Responses(given, self.instructions, self.stream, self.is_chained)

    def _definitions(
        self, tools: OpenAITools, others: Sequence[OtherTool]
    ) -> list[dict[str, Any]]:
        if self.api == "chat":
            ours = tools.chat_custom if self.free_text else tools.chat
            return [*ours, *(for_chat(other.definition) for other in others)]
        ours = tools.custom if self.free_text else tools.responses
        shell = tools.shell if self.shell else []
        theirs = (for_responses(other.definition) for other in others)
        return [*ours, *shell, *theirs]


def _refuse_mistaken(tools: object, history: object) -> None:
    if not isinstance(tools, OpenAITools):
        raise refusal("tools", tools, "is no OpenAITools", "give as_tools(sandbox)")
    if isinstance(history, str):
        return
    remedy = "give what the user says, or a list of messages or items"
    if not isinstance(history, list):
        raise refusal("history", history, "is neither text nor a list", remedy)
    for number_of, item in enumerate(cast("list[object]", history)):
        if not isinstance(item, Mapping) and not hasattr(item, "to_dict"):
            why = "is neither a dict nor an object of the SDK"
            raise refusal(f"history[{number_of}]", item, why, remedy)


def refuse_client(client: object, api: Api, kind: str, remedy: str) -> None:
    """Refuse what is no client, and that of the other function, by its class's name.

    Args:
        client: What was given.
        api: The way of the API that is wanted of it.
        kind: The name of the other function's client.
        remedy: The name of the other function.

    Raises:
        ConfigError: It cannot be used.
    """
    if any(base.__name__ == kind for base in inspect.getmro(type(client))):
        why = f"goes with {remedy}"
        raise refusal("client", client, why, f"call {remedy}")
    if not hasattr(client, api):
        why = f"has no `{api}`"
        raise refusal("client", client, why, "give a client of the OpenAI SDK")


def refuse_async(others: Sequence[Other]) -> None:
    """Refuse functions that only an event loop can run.

    Raises:
        ConfigError: One of the tools is async.
    """
    for other in map(other_tool, others):
        if other.is_async:
            raise async_refused(str(other.name))
