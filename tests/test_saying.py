"""Replies keep within their budget with all that is put above them, and are true."""

# What a search makes of a timeout is no part of its contract, and hard to bring about.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kern_tools import FaultPolicy, Sandbox, search_tools
from kern_tools.config import Budget
from kern_tools.ledger import AGAIN_MAX_CHARS, Again, Ledger, Outcome
from kern_tools.result import ExecutionResult
from kern_tools.search import Search
from kern_tools.shell_tool import SHELL
from kern_tools.tools import Tool, tools_of
from kern_tools.turn import Call
from kern_tools.wire import free_text_tool

ROOM = 1_000
POLICY = FaultPolicy(retry_pause_s=0)
LONG = "for n in range(400): print('line', n)\n1/0"
SLOW = "import time; time.sleep(60)"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """Replies of a thousand characters, and more time for who asks for it."""
    budget = Budget(text_chars=ROOM)
    with Sandbox(
        timeout_s=1, timeout_max_s=20, prewarm=0, budget=budget, image="host"
    ) as sandbox:
        sandbox.write_file("long.txt", "some words of a line\n" * 500)
        sandbox.write_file("slow.txt", "a" * 64 + "!\n")
        yield sandbox


def tool(sandbox: Sandbox, name: str, **options: Any) -> Tool:
    """Pick one tool."""
    (found,) = tools_of(sandbox, name, **options)
    return found


# room

REPAIRED: dict[str, tuple[str, object]] = {
    "code": ("run_code", {"script": f"```python\n{LONG}\n```", "timeout": "99"}),
    "command": ("run_command", {"cmd": "seq 2000; exit 3", "timeout": "99"}),
    "file": ("read_file", {"file": "long.txt", "start": "1"}),
    "search": ("search_files", {"regex": "words"}),
    "edit": ("edit_file", {"file": "long.txt", "search": "line", "replace": "x"}),
}


@pytest.mark.parametrize(("name", "arguments"), REPAIRED.values(), ids=REPAIRED)
async def test_notes_have_room_in_the_budget(
    sandbox: Sandbox, name: str, arguments: object
) -> None:
    """What was repaired is said, and what the tool says is shorter by that."""
    one = tool(sandbox, name)
    for reply in (one.call(arguments), await one.acall(arguments)):
        assert reply.text.count("\nnote: ") >= 1
        assert len(reply.text) <= ROOM


async def test_a_call_that_failed_again_keeps_within_the_budget(
    sandbox: Sandbox,
) -> None:
    """The line above its verdict, the notes and the output together."""
    arguments = {"script": LONG, "timeout": "99"}
    one = tool(sandbox, "run_code")
    watch = POLICY.start()
    replies = [watch.call(one, arguments), await watch.acall(one, arguments)]
    assert "again: this is the same call" in replies[1].text
    assert all(len(reply.text) <= ROOM for reply in replies)
    assert replies[1].text.rstrip().endswith("```")


def test_a_reply_with_room_is_not_cut(sandbox: Sandbox) -> None:
    """Notes cost nothing where all of it fits."""
    reply = tool(sandbox, "run_code").call({"script": "print('x' * 500)"})
    assert "x" * 500 in reply.text


def test_the_line_above_is_as_long_as_is_reckoned_with() -> None:
    """With the longest verdicts that there are, and many repeats."""
    ledger = Ledger(FaultPolicy(max_repeats=None))
    ends: list[dict[str, Any]] = [
        {"fault": {"type": "startup_failed", "message": "", "reason": "host"}},
        {"fault": {"type": "workspace_full", "message": ""}},
        {"fault": {"type": "escape_blocked", "message": ""}},
        {"exit_code": -2_147_483_648},
    ]
    said: list[Again] = []
    for end in ends * 3:
        result = ExecutionResult.model_validate({"exit_code": 1, **end})
        outcome = Outcome("run_code", "key", result, None)
        again = ledger.enter(outcome, ledger.known("key"))
        said += [] if again is None else [again]
    longest = max(len(again.line) for again in said)
    assert 100 < longest <= AGAIN_MAX_CHARS - len(" (999,999 times in a row)")


# what may be advised


async def test_a_call_that_may_ask_for_time_is_told_so(sandbox: Sandbox) -> None:
    """Under the name that the argument has."""
    reply = tool(sandbox, "run_code").call({"code": SLOW})
    assert "raise `timeout_s`, up to 20 s" in reply.text


async def test_free_text_is_told_of_no_other_argument(sandbox: Sandbox) -> None:
    """There is nothing beside the code."""
    one = tool(sandbox, "run_code")
    call = Call(one, {"code": SLOW}, "a", takes_limit=False)
    for reply in (call.run(), await call.arun()):
        assert reply.fault_type == "timeout"
        assert "timeout_s" not in reply.text
    assert "timeout_s" in one.description
    assert "timeout_s" not in free_text_tool(one)["description"]


async def test_commands_of_the_shell_tool_are_told_of_no_other_argument(
    sandbox: Sandbox,
) -> None:
    """Its limit is of the whole call, and in milliseconds."""
    shell = Tool(SHELL, sandbox)
    action = {"commands": ["sleep 60"]}
    for reply in (shell.call(action), await shell.acall(action)):
        assert reply.fault_type == "timeout"
        assert "timeout_s" not in reply.text


def test_a_search_is_told_of_no_other_argument(sandbox: Sandbox) -> None:
    """It takes no limit: where its box meets the sandbox's, the words name none."""
    search = Search.of(sandbox.config, "a", "")
    slow = sandbox.run(["sleep", "60"])
    reply = search_tools._searched(sandbox, search, "sh", slow, None)
    assert reply.fault_type == "timeout"
    assert "timeout_s" not in reply.text


# what a schema offers


def test_a_schema_offers_what_can_run(sandbox: Sandbox) -> None:
    """An image of the host's Python has no Node."""
    one = tool(sandbox, "run_code")
    there = list(sandbox.describe().languages)
    for strict, null in ((True, [None]), (False, [])):
        language = one.schema(strict=strict)["properties"]["language"]
        assert language["enum"] == [*there, *null]


# images


def test_without_images_none_is_promised(sandbox: Sandbox) -> None:
    """In no description and no prompt; a reply says that the model is not shown it."""
    with Sandbox(packages=["matplotlib"], prewarm=0) as charts:
        shown, unseen = (tool(charts, "run_code", images=i) for i in ("parts", "none"))
        assert "image" in shown.description
        assert "image" not in unseen.description
        assert "comes back as an image" in charts.system_prompt()
        told = charts.system_prompt(images="none")
        assert "comes back as an image" not in told
        assert "Images are not passed on" in told
        png = charts.run_code(_PNG)
        assert png.success
        reply = tool(charts, "read_file", images="none").call({"path": "a.png"})
        assert "note: images are not passed on to you" in reply.text
        reply = tool(charts, "read_file").call({"path": "a.png"})
        assert "note: " not in reply.text


_PNG = """
import base64
open('a.png', 'wb').write(base64.b64decode(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAA'
    'AABJRU5ErkJggg=='))
"""
