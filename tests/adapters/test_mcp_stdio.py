"""`kern-tools mcp` as a process, with the SDK's client and with a bare one."""

# The SDK of the other releases has other names; what it read is looked at as JSON.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kern_tools import ConfigError
from kern_tools.adapters.mcp import result_of
from kern_tools.cli import app
from kern_tools.running import UNUSABLE
from tests.depth import partly
from tests.test_cli import on_a_terminal

from .cells import CHARTS, WAITS, Gate
from .mcp_clients import IS_OLD, PROGRAM, BareClient, Told, bare, dumped, spawned

NOISY = """
import os
from kern_tools.adapters.mcp import Wires, as_server, serve_stdio
from kern_tools import Sandbox
wires = Wires.claim()
print("noise", flush=True)
os.system("echo noise; cat")
with Sandbox() as sandbox:
    serve_stdio(as_server(sandbox), wires)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace that outlives its server."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def gate(folder: Path) -> Iterator[Gate]:
    """What tells whether the cell `WAITS` runs there."""
    gate = Gate(folder)
    yield gate
    gate.close()


@pytest.fixture(scope="module")
def bare_client(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[BareClient, Path]]:
    """A client that no test may spoil, and the workspace of its server."""
    folder = tmp_path_factory.mktemp("work")
    with bare("--workspace", folder) as client:
        yield client, folder


# the SDK's client


async def test_clients_call_tools_each_of_its_own_sandbox(folder: Path) -> None:
    """Files stay from call to call; text, images and the result come back."""
    told = Told()
    words = ("--tools", "coding", "--workspace", folder)
    plain = ("--mode", "kernel", "--images", "0", "--no-structured")
    code = f"print(open('n.txt').read())\n{CHARTS}"
    async with (
        spawned(*words, logging_callback=told.log) as one,
        spawned(*plain) as other,
    ):
        tools = dumped(await one.list_tools())["tools"]
        await one.call_tool("write_file", {"path": "n.txt", "content": "42"})
        ran = await one.call_tool(
            "run_code", {"code": code}, progress_callback=told.on_progress
        )
        slow = await one.call_tool(
            "run_command", {"command": "sleep 50", "timeout_s": 0.5}
        )
        await other.call_tool("run_code", {"code": "x = 41"})
        plain_answer = dumped(await other.call_tool("run_code", {"code": "x + 1"}))
        listing = dumped(await other.call_tool("list_files", {}))
    assert {"run_code", "edit_file", "run_command"} <= {tool["name"] for tool in tools}
    result = result_of(ran)
    assert result is not None
    assert result.stdout == "42\n"
    assert [value.png is not None for value in result.results] == [True, True]
    assert [entry["data"]["text"] for entry in told.entries] == ["42\n"]
    assert told.progress[0][1] == "42"
    assert dumped(slow)["structuredContent"]["fault"]["type"] == "timeout"
    assert "42" in plain_answer["content"][0]["text"]
    assert "structuredContent" not in plain_answer
    assert "n.txt" not in listing["content"][0]["text"]


if not IS_OLD:
    from mcp import Client, StdioServerParameters

    async def test_a_client_may_do_without_a_handshake() -> None:
        """The SDK's newest client probes for that by itself."""
        told = Told()
        command = StdioServerParameters(command=str(PROGRAM), args=["mcp"])
        async with Client(
            command, logging_callback=told.log, log_level="info"
        ) as client:
            answer = await client.call_tool("run_code", {"code": "print(7)"})
            assert client.session.protocol_version == "2026-07-28"
        result = result_of(answer)
        assert result is not None
        assert result.stdout == "7\n"
        assert [entry["data"]["text"] for entry in told.entries] == ["7\n"]


# one that misbehaves


def test_a_cancelled_call_is_gone_before_it_is_answered(
    bare_client: tuple[BareClient, Path],
) -> None:
    """Releases 2.x of the SDK give no answer, as the protocol has it; 1.x an error."""
    client, folder = bare_client
    gate = Gate(folder)
    client.call(WAITS, 1)
    assert gate.wait() == b"running"
    client.send("notifications/cancelled", {"requestId": 1})
    if IS_OLD:
        assert client.read()["error"]["message"] == "Request cancelled"
        assert gate.is_gone()
    else:
        assert gate.wait_end() == b""
    client.call("import os\nos.path.exists('late')", 2)
    answer = client.read()
    gate.close()
    assert (answer["id"], answer["result"]["isError"]) == (2, False)
    assert "False" in answer["result"]["content"][0]["text"]


def test_half_a_surrogate_pair_is_answered(
    bare_client: tuple[BareClient, Path],
) -> None:
    """The SDK's parser would drop the message, and the client would wait for ever."""
    client, _ = bare_client
    client.call("print('\ud83d')", 3)
    answer = client.read()["result"]
    client.call("print('\U0001f600')", 4)
    whole = client.read()["result"]
    assert answer["structuredContent"]["error"] == "bad_arguments"
    assert whole["structuredContent"]["stdout"] == "\U0001f600\n"


def test_a_line_that_is_no_message_does_no_harm(
    bare_client: tuple[BareClient, Path],
) -> None:
    """Nor does a message that is none of the protocol's."""
    client, _ = bare_client
    client.writing.write(b'nonsense\n\xff\n{"jsonrpc": "2.0"}\n["\\ud83d"]\n')
    client.call("print(7)", 5)
    assert client.read()["result"]["structuredContent"]["stdout"] == "7\n"


WAYS_TO_GO = partly(["end of stdin", "SIGTERM"], "end of stdin".__eq__)


@pytest.mark.parametrize("way", WAYS_TO_GO)
def test_when_the_client_is_gone_so_are_its_boxes(
    way: str, folder: Path, gate: Gate, tmp_path: Path
) -> None:
    """A call that runs is ended, and nothing is left, whichever way the client goes."""
    with bare("--workspace", folder, TMPDIR=str(tmp_path)) as client:
        client.call(WAITS)
        assert gate.wait() == b"running"
        if way == "end of stdin":
            client.writing.close()
        else:
            client.process.send_signal(signal.Signals[way])
        assert gate.wait_end() == b""
        expected = 0 if way == "end of stdin" else 128 + signal.Signals[way]
        assert client.process.wait() == expected
        assert client.process.stderr is not None
        assert client.process.stderr.read() == b""
    assert sorted(tmp_path.iterdir()) == [folder]


@pytest.mark.verify  # A third way to be gone.
def test_a_client_that_reads_no_more_is_gone_too(folder: Path, gate: Gate) -> None:
    """Its stdin may still be open: what is written to it fails."""
    with bare("--workspace", folder) as client:
        client.call(WAITS)
        assert gate.wait() == b"running"
        client.reading.close()
        client.send("ping", {}, id=2)
        assert gate.wait_end() == b""
        assert client.process.wait() == 0
        assert client.process.stderr is not None
        assert client.process.stderr.read() == b""


def test_stdout_carries_the_protocol_alone() -> None:
    """What a library prints, or a child process of ours, goes to stderr."""
    with bare(command=[sys.executable, "-c", NOISY]) as client:
        client.writing.close()
        assert client.reading.read() == b""
        assert client.process.stderr is not None
        assert client.process.stderr.read() == b"noise\nnoise\n"


# wrong words


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--mode", "forever"], "mode"),
        (["--tools", "kode"], "tools"),
        (["--memory-mb", "-1"], "memory_mb"),
    ],
    ids=str,
)
def test_wrong_options_end_it_before_it_serves(words: list[str], option: str) -> None:
    """As for every command; nothing was started, and stdin and stdout are not taken."""
    with pytest.raises(ConfigError) as raised:
        CliRunner().invoke(app, ["mcp", *words], catch_exceptions=False)
    assert raised.value.option == option


def test_without_the_sdk_it_names_the_extra() -> None:
    """The command is always there; what it needs may not be."""
    code = (
        "import sys\nsys.modules['mcp'] = None\nsys.argv = ['kern-tools', 'mcp']\n"
        "from kern_tools.cli import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (UNUSABLE, "")
    assert "pip install 'kern-tools[mcp]'" in done.stderr


def test_who_starts_it_by_hand_is_told_what_it_is_for() -> None:
    """On a terminal nobody speaks the protocol; the rest goes on as ever."""
    shown = on_a_terminal("mcp", "--image", "localhost/none:1", "--offline")
    hint, error, *_ = shown.splitlines()
    assert hint.startswith("kern-tools mcp speaks the Model Context Protocol on stdin")
    assert error.startswith("error: the image 'localhost/none:1' is not present")
