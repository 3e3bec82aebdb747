"""Schemas: every way of defining our tools is one that strict servers take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool

from kern_tools import Sandbox
from kern_tools.adapters import langchain, llama_index, openai
from kern_tools.tools import TOOLS, tools_of

Schemas = dict[str, Any]


@pytest.fixture(scope="module")
def described() -> Iterator[Sandbox]:
    """A sandbox that is only described."""
    with Sandbox(prewarm=0) as sandbox:
        yield sandbox


def of_core(sandbox: Sandbox, strict: bool) -> Schemas:
    """By name, what the core says."""
    return {t.name: t.schema(strict=strict) for t in tools_of(sandbox, "coding")}


def of_langchain(sandbox: Sandbox, strict: bool) -> Schemas:
    """By name, what LangChain makes of it for its models."""
    tools = langchain.as_tools(sandbox, "coding", strict=strict)
    made = [convert_to_openai_tool(tool)["function"] for tool in tools]
    return {function["name"]: function["parameters"] for function in made}


def of_llama_index(sandbox: Sandbox, strict: bool) -> Schemas:
    """By name, what LlamaIndex makes of it for its models."""
    tools = llama_index.as_tools(sandbox, "coding", strict=strict)
    made = [tool.metadata.to_openai_tool()["function"] for tool in tools]
    return {function["name"]: function["parameters"] for function in made}


def of_chat(sandbox: Sandbox, strict: bool) -> Schemas:
    """By name, what goes to Chat Completions."""
    made = openai.as_tools(sandbox, "coding", strict=strict).chat
    return {tool["function"]["name"]: tool["function"]["parameters"] for tool in made}


def of_responses(sandbox: Sandbox, strict: bool) -> Schemas:
    """By name, what goes to Responses."""
    made = openai.as_tools(sandbox, "coding", strict=strict).responses
    return {tool["name"]: tool["parameters"] for tool in made}


def types(schema: dict[str, Any]) -> list[str]:
    """Give the types that a property may have."""
    given: str | list[str] = schema["type"]
    return [given] if isinstance(given, str) else given


each_way = pytest.mark.parametrize(
    "schemas",
    [of_core, of_langchain, of_llama_index, of_chat, of_responses],
    ids=["core", "langchain", "llama_index", "chat", "responses"],
)


@pytest.mark.bug("schemas that strict mode refuses")
@each_way
def test_a_strict_server_takes_every_tool(
    described: Sandbox, schemas: Callable[[Sandbox, bool], Schemas]
) -> None:
    """All is required, what may be absent is nullable, nothing has a default.

    Source: https://github.com/ComposioHQ/composio/issues/1919
    Source: https://github.com/oraios/serena/issues/107
    Source: https://github.com/inngest/agent-kit/issues/66
    """
    found = schemas(described, True)
    assert found.keys() == TOOLS.keys()
    for name, schema in found.items():
        properties = schema["properties"]
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(properties)
        assert "default" not in str(schema)
        for key, field in TOOLS[name].arguments.model_fields.items():
            assert ("null" in types(properties[key])) != field.is_required()


@pytest.mark.bug("schemas that strict mode refuses")
@each_way
def test_other_servers_can_have_a_plain_schema(
    described: Sandbox, schemas: Callable[[Sandbox, bool], Schemas]
) -> None:
    """Optional means not required there, and no property has two types.

    Source: https://github.com/oraios/serena/issues/107
    """
    for name, schema in schemas(described, False).items():
        fields = TOOLS[name].arguments.model_fields
        required = [key for key, field in fields.items() if field.is_required()]
        assert schema.get("required", []) == required
        assert all(len(types(each)) == 1 for each in schema["properties"].values())
