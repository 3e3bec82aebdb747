"""The README's code runs as it is printed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from agents import set_default_openai_client, set_tracing_disabled
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from llama_index.core.llms.mock import MockFunctionCallingLLM
from openai import AsyncOpenAI, OpenAI
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from kern_tools import Sandbox
from kern_tools.scripted import ScriptedCall, ScriptedServer, Step

README = Path(__file__).parent.parent / "README.md"


def _model(opened: ExitStack) -> BaseChatModel:
    script: list[Step] = [
        ScriptedCall("run_code", {"code": "import pandas\n1/0"}),
        "nothing",
        *(ScriptedCall("execute", {"command": "ls | wc -l"}), "none"),
        *[ScriptedCall("run_code", {"code": "1/0"})] * 3,
        ScriptedCall("list_files", {}),
        "no file",
    ]
    server = opened.enter_context(ScriptedServer(script))
    return ChatOpenAI(model="m", base_url=server.url, api_key="k")  # type: ignore[arg-type]


def _client(opened: ExitStack) -> OpenAI:
    call = ScriptedCall("run_code", {"code": "print(6 * 7)"})
    script: list[Step] = [call, "nothing"] * 4
    server = opened.enter_context(ScriptedServer(script))
    return opened.enter_context(OpenAI(base_url=server.url, api_key="k"))


def _agents_client(opened: ExitStack) -> None:
    """Give the Agents SDK a client and no tracing."""
    call = ScriptedCall("run_code", {"code": "print(6 * 7)"})
    server = opened.enter_context(ScriptedServer([call, "nothing"]))
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=server.url, api_key="k")
    set_default_openai_client(client, use_for_tracing=False)


@pytest.fixture
def names() -> Iterator[dict[str, Any]]:
    """What the README's reader brings along: models and clients."""
    with ExitStack() as opened:
        names: dict[str, Any] = {
            "model": _model(opened),
            "client": _client(opened),
            "llm": MockFunctionCallingLLM(),
        }
        _agents_client(opened)
        yield names
        # `Runner.run_sync` leaves its loop to the thread.
        asyncio.get_event_loop().close()
        asyncio.set_event_loop(None)
        if isinstance(sandbox := names.get("sandbox"), Sandbox):
            sandbox.close()


# LlamaIndex reads every attribute of its own agents, pydantic's deprecated ones too.
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211")
def test_every_python_block_runs(
    names: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From top to bottom, in one session."""
    monkeypatch.chdir(tmp_path)
    document = Sybil([PythonCodeBlockParser()]).parse(README)
    document.namespace.update(names)
    examples = list(document.examples())
    for example in examples:
        example.evaluate()
    names.update(document.namespace)
    assert len(examples) >= 4
    printed = capsys.readouterr().out
    assert "the code's own error" in printed
    assert "while it runs" in printed
    assert "done nothing" in printed
    assert "repeated" in printed
    assert "42\n" in printed
    assert "weather.csv" in (tmp_path / "run.html").read_text()
    assert (tmp_path / "report.tar.gz").is_file()
    assert (tmp_path / "results" / "report.txt").read_text() == "42"
