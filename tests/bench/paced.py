"""Calls as an agent makes them: one, a pause in which the model thinks, another."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from kern_sandbox.langchain import (  # pyright: ignore[reportMissingTypeStubs]
    kern_code_tool,
)

from kern_tools import Sandbox
from kern_tools.adapters.langchain import as_tools, result_of

from .harness import Contestant, Figure, Workload
from .rival import binding

CODE = "print(1)"


def asked(tool: str) -> Any:
    """Make the tool call of a model."""
    return {"type": "tool_call", "id": "call_1", "name": tool, "args": {"code": CODE}}


def unsandboxed() -> None:
    """Run the code in a new Python on the host."""
    argv = [sys.executable, "-I", "-c", CODE]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"1\n", done


@contextmanager
def paced_call() -> Generator[Workload]:
    """Compare our LangChain tool with no sandbox, and with the binding's tool."""
    with Sandbox() as sandbox, binding() as other:
        (our_tool,), their_tool = as_tools(sandbox, "run_code"), kern_code_tool(other)
        our_call, their_call = asked(our_tool.name), asked(their_tool.name)
        assert sandbox.wait_ready(60)

        def ours() -> None:
            message = our_tool.invoke(our_call)
            result = result_of(message)
            assert result is not None, message
            assert result.stdout == "1\n", result

        def theirs() -> None:
            message = their_tool.invoke(their_call)
            assert message.content == "1", message

        yield Workload(
            name="paced call",
            about="`run_code('print(1)')` through the LangChain tool of a `Sandbox()`,"
            " against a new `python -I -c 'print(1)'` with no sandbox, and against the"
            " LangChain tool of kern's own binding, on the same image; each after a"
            " pause of 400 ms.",
            contestants=[
                Contestant("no sandbox", unsandboxed),
                Contestant("binding", theirs),
                Contestant("ours", ours),
            ],
            figures=[
                Figure(
                    "paced call / `python -I -c`, no sandbox",
                    lambda r: r["ours"].wall_s / r["no sandbox"].wall_s,
                    bar=0.2,
                    goal=0.15,
                ),
                Figure(
                    "the same, CPU time of both ends",
                    lambda r: r["ours"].cpu_s / r["no sandbox"].cpu_s,
                ),
                Figure(
                    "paced call / the binding's LangChain tool",
                    lambda r: r["ours"].wall_s / r["binding"].wall_s,
                    bar=0.1,
                    goal=0.07,
                ),
                Figure(
                    "the same, CPU time of both ends",
                    lambda r: r["ours"].cpu_s / r["binding"].cpu_s,
                ),
            ],
            rounds=40,
            pace_s=0.4,
        )
