"""Arguments: what a model wrote is run as it meant it, or answered; nothing raises."""

# The framework leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain import agents
from langchain_core.messages import AIMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from kern_tools import Sandbox
from kern_tools.adapters import langchain, openai
from kern_tools.scripted import ScriptedCall, Step
from kern_tools.testing import Adapter
from tests.adapters.loops import APIS, loop, serving
from tests.depth import crossed

from .reading import ran

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

FENCE = "```"
WRAPPED = {
    "backticks": (f"{FENCE}python\nprint('{FENCE}')\n{FENCE}", f"{FENCE}\n"),
    "tildes": (f"~~~py\nprint('{FENCE}')\n~~~", f"{FENCE}\n"),
    "prose around it": (f"Here it is:\n\n{FENCE}\nprint(7)\n{FENCE}\nDone.", "7\n"),
    "a fence inside": (
        f"{FENCE}py\ntext = '''\n{FENCE}sh\nls\n{FENCE}\n'''\nprint(text)\n{FENCE}",
        f"\n{FENCE}sh\nls\n{FENCE}\n\n",
    ),
}
UNWRAPPED = {
    "a name like the language": ("python = 3\nprint(python)", "3\n"),
    "a name like another language": ("bash = sh = 1\nprint(bash + sh)", "2\n"),
    "backticks in a string": (f"print('{FENCE}py', '`x`')", f"{FENCE}py `x`\n"),
    "backticks at the end": (f"print(1)  # {FENCE}", "1\n"),
    "a fence in a string": (
        f"print('''\n{FENCE}python\nx\n{FENCE}''')",
        f"\n{FENCE}python\nx\n{FENCE}\n",
    ),
    "backticks around a tail": ("print(1)\n# `x`", "1\n"),
}
ESCAPES = {
    "kept": ("s = 'a\\nb'; print(len(s))", "3\n", False),
    "kept, doubled": ("s = 'a\\\\nb'; print(len(s))", "4\n", False),
    "undone": ("import math\\nprint(math.floor(math.pi))", "3\n", True),
}


@pytest.mark.bug("fenced code")
@pytest.mark.parametrize(("code", "stdout"), WRAPPED.values(), ids=WRAPPED)
def test_the_fence_around_code_is_taken_off(
    adapter: Adapter, code: str, stdout: str
) -> None:
    """The outer one alone, which the reply says; those inside are the code's.

    Source: https://github.com/langchain-ai/langchain/issues/2273
    Source: https://github.com/langchain-ai/langchain/issues/3215
    """
    outcome = adapter.call("run_code", {"code": code})
    assert ran(outcome).stdout == stdout
    assert outcome.text.splitlines()[1].startswith("note:")


@pytest.mark.bug("stripped words")
@pytest.mark.parametrize(("code", "stdout"), UNWRAPPED.values(), ids=UNWRAPPED)
def test_code_without_a_fence_is_left_alone(
    adapter: Adapter, code: str, stdout: str
) -> None:
    """No word and no backtick of it is taken for wrapping.

    Source: https://github.com/langchain-ai/langchain/issues/20930
    """
    outcome = adapter.call("run_code", {"code": code})
    assert ran(outcome).stdout == stdout
    assert "note:" not in outcome.text


@pytest.mark.bug("newline escapes")
@pytest.mark.parametrize(("code", "stdout", "is_noted"), ESCAPES.values(), ids=ESCAPES)
def test_line_breaks_are_decoded_once(
    adapter: Adapter, code: str, stdout: str, is_noted: bool
) -> None:
    """An escape too many is undone where the code cannot run as it is, and told.

    Source: https://github.com/langchain-ai/langchain-sandbox/issues/60
    """
    outcome = adapter.call("run_code", {"code": code})
    assert ran(outcome).stdout == stdout
    assert ("note:" in outcome.text) == is_noted


# arguments that are no JSON

RAW_LINE_BREAK = '{"code": "a = 1\nprint(a)"}'
UNREADABLE = {"bare code": "print(1)", "cut off": '{"code": "print(1)', "list": "[1]"}


@pytest.mark.bug("arguments that are no JSON")
@pytest.mark.parametrize("api", APIS)
def test_raw_line_breaks_in_json_are_read(sandbox: Sandbox, api: str) -> None:
    """As most models write them who forget to escape; `python` is `run_code` too.

    Source: https://github.com/567-labs/instructor/issues/32
    Source: https://github.com/FoundationAgents/MetaGPT/issues/851
    """
    with serving(ScriptedCall("python", RAW_LINE_BREAK), "done") as server:
        result = loop("sync", server, openai.as_tools(sandbox), api=api)
    (reply,) = result.replies
    assert reply.result is not None
    assert (reply.result.stdout, result.text) == ("1\n", "done")


@pytest.mark.bug("arguments that are no JSON")
@pytest.mark.parametrize("written", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("api", APIS)
def test_arguments_that_cannot_be_read_are_answered(
    sandbox: Sandbox, api: str, written: str
) -> None:
    """The model is told what to send, and the loop goes on.

    Source: https://github.com/langchain-ai/langchain/issues/9130
    """
    with serving(ScriptedCall("run_code", written), "done") as server:
        result = loop("sync", server, openai.as_tools(sandbox), api=api)
    assert [reply.error for reply in result.replies] == ["bad_arguments"]
    assert result.text == "done"


def langchain_agent(sandbox: Sandbox, url: str) -> Any:
    """Build an agent whose model is behind the real client."""
    key = SecretStr("none")
    llm = ChatOpenAI(base_url=url, api_key=key, model="scripted")
    middleware: Any = [langchain.CallRepair()]
    return agents.create_agent(llm, langchain.as_tools(sandbox), middleware=middleware)


@pytest.mark.bug("arguments that are no JSON")
@pytest.mark.parametrize("way", ["sync", "async"])
async def test_a_langchain_agent_answers_what_it_cannot_read(
    sandbox: Sandbox, way: str
) -> None:
    """Without `CallRepair` it would end there, with an empty answer.

    Source: https://github.com/langchain-ai/langchain/issues/9130
    """
    script: list[Step] = [
        ScriptedCall("run_code", UNREADABLE["bare code"]),
        ScriptedCall("run_code", '{"code": "print(1)",}'),
        [ScriptedCall("python", {"code": "print(2)"}), ScriptedCall("other", "x")],
        "done",
    ]
    go: Any = {"messages": [("user", "go")]}
    with serving(*script) as server:
        agent = langchain_agent(sandbox, server.url)
        state = agent.invoke(go) if way == "sync" else await agent.ainvoke(go)
    messages = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    answers = [message for message in messages if message.name != "other"]
    results = [langchain.result_of(answer) for answer in answers]
    assert [answer.status for answer in answers] == ["error", "success", "success"]
    assert answers[0].artifact["error"] == "bad_arguments"
    assert [r.stdout for r in results if r is not None] == ["1\n", "2\n"]
    assert state["messages"][-1].content == "done"
    (aside,) = [
        call
        for m in state["messages"]
        if isinstance(m, AIMessage)
        for call in m.invalid_tool_calls
    ]
    assert aside["name"] == "other"


# names and bytes


@pytest.mark.bug("NUL and line ends")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_file", {"path": "a\0b", "content": "x"}),
        ("read_file", {"path": "a\0b"}),
        ("list_files", {"path": "a\0b"}),
        ("edit_file", {"path": "a\0b", "old": "x", "new": "y"}),
        ("search_files", {"pattern": "x", "path": "a\0b"}),
        ("find_files", {"glob": "a\0b"}),
        ("run_code", {"code": "print('a')\0"}),
        ("run_code", {"code": "echo a\0", "language": "sh"}),
        ("run_command", {"command": "echo a\0"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_nul_is_answered(
    adapter: Adapter, tool: str, arguments: dict[str, str]
) -> None:
    """No name and no script can have one; nothing was run or changed.

    Source: https://github.com/UKGovernmentBEIS/inspect_ai/issues/4659
    """
    outcome = adapter.call(tool, arguments)
    assert (outcome.artifact.get("error"), outcome.is_error) == ("bad_arguments", True)
    assert "NUL" in outcome.text


@pytest.mark.bug("NUL and line ends")
def test_line_ends_and_odd_bytes_of_a_file_are_kept(
    adapter: Adapter, sandbox: Sandbox
) -> None:
    """Written as they are, and left by an edit of another line.

    Source: https://github.com/langchain-ai/deepagents/issues/2899
    """
    content = "a\r\nb\r\n\0\tc\r"
    adapter.call("write_file", {"path": "dos.txt", "content": content})
    assert sandbox.read_file("dos.txt") == content.encode()
    adapter.call("edit_file", {"path": "dos.txt", "old": "b", "new": "B"})
    assert sandbox.read_file("dos.txt") == content.replace("b", "B").encode()


@pytest.mark.bug("newline escapes")
def test_arguments_arrive_byte_for_byte_through_json(adapter: Adapter) -> None:
    """Backslashes, quotes, tabs and letters of any script, in each framework's JSON.

    Source: https://github.com/langchain-ai/langchain-sandbox/issues/60
    """
    text = "\\n \\\\ \" ' \t é 漢 😀 \\u0041"
    outcome = adapter.call("run_code", {"code": f"print({text!r}, end='')"})
    assert json.dumps(ran(outcome).stdout) == json.dumps(text)
