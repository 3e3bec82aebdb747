"""The same work by others that run code for agents, each as it is installed here.

What cannot run here is not in the bench: sandboxes that are a service elsewhere, those
that need Docker or a virtual machine with images of their own, and those whose parts
come from a registry that may be out of reach.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from llama_index.tools.code_interpreter import (  # pyright: ignore[reportMissingTypeStubs]
    CodeInterpreterToolSpec,
)

from kern_tools import Sandbox
from kern_tools.adapters.langchain import as_tools, result_of
from tests.debian import program

from .floor import two_pythons
from .harness import Contestant, Figure, Workload
from .paced import asked


@contextmanager
def bubblewrap() -> Generator[Callable[[str], str]]:
    """Keep a session of llm-sandbox's bubblewrap backend open.

    Where bubblewrap is missing it is installed, which needs root.
    """
    from llm_sandbox import (  # pyright: ignore[reportMissingTypeStubs]
        SandboxBackend,
        SandboxSession,
    )

    program("bwrap", package="bubblewrap")
    session: Any = SandboxSession(lang="python", backend=SandboxBackend.BUBBLEWRAP)
    with session:

        def run(code: str) -> str:
            result = session.run(code)
            assert result.exit_code == 0, result
            return str(result.stdout)

        yield run


@contextmanager
def jupyter() -> Generator[Callable[[str], str]]:
    """Start a Jupyter kernel; a call waits for its output and for its end."""
    from jupyter_client.manager import start_new_kernel

    started: Any = start_new_kernel(kernel_name="python3")
    manager, client = started

    def run(code: str) -> str:
        said: list[str] = []

        def hear(message: Any) -> None:
            content = message["content"]
            said.append(
                content.get("text") or content.get("data", {}).get("text/plain")
            )

        reply = client.execute_interactive(code, output_hook=hear, timeout=60)
        assert reply["content"]["status"] == "ok", reply
        return "".join(filter(None, said))

    try:
        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@contextmanager
def peers_paced() -> Generator[Workload]:
    """Compare a paced tool call with peers that start a process for each."""
    interpreter = CodeInterpreterToolSpec().code_interpreter
    with Sandbox() as sandbox, bubblewrap() as wrapped:
        (tool,) = as_tools(sandbox, "run_code")
        call = asked(tool.name)
        assert sandbox.wait_ready(60)

        def ours() -> None:
            result = result_of(tool.invoke(call))
            assert result is not None
            assert result.stdout == "1\n", result

        def theirs() -> None:
            assert wrapped("print(1)") == "1\n"

        def llama_index() -> None:
            assert "1" in interpreter("print(1)")

        yield Workload(
            name="peers, paced",
            about="`run_code('print(1)')` through our LangChain tool, against a session"
            " of llm-sandbox's bubblewrap backend, kept open, and the code interpreter"
            " tool of LlamaIndex, which is no sandbox; each after a pause of 400 ms.",
            contestants=[
                Contestant("bubblewrap", theirs),
                Contestant("LlamaIndex's", llama_index),
                Contestant("ours", ours),
            ],
            figures=[
                Figure(
                    "paced call / llm-sandbox with bubblewrap",
                    lambda r: r["ours"].wall_s / r["bubblewrap"].wall_s,
                    goal=0.15,
                ),
                Figure(
                    "paced call / LlamaIndex's code interpreter, no sandbox",
                    lambda r: r["ours"].wall_s / r["LlamaIndex's"].wall_s,
                ),
            ],
            rounds=12,
            pace_s=0.4,
        )


@contextmanager
def peers_kernel() -> Generator[Workload]:
    """Compare a kernel's cell with that of a Jupyter kernel, which has no sandbox."""
    with Sandbox(mode="kernel") as sandbox, jupyter() as kernel, two_pythons() as ask:

        def ours() -> None:
            result = sandbox.run_code("1+1")
            assert [value.text for value in result.results] == ["2"], result

        def theirs() -> None:
            assert kernel("1+1") == "2"

        def alone() -> None:
            assert ask(b"1+1") == b"2"

        yield Workload(
            name="peers, kernel",
            about="`run_code('1+1')` in `kernel` mode against `execute_interactive` of"
            " jupyter_client with an ipykernel, which is no sandbox; and against the"
            " least that asking another Python can cost: an `eval` over a socket, with"
            " no sandbox, no streams, no files and no limits.",
            contestants=[
                Contestant("jupyter", theirs),
                Contestant("two Pythons", alone),
                Contestant("ours", ours),
            ],
            figures=[
                Figure(
                    "kernel call / a Jupyter kernel, no sandbox",
                    lambda r: r["ours"].wall_s / r["jupyter"].wall_s,
                    goal=0.06,
                ),
                Figure(
                    "two Pythons and a socket, nothing else / a Jupyter kernel",
                    lambda r: r["two Pythons"].wall_s / r["jupyter"].wall_s,
                    rival=False,
                ),
            ],
            rounds=100,
        )
