"""One table of calls through every adapter, and the words they all have to say."""

from __future__ import annotations

import pytest

from kern_tools import Sandbox
from kern_tools.adapters import langchain, llama_index, openai
from kern_tools.testing import ADAPTER_CASES, AdapterCase, AdapterContract

from .callers import (
    LangChainCaller,
    LlamaIndexCaller,
    OpenAICaller,
    OpenAIChatCaller,
)
from .words import GOLDEN, by_turns, golden_path, golden_text


@by_turns(0)
class TestLangChain(AdapterContract):
    """LangChain's messages hold the contract."""

    @pytest.fixture
    def adapter(self, sandbox: Sandbox) -> LangChainCaller:
        """Every tool, by name."""
        return LangChainCaller(
            {t.name: t for t in langchain.as_tools(sandbox, "coding")}
        )


@by_turns(0)
class TestLlamaIndex(AdapterContract):
    """LlamaIndex's outputs hold the contract."""

    @pytest.fixture
    def adapter(self, sandbox: Sandbox) -> LlamaIndexCaller:
        """Every tool, by name."""
        tools = llama_index.as_tools(sandbox, "coding")
        return LlamaIndexCaller({t.metadata.get_name(): t for t in tools})


@by_turns(0)
class TestResponses(AdapterContract):
    """OpenAI's Responses hold the contract."""

    @pytest.fixture
    def adapter(self, sandbox: Sandbox) -> OpenAICaller:
        """All tools at once."""
        return OpenAICaller(openai.as_tools(sandbox, "coding"))


@by_turns(1)
class TestChat(AdapterContract):
    """OpenAI's Chat Completions hold the contract."""

    @pytest.fixture
    def adapter(self, sandbox: Sandbox) -> OpenAIChatCaller:
        """All tools at once."""
        return OpenAIChatCaller(openai.as_tools(sandbox, "coding"))


@pytest.mark.parametrize("case", ADAPTER_CASES, ids=lambda case: case.name)
def test_the_words_are_these(case: AdapterCase) -> None:
    """What a model reads is written down, to the letter."""
    written = golden_path(case).read_text(encoding="utf-8")
    assert golden_text(case) == written


def test_every_golden_text_belongs_to_a_case() -> None:
    """A case that goes takes its text along."""
    assert set(GOLDEN.iterdir()) == {golden_path(case) for case in ADAPTER_CASES}


def test_a_clause_of_a_contract_cannot_be_changed() -> None:
    """An adapter that does not hold a clause must not seem to."""
    with pytest.raises(TypeError, match="test_words_images_and_data_arrive"):
        type("Weaker", (AdapterContract,), {"test_words_images_and_data_arrive": None})
