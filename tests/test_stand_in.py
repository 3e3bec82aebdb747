"""A model where a key is set, and one that says a script where there is none."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from openai import OpenAI

from kern_tools.scripted import ScriptedCall, ScriptedServer
from kern_tools.stand_in import Model, is_model_set, llama_index_model, model_or_script

CALL = ScriptedCall("run_code", {"code": "print(1)"})


@pytest.fixture(autouse=True)
def without_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine's own settings."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)


def asked(model: Model) -> Any:
    """Ask a model something with the real client."""
    with OpenAI(base_url=model.base_url, api_key=model.api_key) as client:
        return client.responses.create(model=model.name, input="go")


def test_without_a_key_the_script_is_said() -> None:
    """By a server on loopback, which keeps what it was sent."""
    model = model_or_script([CALL, "done"])
    assert asked(model).output[0].name == "run_code"
    assert asked(model).output_text == "done"
    assert [request.body["input"] for request in model.requests] == ["go", "go"]


def test_a_framework_is_pointed_at_it() -> None:
    """The same three words fit the constructors."""
    model = model_or_script(["done"])
    llm = ChatOpenAI(model=model.name, base_url=model.base_url, api_key=model.api_key)  # type: ignore[arg-type]
    assert llm.invoke("go").text == "done"


def test_with_an_address_the_model_there_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server of yours, which may want no key."""
    with ScriptedServer(["yours"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_MODEL", "small")
        model = model_or_script(["never said"])
        assert asked(model).output_text == "yours"
        assert server.requests[0].body["model"] == "small"
    assert (model.server, model.requests) == (None, [])


def test_with_a_key_openais_own_model_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is started."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    model = model_or_script(["never said"])
    assert (model.base_url, model.api_key, model.server) == (None, "sk-1", None)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "OPENAI_BASE_URL"])
def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As in a `.env` file that nobody filled in."""
    monkeypatch.setenv(name, "")
    assert not is_model_set()
    assert model_or_script(["done"]).server is not None


def test_llama_index_says_the_script() -> None:
    """Text, one call and several at once; arguments as an object or as JSON text."""
    written = ScriptedCall("list_files", '{"path": "d"}', "mine")
    llm = llama_index_model(["text", CALL, [CALL, written]])
    go = [ChatMessage(role="user", content="go")]
    text, one, two = (llm.chat(go).message for _ in range(3))
    assert text.content == "text"
    calls = [
        (block.tool_call_id, block.tool_name, block.tool_kwargs)
        for message in (one, two)
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    ]
    assert calls == [
        ("call_1", "run_code", {"code": "print(1)"}),
        ("call_2", "run_code", {"code": "print(1)"}),
        ("mine", "list_files", {"path": "d"}),
    ]


def test_llama_index_with_a_key_needs_its_own_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where it is missing, what to install is said, and the mock is not put in."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    with pytest.raises(ImportError, match="pip install llama-index-llms-openai"):
        llama_index_model(["never said"])
