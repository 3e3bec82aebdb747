"""The tools of a sandbox for plain OpenAI calls: Chat Completions and Responses.

Requests and answers are dicts, and what the SDK returned is read by its attributes:
the SDK is not imported, so that any version of it will do, and a plain server too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kern_tools.adapters.openai.offered import Offered, call_of, wire_answer
from kern_tools.events import OnOutput
from kern_tools.once import once
from kern_tools.options import flag
from kern_tools.reply import Reply
from kern_tools.sandbox import Sandbox
from kern_tools.shell_tool import SHELL
from kern_tools.source import Pool, Source
from kern_tools.tools import Tool, tools_of
from kern_tools.turn import Call, arun_turn, run_turn
from kern_tools.wire import (
    LOCAL_SHELL,
    WireCall,
    calls_in,
    chat_free_text_tool,
    chat_function,
    free_text_tool,
    items_for,
    response_function,
)

__all__ = ["Answers", "OpenAITools", "as_tools"]


def as_tools(
    sandbox: Sandbox | Pool,
    tools: str | Sequence[str] = ("code", "files"),
    *,
    strict: bool = True,
    images: Literal["parts", "none"] = "parts",
    tenant: Callable[[Any], Any] | None = None,
    idempotent: bool = False,
) -> OpenAITools:
    """Offer tools of `sandbox` to a model behind the OpenAI API.

    Args:
        sandbox: Where the calls run; open for as long as calls are answered. Of a
            pool, each `conversation` given to `answer` has a sandbox of its own.
        tools: Names of sets or of single tools.
        strict: Ask for strict mode; False for servers that do not have it.
        images: `parts` sends images to the model, `none` leaves them out.
        tenant: With a pool, given the conversation, tells whose it is.
        idempotent: A call that is made again under its id, as by a program that
            resumes, is given its first reply and does not run again. Remembered are the
            last 256 calls of each open sandbox, in this process.

    Returns:
        The lists to pass as `tools=`, and `answer` for what comes back.
    """
    source = Source(
        sandbox, tenant=tenant, key="conversation=... of answer() or run_loop()"
    )
    offered = tools_of(source, tools, idempotent=idempotent, images=images)
    flag("strict", strict)
    shell = Tool(once(SHELL) if idempotent else SHELL, source)
    return OpenAITools(tuple(offered), strict, images == "parts", shell)


@dataclass(frozen=True, slots=True)
class Answers:
    """What to append to the history, and what the calls came to.

    Iterating gives one `Reply` for each call that was ours, in the order of the calls.

    Attributes:
        items: In Chat the tool messages, then one user message with the images, if
            any; in Responses the output items.
        replies: What iterating gives.
        unanswered: The calls that are not ours or have no id, as they came.
    """

    items: list[Any]
    replies: tuple[Reply, ...]
    unanswered: list[Any]

    def __iter__(self) -> Iterator[Reply]:
        return iter(self.replies)

    def __len__(self) -> int:
        return len(self.replies)


@dataclass(frozen=True, slots=True)
class OpenAITools:
    """Tool definitions for each way of the API, and the answers to what comes back."""

    tools: tuple[Tool, ...]
    strict: bool
    images: bool
    shell_tool: Tool
    _offered: Offered = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_offered", Offered(self.tools, self.shell_tool))

    @property
    def chat(self) -> list[Any]:
        """For `chat.completions.create(tools=...)`."""
        return [chat_function(tool, strict=self.strict) for tool in self.tools]

    @property
    def responses(self) -> list[Any]:
        """For `responses.create(tools=...)`."""
        return [response_function(tool, strict=self.strict) for tool in self.tools]

    @property
    def custom(self) -> list[Any]:
        """For `responses.create(tools=...)`: `run_code` takes its code as free text."""
        return [
            free_text_tool(tool) if tool.name == "run_code" else function
            for tool, function in zip(self.tools, self.responses, strict=True)
        ]

    @property
    def chat_custom(self) -> list[Any]:
        """The same for `chat.completions.create(tools=...)`."""
        return [
            chat_free_text_tool(tool) if tool.name == "run_code" else function
            for tool, function in zip(self.tools, self.chat, strict=True)
        ]

    @property
    def shell(self) -> list[Any]:
        """For `responses.create(tools=...)`: the API's own shell tool, and no other."""
        return [dict(LOCAL_SHELL)]

    def answer(
        self,
        turn: object,
        *,
        conversation: object = None,
        on_output: OnOutput | None = None,
    ) -> Answers:
        """Run the calls of one turn side by side and wait for all.

        Args:
            turn: A chat completion or its message, a response, or a list of calls;
                objects of the SDK or dicts.
            conversation: Its id, by which a pool finds its sandbox.
            on_output: Given an `OutputEvent` for each piece that code writes, while it
                runs, on a thread of ours; its `call_id` says which call wrote it.

        Returns:
            The answers; none where the model made no call.

        Raises:
            TypeError: `turn` is something else, such as a stream not read yet.
            SandboxError: The sandbox is not open.
        """
        ours, unanswered = self._sorted(turn, conversation, on_output)
        replies = run_turn([call for _, call in ours])
        return self._answers(ours, replies, unanswered)

    async def aanswer(
        self,
        turn: object,
        *,
        conversation: object = None,
        on_output: OnOutput | None = None,
    ) -> Answers:
        """Run the calls as `answer` does; cancelling ends their boxes."""
        ours, unanswered = self._sorted(turn, conversation, on_output)
        replies = await arun_turn([call for _, call in ours])
        return self._answers(ours, replies, unanswered)

    def _sorted(
        self, turn: object, conversation: object, on_output: OnOutput | None
    ) -> tuple[list[tuple[WireCall, Call]], list[Any]]:
        ours: list[tuple[WireCall, Call]] = []
        unanswered: list[Any] = []
        seen: list[tuple[Any, ...]] = []
        for wire in calls_in(turn):
            tool = self._offered.tool(wire)
            if not isinstance(tool, Tool) or wire.call_id is None:
                unanswered.append(wire.raw)
                continue
            # A call sent twice under one id runs once; another call under it runs.
            sent = (wire.call_id, wire.name, wire.written)
            if wire.call_id and sent in seen:
                continue
            seen.append(sent)
            call = call_of(wire, tool, conversation=conversation, on_output=on_output)
            ours.append((wire, call))
        return ours, unanswered

    def _answers(
        self,
        ours: list[tuple[WireCall, Call]],
        replies: list[Reply],
        unanswered: list[Any],
    ) -> Answers:
        pairs = zip(ours, replies, strict=True)
        answered = [
            wire_answer(wire, reply, images=self.images) for (wire, _), reply in pairs
        ]
        return Answers(items_for(answered), tuple(replies), unanswered)
