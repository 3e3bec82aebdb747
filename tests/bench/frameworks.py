"""What an adapter adds to a tool call of its framework.

    adapter = (ours through the framework) - (`Tool.call`) - (a no-op tool through it)

What the framework does for any tool is in the first and the third, what the core does
for any framework is in the first and the second: what stays is translation. A box takes
a hundred times as long as that and would drown it, so the tool here is `run_code` whose
reply was made beforehand, by a real run: reading the arguments is real, and so is
all that becomes of the reply. Where the framework's own validation, which an adapter
steps around, costs more than the translation, the difference is negative.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from langchain_core.tools import StructuredTool
from llama_index.core.tools import FunctionTool

from kern_tools import Sandbox
from kern_tools.adapters.langchain import KernTool
from kern_tools.adapters.llama_index import KernFunctionTool
from kern_tools.adapters.openai import OpenAITools
from kern_tools.reply import Reply
from kern_tools.shell_tool import SHELL
from kern_tools.tools import TOOLS, Tool, tools_of

from .harness import Contestant, Figure, Round, Workload

ARGUMENTS = {"code": "print(1)", "language": "python", "timeout_s": 5.0}
_WRITTEN = json.dumps(ARGUMENTS)
_ID = "call_1"
_LANGCHAIN: Any = {
    "type": "tool_call",
    "id": _ID,
    "name": "run_code",
    "args": ARGUMENTS,
}
_OPENAI: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": _ID,
            "type": "function",
            "function": {"name": "run_code", "arguments": _WRITTEN},
        }
    ],
}


def no_op(
    code: str, language: str | None = None, timeout_s: float | None = None
) -> str:
    """Do nothing with the arguments of `run_code`."""
    return "ok"


def prepared(sandbox: Sandbox) -> Tool:
    """Make a `run_code` that answers every call with the reply of one real run."""
    (real,) = tools_of(sandbox, "run_code")
    reply = real.call(ARGUMENTS)
    assert reply.result is not None
    assert reply.result.stdout == "1\n", reply.text

    def run(
        sandbox: Sandbox, arguments: object, call_id: str | None, on_output: object
    ) -> Reply:
        return replace(reply, call_id=call_id)

    return Tool(replace(TOOLS["run_code"], run=run), sandbox)


def answer_by_hand(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Answer a Chat message as one does without an adapter."""
    return [
        {
            "role": "tool",
            "tool_call_id": call["id"],
            "content": no_op(**json.loads(call["function"]["arguments"])),
        }
        for call in message["tool_calls"]
    ]


@contextmanager
def adapters() -> Generator[Workload]:
    """Compare tools of ours with no-op tools, framework by framework."""
    with Sandbox(prewarm=0) as sandbox:
        tool = prepared(sandbox)
        contestants = {
            "core, dict": lambda: tool.call(ARGUMENTS, call_id=_ID),
            "core, JSON": lambda: tool.call(_WRITTEN, call_id=_ID),
            **_langchain(tool),
            **_llama_index(tool),
            **_openai(tool),
        }
        yield Workload(
            name="adapters",
            about="A call of our tool through the framework, less the same call of the"
            " core, less a no-op tool through the framework; one call at a time, 2 ms"
            " apart.",
            contestants=[Contestant(n, once(run)) for n, run in contestants.items()],
            figures=[
                cost("LangChain", "core, dict"),
                cost("LlamaIndex", "core, dict"),
                cost("OpenAI", "core, JSON"),
            ],
            rounds=250,
            pace_s=0.002,
        )


def once(run: Callable[[], object]) -> Callable[[], None]:
    """Make a contestant of what gives something."""

    def run_once() -> None:
        run()

    return run_once


def cost(framework: str, core: str, bar_ms: float = 0.15) -> Figure:
    """Give what an adapter adds, by the contestants that are named for it."""

    def cost_ms(r: Round) -> float:
        ours, no_op_s = r[f"{framework}, ours"].wall_s, r[f"{framework}, no-op"].wall_s
        return (ours - r[core].wall_s - no_op_s) * 1000

    name = f"{framework} adapter, over a no-op tool"
    return Figure(name, cost_ms, bar_ms, "ms", goal=0.1 if bar_ms < 1 else None)


def _langchain(tool: Tool) -> dict[str, Callable[[], object]]:
    ours = KernTool(tool, strict=True, images=True)
    other = StructuredTool.from_function(no_op)
    return {
        "LangChain, no-op": lambda: other.invoke(_LANGCHAIN),
        "LangChain, ours": lambda: ours.invoke(_LANGCHAIN),
    }


def _llama_index(tool: Tool) -> dict[str, Callable[[], object]]:
    ours = KernFunctionTool(tool, strict=True, images=True)
    other = FunctionTool.from_defaults(no_op)
    return {
        "LlamaIndex, no-op": lambda: other.call(**ARGUMENTS),
        "LlamaIndex, ours": lambda: ours.call(**ARGUMENTS),
    }


def _openai(tool: Tool) -> dict[str, Callable[[], object]]:
    shell = Tool(SHELL, tool.source)
    ours = OpenAITools((tool,), strict=True, images=True, shell_tool=shell)
    return {
        "OpenAI, no-op": lambda: answer_by_hand(_OPENAI),
        "OpenAI, ours": lambda: ours.answer(_OPENAI),
    }
