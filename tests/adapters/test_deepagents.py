"""deepagents: its standard suite, and agents whose files and shell are a sandbox."""

# The frameworks leave type parameters of their own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends.protocol import SandboxBackendProtocol
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import SandboxIntegrationTests
from pydantic import SecretStr

from kern_tools import (
    ConfigError,
    ExecutionResult,
    Sandbox,
    SandboxClosed,
    SandboxPool,
)
from kern_tools.adapters.deepagents import (
    ARTIFACTS,
    KernBackend,
    as_backend,
    system_prompt,
)
from kern_tools.scripted import ScriptedCall, ScriptedServer, Step
from tests.depth import in_part

from .cells import WAITS, Gate

ABSOLUTE = (
    "langchain-tests 1.1.9 compares with paths below the root of the search, and"
    " `BackendProtocol.glob` of deepagents 0.7.32 has to give absolute ones"
)
ONLY_FILES = (
    "langchain-tests 1.1.9 counts directories, and `BackendProtocol.glob` of deepagents"
    " 0.7.32 never matches them"
)
LARGE = {
    "test_write_read_download_large_text_with_escaped_content",
    "test_awrite_aread_adownload_large_text_with_escaped_content",
    "test_aread_large_text_payload_paginated_roundtrip",
}
OVERWRITES = (
    "langchain-tests 1.1.9 wants an error, and `BackendProtocol.write` of deepagents"
    " 0.7 overwrites a file that is there"
)


# They take seconds, and each has a clause of their kind that stays.
@in_part(lambda test: test.name not in LARGE)
# Its fixtures of a class are methods of an instance, which pytest 9 warns of.
@pytest.mark.filterwarnings("ignore::pytest.PytestRemovedIn10Warning")
class TestStandard(SandboxIntegrationTests):
    """LangChain's own suite for sandboxes holds, but for what deepagents changed."""

    @pytest.fixture(scope="class")
    @classmethod
    def sandbox(cls) -> Iterator[SandboxBackendProtocol]:
        """A backend for all tests of the class."""
        with Sandbox(timeout_s=20) as sandbox:
            yield KernBackend(sandbox)

    @property
    def sandbox_root_dir(self) -> str:
        """The place that a sandbox keeps."""
        return "/workspace/test"

    @pytest.mark.xfail(reason=OVERWRITES)
    def test_write_existing_file_fails(
        self, sandbox_backend: Any, sandbox_test_root: str
    ) -> None:
        """See `test_a_file_that_is_there_is_written_over`."""
        super().test_write_existing_file_fails(sandbox_backend, sandbox_test_root)

    @pytest.mark.xfail(reason=ABSOLUTE)
    def test_glob(self, sandbox_backend: Any, sandbox_test_root: str) -> None:
        """See `test_glob_gives_absolute_paths_of_files`, for this and the others."""
        super().test_glob(sandbox_backend, sandbox_test_root)

    @pytest.mark.xfail(reason=ABSOLUTE)
    def test_glob_basic_pattern(
        self, sandbox_backend: Any, sandbox_test_root: str
    ) -> None:
        """See above."""
        super().test_glob_basic_pattern(sandbox_backend, sandbox_test_root)

    @pytest.mark.xfail(reason=ONLY_FILES)
    def test_glob_with_directories(
        self, sandbox_backend: Any, sandbox_test_root: str
    ) -> None:
        """See above."""
        super().test_glob_with_directories(sandbox_backend, sandbox_test_root)

    @pytest.mark.xfail(reason=ABSOLUTE)
    def test_glob_hidden_files_explicitly(
        self, sandbox_backend: Any, sandbox_test_root: str
    ) -> None:
        """See above."""
        super().test_glob_hidden_files_explicitly(sandbox_backend, sandbox_test_root)

    @pytest.mark.xfail(reason=ABSOLUTE)
    def test_glob_with_character_class(
        self, sandbox_backend: Any, sandbox_test_root: str
    ) -> None:
        """See above."""
        super().test_glob_with_character_class(sandbox_backend, sandbox_test_root)

    @pytest.mark.xfail(reason=ABSOLUTE)
    def test_glob_with_question_mark(
        self, sandbox_backend: Any, sandbox_test_root: str
    ) -> None:
        """See above."""
        super().test_glob_with_question_mark(sandbox_backend, sandbox_test_root)


@pytest.fixture
def backend(sandbox: Sandbox) -> KernBackend:
    """The backend under test."""
    return KernBackend(sandbox)


def names(found: Any) -> list[str]:
    """Give the paths of what `glob` or `ls` found."""
    entries = found.matches if hasattr(found, "matches") else found.entries
    return [entry["path"] for entry in entries]


# what the suite is wrong about


def test_a_file_that_is_there_is_written_over(
    backend: KernBackend, sandbox: Sandbox
) -> None:
    """As the protocol has it from 0.7 on."""
    for content in ("one", "two"):
        assert backend.write("/workspace/a.txt", content).error is None
    assert sandbox.read_file("a.txt") == b"two"


def test_glob_gives_absolute_paths_of_files(backend: KernBackend) -> None:
    """Rules on what an agent may touch compare those; directories do not count."""
    for name in ("a.py", "b.txt", "d/c.py", ".hidden.py"):
        backend.write(f"/workspace/t/{name}", "")
    top, below = "/workspace/t", "/workspace/t/d"
    assert names(backend.glob("*.py", top)) == [f"{top}/a.py", f"{below}/c.py"]
    assert names(backend.glob("/*.py", top)) == [f"{top}/a.py"]
    assert names(backend.glob("[ab].*", top)) == [f"{top}/a.py", f"{top}/b.txt"]
    assert names(backend.glob("?.txt", top)) == [f"{top}/b.txt"]
    assert names(backend.glob(".*", top)) == [f"{top}/.hidden.py"]
    assert names(backend.glob("*/")) == []


# commands


def test_a_command_writes_both_streams_in_order(backend: KernBackend) -> None:
    """One text, as it would be on a terminal, with the command's own line numbers."""
    ran = backend.execute("echo 1; echo 2 >&2; echo 3\nnowhere")
    assert ran.output.startswith("1\n2\n3\n")
    assert "line 2" in ran.output
    assert (ran.exit_code, ran.truncated) == (127, False)
    assert ran.result is not None
    assert ran.result.success is False


def test_a_syntax_error_is_told(backend: KernBackend) -> None:
    """Even where the shell runs nothing of the line that joins the streams."""
    ran = backend.execute("echo 'open")
    assert ran.exit_code == 2
    assert "unexpected EOF" in ran.output


def test_a_fault_comes_first_and_code_finds_it(sandbox: Sandbox) -> None:
    """The protocol has no place for it but the text; the result has."""
    results: list[ExecutionResult] = []
    backend = KernBackend(sandbox, on_result=results.append)
    ran = backend.execute("echo before; sleep 50", timeout=1)
    first, *_, last = ran.output.splitlines()
    assert first.startswith("fault: timeout.")
    assert "`timeout`" in ran.output
    assert last == "before"
    assert (ran.exit_code, ran.result) == (137, results[0])
    assert results[0].fault_type == "timeout"


def test_output_over_the_bound_is_marked(backend: KernBackend) -> None:
    """Deepagents then says that some of it is missing."""
    ran = backend.execute("head -c 2000000 /dev/zero | tr '\\0' x")
    assert (ran.exit_code, ran.truncated) == (0, True)


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800"], ids=ascii)
def test_a_command_that_cannot_be_one_is_answered(
    backend: KernBackend, command: str
) -> None:
    """Nothing a model writes raises."""
    ran = backend.execute(command)
    assert (ran.exit_code, ran.result) == (126, None)
    assert ran.output.startswith("bad arguments")


async def test_cancelling_a_command_ends_its_box(patient: Sandbox, gate: Gate) -> None:
    """Nothing that it would have done afterwards happens."""
    patient.write_file("waits.py", WAITS)
    running = asyncio.create_task(KernBackend(patient).aexecute("python3 waits.py"))
    assert await asyncio.to_thread(gate.wait) == b"running"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert gate.is_gone()
    assert "late" not in [file.path for file in patient.list_files()]


# files


@pytest.mark.parametrize("path", ["/tmp/a.txt", "/a.txt", "/workspace/../a.txt"])
def test_nothing_is_written_where_it_would_not_be_kept(
    backend: KernBackend, path: str
) -> None:
    """The error says where files are kept, in place of a success that is none."""
    written = backend.write(path, "x")
    (uploaded,) = backend.upload_files([(path, b"x")])
    (downloaded,) = backend.download_files([path])
    for error in (written.error, uploaded.error, downloaded.error):
        assert error is not None
        assert "/workspace" in error


def test_text_that_is_none_is_refused(backend: KernBackend) -> None:
    """Half a surrogate pair has no bytes."""
    assert "surrogate" in str(backend.write("/workspace/a", "\ud800").error)


@pytest.mark.parametrize("is_async", [False, True], ids=["edit", "aedit"])
async def test_a_long_edit_needs_no_place_outside(
    backend: KernBackend, sandbox: Sandbox, is_async: bool
) -> None:
    """In `fresh` mode each command has a `/tmp` of its own."""
    old, new = "a" * 40_000, "b" * 40_000
    sandbox.write_file("long.txt", f"head\n{old}\ntail\n")
    path = "/workspace/long.txt"
    if is_async:
        edited = await backend.aedit(path, old, new)
    else:
        edited = await asyncio.to_thread(backend.edit, path, old, new)
    assert (edited.error, edited.occurrences) == (None, 1)
    assert sandbox.read_file("long.txt") == f"head\n{new}\ntail\n".encode()


async def test_files_are_found_in_the_workspace(backend: KernBackend) -> None:
    """A search that names no place does not walk through all of the image."""
    await backend.awrite("/workspace/d/a.py", "x = 1\n")
    assert names(backend.glob("*.py")) == ["/workspace/d/a.py"]
    assert names(await backend.aglob("*.py")) == ["/workspace/d/a.py"]


# agents


def model(server: ScriptedServer) -> ChatOpenAI:
    """Point LangChain's OpenAI model at the scripted server."""
    return ChatOpenAI(base_url=server.url, api_key=SecretStr("none"), model="scripted")


def answers(state: dict[str, Any]) -> dict[str, ToolMessage]:
    """Pick the tools' answers out of an agent's state, by the ids of the calls."""
    messages = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    return {message.tool_call_id: message for message in messages}


SCRIPT: list[Step] = [
    ScriptedCall(
        "write_file",
        {"file_path": "/workspace/a.py", "content": "print(6 * 7)\n"},
        "write",
    ),
    [
        ScriptedCall("execute", {"command": "python3 a.py; exit 3"}, "run"),
        ScriptedCall("read_file", {"file_path": "/workspace/a.py"}, "read"),
        ScriptedCall("glob", {"pattern": "*.py"}, "glob"),
        ScriptedCall("execute", {"command": "seq 60000"}, "long"),
        ScriptedCall("execute", {"command": "sleep 50", "timeout": 1}, "slow"),
    ],
    "done",
]


@pytest.mark.parametrize("is_async", [False, True], ids=["invoke", "ainvoke"])
async def test_an_agent_works_in_the_sandbox(sandbox: Sandbox, is_async: bool) -> None:
    """Its shell and its file tools see the same files, and long output goes there."""
    with ScriptedServer(SCRIPT) as server:
        agent = create_deep_agent(model(server), backend=as_backend(sandbox))
        given: Any = {"messages": [("user", "go")]}
        if is_async:
            state = await agent.ainvoke(given)
        else:
            state = await asyncio.to_thread(agent.invoke, given)
    said = answers(state)
    assert state["messages"][-1].text == "done"
    assert said["write"].status == "success"
    assert "42" in said["run"].text
    assert said["run"].artifact["exit_code"] == 3
    assert "print(6 * 7)" in said["read"].text
    assert "/workspace/a.py" in said["glob"].text
    assert said["slow"].text.startswith("fault: timeout.")
    kept = f"{ARTIFACTS}/large_tool_results/long"
    assert kept in said["long"].text
    assert sandbox.read_file(kept).decode().startswith("1\n2\n")


def test_threads_do_not_share_files(pool: SandboxPool) -> None:
    """Of a pool, each `thread_id` has a sandbox, which the next run finds again."""
    write = {"file_path": "/workspace/mine.txt", "content": "hi"}
    script: list[Step] = []
    for call in (
        ScriptedCall("write_file", write, "write"),
        ScriptedCall("execute", {"command": "ls"}, "list"),
        ScriptedCall("execute", {"command": "ls"}, "list"),
    ):
        script += [call, "done"]
    with ScriptedServer(script) as server:
        agent: Any = create_deep_agent(model(server), backend=as_backend(pool))
        states = [
            agent.invoke(
                {"messages": [("user", "go")]},
                {"configurable": {"thread_id": thread}},
            )
            for thread in ("t1", "t1", "t2")
        ]
    assert answers(states[0])["write"].status == "success"
    found = ["mine.txt" in answers(state)["list"].text for state in states[1:]]
    assert found == [True, False]
    assert len(pool) == 2


def test_without_a_thread_nothing_runs(pool: SandboxPool) -> None:
    """Neither a command nor a write; both say what to pass."""
    backend = KernBackend(pool)
    ran = backend.execute("true")
    assert ran.result is not None
    assert ran.result.fault is not None
    assert ran.result.fault.reason == "conversation"
    for said in (ran.output, backend.write("/workspace/a", "x").error):
        assert "thread_id" in str(said)
    assert len(pool) == 0


def test_the_config_tells_the_tenant(pool: SandboxPool) -> None:
    """Given the whole config, as LangChain's other tools are."""
    backend = KernBackend(
        pool, tenant=lambda config: config.get("configurable", {}).get("customer")
    )
    config: Any = {"configurable": {"thread_id": "t1", "customer": "ann"}}
    runnable: Any = RunnableLambda(lambda _: backend.execute("true"))
    runnable.invoke(None, config)
    assert pool.peek("t1", tenant="ann") is not None
    with pytest.raises(ConfigError, match="pool"):
        as_backend(pool.get("t2"), tenant=str)


@pytest.mark.parametrize("pooled", [False, True], ids=["sandbox", "pool"])
def test_the_prompt_says_what_holds_and_no_word_of_our_own_tools(pooled: bool) -> None:
    """Deepagents has tools of its own, whose answers have no first line of ours."""
    options: Any = {"timeout_max_s": 60, "prewarm": 0}
    with SandboxPool(**options) if pooled else Sandbox(**options) as source:
        told = system_prompt(source)
    assert "No network" in told
    assert "`timeout` can ask for up to 60 s" in told
    lines = told.splitlines()
    assert lines[-2].startswith("- Give file tools absolute paths below /workspace")
    others = (
        "run_command",
        "run_code",
        "Replies:",
        "How to work",
        "timeout_s",
        "next:",
    )
    assert [word for word in others if word in told] == []


def test_files_of_a_closed_sandbox_are_no_answer() -> None:
    """An agent that outlives its sandbox is the developer's mistake, and is raised."""
    with Sandbox(prewarm=0) as sandbox:
        backend = KernBackend(sandbox)
        (put,) = backend.upload_files([("/workspace/a", b"x")])
        assert put.error is None
    with pytest.raises(SandboxClosed):
        backend.upload_files([("/workspace/a", b"x")])
    with pytest.raises(SandboxClosed):
        backend.download_files(["/workspace/a"])


def test_each_backend_has_an_id(sandbox: Sandbox) -> None:
    """Deepagents tells backends apart by it."""
    first, second = KernBackend(sandbox), KernBackend(sandbox)
    assert first.id == first.id != second.id


def test_without_the_framework_it_names_the_extra() -> None:
    """The error ends with the command that mends it."""
    code = (
        "import sys\nsys.modules['deepagents'] = None\n"
        "try:\n    import kern_tools.adapters.deepagents\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'kern-tools[deepagents]'" in done.stdout, done.stderr
