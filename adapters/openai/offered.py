"""The tools that a loop offers, found by the names that a model writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kern_tools.events import OnOutput
from kern_tools.faults import ConfigError
from kern_tools.loop_calls import LoopCall
from kern_tools.other_tools import OtherCall, OtherTool
from kern_tools.reply import Reply
from kern_tools.reply_text import text_reply
from kern_tools.shell_output import shell_contents
from kern_tools.tools import TOOL_ALIASES, Tool, unknown_tool_reply
from kern_tools.turn import Call
from kern_tools.watch import FaultWatch
from kern_tools.wire import WireAnswer, WireCall

_FILTERED = "not run: the content filter of the server stopped this turn."


@dataclass(frozen=True, slots=True)
class Offered:
    """Every tool of a loop.

    Attributes:
        tools: Those of the sandbox.
        shell: What answers a `shell_call`.
        others: Those of the caller.
        conversation: Whose calls they are, for a pool.
        watch: What the calls are made by, or None.
    """

    tools: Sequence[Tool]
    shell: Tool
    others: Sequence[OtherTool] = ()
    conversation: object = None
    watch: FaultWatch | None = None
    _ours: dict[str, Tool] = field(init=False, default_factory=dict[str, Tool])
    _theirs: dict[str, OtherTool] = field(
        init=False, default_factory=dict[str, OtherTool]
    )

    def __post_init__(self) -> None:
        self._ours.update({tool.name: tool for tool in self.tools})
        for tool in self.others:
            if tool.name is None:
                continue
            if tool.name in self._ours or tool.name in self._theirs:
                raise ConfigError(
                    f"others: there is a tool {tool.name!r} already; give this one"
                    " another name, or offer fewer of the sandbox's tools",
                    option="others",
                )
            self._theirs[tool.name] = tool

    def answering(self, call: WireCall, *, is_whole: bool) -> LoopCall | None:
        """Find what answers a call, or None where that is the caller's to do.

        Args:
            call: The call; it has an id.
            is_whole: The turn it was made in is valid.
        """
        name, call_id = str(call.name or ""), str(call.call_id)
        if not is_whole:
            filtered = text_reply(name, _FILTERED, call_id, error="stopped")
            return LoopCall(call_id, name, call.written, filtered)
        answer = self._answer(call, name, call_id)
        if answer is None:
            return None
        return LoopCall(call_id, name, call.written, answer)

    def _answer(
        self, call: WireCall, name: str, call_id: str
    ) -> Call | OtherCall | Reply | None:
        tool = self.tool(call)
        if isinstance(tool, Tool):
            return call_of(call, tool, conversation=self.conversation, watch=self.watch)
        if tool is None:
            known = [*self._ours, *self._theirs]
            return unknown_tool_reply(name, known, call_id=call_id)
        if tool.function is None:
            return None
        return OtherCall(tool, call.written, call_id)

    def tool(self, call: WireCall) -> Tool | OtherTool | None:
        """Find the tool that a call means; None where there is none."""
        if call.is_shell:
            return self.shell
        name = str(call.name or "")
        exact = self._ours.get(name) or self._theirs.get(name)
        return exact or self._ours.get(TOOL_ALIASES.get(name, ""))


def call_of(
    call: WireCall,
    tool: Tool,
    *,
    conversation: object = None,
    on_output: OnOutput | None = None,
    watch: FaultWatch | None = None,
) -> Call:
    """Make the call of a tool that a model wrote.

    Args:
        call: As it was written.
        tool: The tool it means.
        conversation: Whose call it is, for a pool.
        on_output: Who listens to it.
        watch: What it is made by.
    """
    field_of_code = tool.spec.code_field
    written = call.written
    is_code = call.is_free_text and field_of_code is not None
    if is_code and not isinstance(written, Mapping):
        written = {field_of_code: written}
    is_cut = call.is_cut and (is_code or call.is_shell)
    return Call(
        tool,
        written,
        call.call_id,
        is_cut=is_cut,
        takes_limit=not is_code,
        on_output=on_output,
        conversation=conversation,
        watch=watch,
    )


def wire_answer(call: WireCall, reply: Reply, *, images: bool) -> WireAnswer:
    """Make the answer that goes back for a call.

    Args:
        call: The call.
        reply: What came of it.
        images: Send its images.
    """
    contents = shell_contents(reply) if call.is_shell else ()
    return WireAnswer(call, reply.text, reply.images if images else (), contents)
