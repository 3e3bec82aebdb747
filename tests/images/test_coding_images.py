"""The coding tools in images that have neither bash nor Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kern_tools import Sandbox
from kern_tools.reply import Reply
from kern_tools.tools import tools_of

from .layers import busybox_layer
from .registry import Registry

APPLETS = ["sh", "echo", "cat", "find", "grep", "head", "tr", "wc", "sed", "awk"]


@pytest.fixture(scope="module")
def image(registry: Registry) -> str:
    """Push an image with a shell and what searches need."""
    registry.push("coding", busybox_layer(APPLETS))
    return f"{registry.host}/coding:1"


@pytest.fixture
def sandbox(image: str) -> Iterator[Sandbox]:
    """Give a sandbox on that image."""
    with Sandbox(image=image, timeout_s=10) as sandbox:
        yield sandbox


def call(sandbox: Sandbox, name: str, **arguments: object) -> Reply:
    """Call one tool."""
    (tool,) = tools_of(sandbox, name)
    return tool.call(arguments)


def test_a_command_runs_by_sh_where_there_is_no_bash(sandbox: Sandbox) -> None:
    """The first call finds out, the second one knows."""
    for _ in range(2):
        reply = call(sandbox, "run_command", command="echo $((6 * 7)); exit 3")
        assert reply.text.startswith("exit 3\n")
        assert reply.result is not None
        assert reply.result.stdout == "42\n"
    (tool,) = tools_of(sandbox, "run_command")
    assert ", by sh, " in tool.description


async def test_an_async_command_runs_by_sh_where_there_is_no_bash(
    registry: Registry,
) -> None:
    """The first call finds out there too, of an image that nobody used before."""
    registry.push("coding-async", busybox_layer(APPLETS))
    image = f"{registry.host}/coding-async:1"
    with Sandbox(image=image, timeout_s=10, prewarm=0) as sandbox:
        (tool,) = tools_of(sandbox, "run_command")
        for _ in range(2):
            reply = await tool.acall({"command": "echo $((6 * 7)); exit 3"})
            assert reply.text.startswith("exit 3\n")
            assert reply.result is not None
            assert reply.result.stdout == "42\n"


def test_a_search_needs_no_python(sandbox: Sandbox) -> None:
    """The reply has the same form, bounds and totals, also the second time."""
    sandbox.write_file("a/x.txt", "needle 1\nno\nneedle 2\n")
    sandbox.write_file("b c.txt", "needle:3\n" * 300)
    sandbox.write_file("bin", b"needle\0\n")
    sandbox.write_file(".git/config", "needle\n")
    sandbox.workspace.spill("c1", "needle\n")
    for _ in range(2):
        reply = call(sandbox, "search_files", pattern="ne+dle")
        head = "ok, 302 lines in 2 files match, the first 200 by path\n"
        assert reply.text.startswith(f"{head}note: 1 binary file passed over.\n")
        assert "b c.txt:1: needle:3\n" in reply.text
    part = call(sandbox, "search_files", pattern="needle", path="a")
    assert part.text == (
        "ok, 2 lines in 1 file match in a\n```\n"
        "a/x.txt:1: needle 1\na/x.txt:3: needle 2\n```"
    )
    git = call(sandbox, "search_files", pattern="needle", path=".git")
    assert ".git/config:1: needle" in git.text


def test_what_cannot_be_searched_is_answered(sandbox: Sandbox) -> None:
    """A bad pattern, no such path, and nothing found are told apart."""
    bad = call(sandbox, "search_files", pattern="(")
    assert bad.error == "bad_arguments"
    missing = call(sandbox, "search_files", pattern="x", path="none")
    assert missing.error == "not_found"
    nothing = call(sandbox, "search_files", pattern="x")
    assert nothing.text == "ok, no line matches"
