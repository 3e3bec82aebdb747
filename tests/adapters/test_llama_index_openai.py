"""LlamaIndex with its own OpenAI models, which need a client older than ours."""

# The framework leaves type parameters of its own open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportMissingImports=false

from __future__ import annotations

import json
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent

from kern_tools import Sandbox
from kern_tools.adapters.llama_index import as_tools, result_of
from kern_tools.scripted import ScriptedCall, ScriptedServer, Step
from kern_tools.tools import tools_of

from .cells import CHARTS
from .loops import serving

models = pytest.importorskip(
    "llama_index.llms.openai",
    reason="llama-index-llms-openai refuses openai 3; CI runs this file with openai 2",
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecationWarning"
)


def llm(kind: str, server: ScriptedServer, *, strict: bool = False) -> Any:
    """Point one of the framework's models at the scripted server."""
    options = {"api_base": server.url, "api_key": "none", "max_retries": 0}
    return getattr(models, kind)(model="gpt-4.1", strict=strict, **options)


@pytest.mark.parametrize("kind", ["OpenAI", "OpenAIResponses"])
async def test_an_agent_reads_what_ran(sandbox: Sandbox, kind: str) -> None:
    """The words reach the wire, and the result stays beside them."""
    script: list[Step] = [ScriptedCall("run_code", {"code": "print(6 * 7)"}), "done"]
    with ScriptedServer(script) as server:
        agent = FunctionAgent(tools=list(as_tools(sandbox)), llm=llm(kind, server))
        last: Any = await agent.run(user_msg="go")  # pyright: ignore[reportDeprecated]
    (call,) = last.tool_calls
    result = result_of(call)
    assert str(last) == "done"
    assert result is not None
    assert result.stdout == "42\n"
    assert json.dumps(call.tool_output.content)[1:-1] in json.dumps(
        server.requests[1].body
    )


async def test_images_reach_a_responses_model(sandbox: Sandbox) -> None:
    """Two charts are two images in the output of the call."""
    script: list[Step] = [ScriptedCall("run_code", {"code": CHARTS}), "done"]
    with ScriptedServer(script) as server:
        model = llm("OpenAIResponses", server)
        agent = FunctionAgent(tools=list(as_tools(sandbox)), llm=model)
        await agent.run(user_msg="go")  # pyright: ignore[reportDeprecated]
    sent = json.dumps(server.requests[1].body)
    assert sent.count("input_image") == 2


def test_a_strict_model_is_sent_our_schema(sandbox: Sandbox) -> None:
    """The framework adds its key and changes nothing else."""
    with ScriptedServer(["done"]) as server:
        model = llm("OpenAI", server, strict=True)
        model.chat_with_tools(tools=list(as_tools(sandbox, "code")), user_msg="go")
    (tool,) = server.requests[0].body["tools"]
    (ours,) = tools_of(sandbox, "code")
    assert tool["function"]["parameters"] == ours.schema()
    assert tool["function"]["strict"] is True


@pytest.mark.parametrize("kind", ["OpenAI", "OpenAIResponses"])
async def test_arguments_that_are_no_json_are_answered(
    sandbox: Sandbox, kind: str
) -> None:
    """The framework takes them for none at all; the model is told what to send.

    Source: https://github.com/langchain-ai/langchain/issues/9130
    """
    with serving(ScriptedCall("run_code", "print(1)"), "done") as server:
        agent = FunctionAgent(tools=list(as_tools(sandbox)), llm=llm(kind, server))
        last: Any = await agent.run(user_msg="go")  # pyright: ignore[reportDeprecated]
    (call,) = last.tool_calls
    assert call.tool_output.raw_output["error"] == "bad_arguments"
    assert str(last) == "done"


async def test_a_chat_model_is_sent_text_alone(sandbox: Sandbox) -> None:
    """The framework leaves images out of tool messages there: no bad request.

    Source: https://github.com/OpenHands/OpenHands/issues/7700
    """
    with serving(ScriptedCall("run_code", {"code": CHARTS}), "done") as server:
        agent = FunctionAgent(tools=list(as_tools(sandbox)), llm=llm("OpenAI", server))
        await agent.run(user_msg="go")  # pyright: ignore[reportDeprecated]
    *_, answer = server.requests[1].body["messages"]
    assert (answer["role"], type(answer["content"])) == ("tool", str)
    assert "image 2: image/png" in answer["content"]
