"""What the bug bank's tests share: every way to call a tool, in every mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kern_tools import Sandbox
from kern_tools.adapters import langchain, llama_index, mcp, openai
from kern_tools.adapters.mcp.caller import McpCaller
from kern_tools.testing import Adapter
from kern_tools.tools import tools_of
from tests.adapters.callers import (
    CoreCaller,
    LangChainCaller,
    LlamaIndexCaller,
    OpenAICaller,
    OpenAIChatCaller,
)

Through = Callable[[Sandbox], Adapter]
"""Makes the coding tools of a sandbox callable in a framework's own way."""


def _core(sandbox: Sandbox) -> Adapter:
    return CoreCaller({tool.name: tool for tool in tools_of(sandbox, "coding")})


def _langchain(sandbox: Sandbox) -> Adapter:
    return LangChainCaller({t.name: t for t in langchain.as_tools(sandbox, "coding")})


def _llama_index(sandbox: Sandbox) -> Adapter:
    tools = llama_index.as_tools(sandbox, "coding")
    return LlamaIndexCaller({tool.metadata.get_name(): tool for tool in tools})


def _responses(sandbox: Sandbox) -> Adapter:
    return OpenAICaller(openai.as_tools(sandbox, "coding"))


def _chat(sandbox: Sandbox) -> Adapter:
    return OpenAIChatCaller(openai.as_tools(sandbox, "coding"))


def _mcp(sandbox: Sandbox) -> Adapter:
    return McpCaller(mcp.as_server(sandbox, "coding", structured=False))


ADAPTERS: dict[str, Through] = {
    "core": _core,
    "langchain": _langchain,
    "llama_index": _llama_index,
    "responses": _responses,
    "chat": _chat,
    "mcp": _mcp,
}


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark by which a test says which rows of the bank it holds."""
    config.addinivalue_line("markers", "bug(*names): holds these rows of bank.BUGS")


@pytest.fixture(scope="module", params=ADAPTERS)
def through(request: pytest.FixtureRequest) -> Through:
    """Each way to call a tool in turn."""
    return ADAPTERS[str(request.param)]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """A sandbox that the tests of a file share, of the mode whose calls cost least."""
    with Sandbox(mode="resident", timeout_s=20) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def fresh() -> Iterator[Sandbox]:
    """A sandbox whose calls have a box each."""
    with Sandbox(timeout_s=20) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def kernel() -> Iterator[Sandbox]:
    """A sandbox that keeps names."""
    with Sandbox(mode="kernel", timeout_s=20) as sandbox:
        yield sandbox


@pytest.fixture
def adapter(through: Through, sandbox: Sandbox) -> Adapter:
    """The shared sandbox's tools, called in each way."""
    return through(sandbox)
