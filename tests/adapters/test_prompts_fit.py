"""The prompts are plain strings that go where each framework wants them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from agents import Agent
from langchain import agents
from langchain_core.messages import SystemMessage
from langchain_core.prompts import ChatPromptTemplate, SystemMessagePromptTemplate
from langchain_core.tools.render import render_text_description_and_args
from langchain_openai import ChatOpenAI
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.prompts import ChatPromptTemplate as LlamaChatTemplate
from llama_index.core.prompts import PromptTemplate, RichPromptTemplate
from openai import OpenAI

from kern_tools import Sandbox
from kern_tools.adapters import langchain, llama_index, openai
from kern_tools.prompting import tool_description
from kern_tools.scripted import ScriptedServer


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Give a sandbox whose prompt has braces to tell of."""
    folder = tmp_path_factory.mktemp("data")
    mounts = {folder: ("/data/{user}", "ro")}
    with Sandbox(mounts=mounts, env={"TOKEN": "c4n4ry"}) as opened:
        yield opened


@pytest.fixture(scope="module")
def prompt(sandbox: Sandbox) -> str:
    """Give its system prompt."""
    return sandbox.system_prompt("coding")


def test_there_is_nothing_in_it_to_fill_in(sandbox: Sandbox, prompt: str) -> None:
    """No brace stands anywhere, and what a path has of them is spelled."""
    facts = sandbox.describe().offering("coding")
    texts = [prompt, *(tool_description(name, facts) for name in facts.tools)]
    assert not {"{", "}"} & set("".join(texts))
    assert r"/data/\x7buser\x7d" in prompt


def test_the_spelled_name_leads_to_the_file(sandbox: Sandbox) -> None:
    """Code takes it as it is printed, inside quotes."""
    result = sandbox.run_code(r"import os; print(os.path.isdir('/data/\x7buser\x7d'))")
    assert result.stdout == "True\n"


@pytest.mark.parametrize("form", ["f-string", "mustache", "jinja2"])
def test_it_goes_into_a_template_of_langchain(
    prompt: str, form: Literal["f-string", "mustache", "jinja2"]
) -> None:
    """Pasted as a template of its own, it comes out as it went in."""
    template = ChatPromptTemplate.from_messages(
        [
            SystemMessagePromptTemplate.from_template(prompt, template_format=form),
            ("user", "{question}"),
        ]
    )
    (system, user) = template.invoke({"question": "What is 6 * 7?"}).to_messages()
    assert (system.content, user.content) == (prompt, "What is 6 * 7?")


def test_it_goes_into_the_short_way_to_write_one(prompt: str) -> None:
    """`("system", text)` is a template too."""
    template = ChatPromptTemplate.from_messages([("system", prompt)])
    assert template.input_variables == []
    assert template.invoke({}).to_messages()[0].content == prompt


def test_it_goes_into_a_message_and_an_agent_of_langchain(
    sandbox: Sandbox, prompt: str
) -> None:
    """What the model is sent is the prompt, to the letter."""
    assert SystemMessage(prompt).content == prompt
    with ScriptedServer(["done"]) as server:
        model = ChatOpenAI(model="m", base_url=server.url, api_key="k")  # type: ignore[arg-type]
        tools = langchain.as_tools(sandbox, "coding")
        making: Any = agents
        agent = making.create_agent(model, tools, system_prompt=prompt)
        agent.invoke({"messages": [("user", "hello")]})
        (request,) = server.requests
    assert request.body["messages"][0]["content"] == prompt


def test_descriptions_go_into_a_template_of_langchain(sandbox: Sandbox) -> None:
    """As agents of the older kind render them; schemas are given as values there."""
    tools = langchain.as_tools(sandbox, "coding")
    words = "\n".join(tool.description for tool in tools)
    template = ChatPromptTemplate.from_messages([("system", f"Tools:\n{words}\n{{x}}")])
    assert words in str(template.invoke({"x": 1}).to_messages()[0].content)
    assert render_text_description_and_args(tools)


def test_it_goes_into_the_instructions_of_openai(sandbox: Sandbox, prompt: str) -> None:
    """By the real client, and as a developer message of Chat."""
    tools = openai.as_tools(sandbox)
    with (
        ScriptedServer(["done", "done"]) as server,
        OpenAI(base_url=server.url, api_key="k") as client,
    ):
        client.responses.create(
            model="m", instructions=prompt, input="hello", tools=tools.responses
        )
        client.chat.completions.create(
            model="m",
            messages=[
                {"role": "developer", "content": prompt},
                {"role": "user", "content": "hello"},
            ],
            tools=tools.chat,
        )
        response, chat = server.requests
    assert response.body["instructions"] == prompt
    assert chat.body["messages"][0]["content"] == prompt


def test_it_goes_into_an_agent_of_the_agents_sdk(prompt: str) -> None:
    """Instructions there are a string too."""
    assert Agent(name="a", instructions=prompt).instructions == prompt


def test_it_goes_into_templates_of_llama_index(prompt: str) -> None:
    """Plain ones, chat ones, and those that Jinja fills."""
    assert PromptTemplate(prompt).format() == prompt
    message = ChatMessage(role=MessageRole.SYSTEM, content=prompt)
    (filled,) = LlamaChatTemplate([message]).format_messages()
    assert filled.content == prompt
    assert RichPromptTemplate(prompt).format() == prompt


# LlamaIndex reads every attribute of its own agents, pydantic's deprecated ones too.
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211")
def test_it_goes_into_agents_of_llama_index(sandbox: Sandbox, prompt: str) -> None:
    """Also into one that writes the tools' descriptions into a header of its own."""
    tools: list[Any] = [*llama_index.as_tools(sandbox, "coding")]
    llm = MockFunctionCallingLLM()
    assert FunctionAgent(tools=tools, llm=llm, system_prompt=prompt).system_prompt == (
        prompt
    )
    agent = ReActAgent(tools=tools, llm=llm, system_prompt=prompt)
    history = [ChatMessage(role=MessageRole.SYSTEM, content=prompt)]
    header, *_ = agent.formatter.format(tools, history)
    assert all(tool.metadata.description in str(header.content) for tool in tools)
