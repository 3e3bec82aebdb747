"""The OpenAI Agents SDK, tested with the scripted model that it ships itself."""

# The SDK leaves parts of its types open.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner

from kern_tools import ExecutionResult, FaultPolicy, Sandbox
from kern_tools.adapters.openai_agents import (
    as_shell_tool,
    as_tools,
    end_on_stop,
    result_of,
    stop_of,
)

from .cells import CHARTS

QUIET = RunConfig(tracing_disabled=True)

if find_spec("agents.testing"):  # from 0.24 on
    from agents.testing import ScriptedModel, assistant_message, function_call
    from openai.types.responses import ResponseFunctionShellToolCall

    async def ran(agent: Agent[Any], way: str) -> Any:
        """Run an agent one of the two ways."""
        if way == "run":
            return await Runner.run(agent, "go", run_config=QUIET)
        run = Runner.run_streamed(agent, "go", run_config=QUIET)
        async for _ in run.stream_events():
            pass
        return run

    def results(run: Any) -> list[ExecutionResult]:
        """Give the results of a run's calls."""
        found = map(result_of, run.new_items)
        return [result for result in found if result is not None]

    each_way = pytest.mark.parametrize("way", ["run", "run_streamed"])

    @each_way
    async def test_code_gets_the_result_and_the_model_the_images(
        sandbox: Sandbox, way: str
    ) -> None:
        """`custom_data` is not sent; images are parts of the output that is."""
        call = function_call("run_code", {"code": CHARTS}, call_id="c1")
        model = ScriptedModel([[call], [assistant_message("done")]])
        run = await ran(Agent(name="a", model=model, tools=as_tools(sandbox)), way)
        model.assert_complete()
        (result,) = results(run)
        assert (result.call_id, result.exit_code, len(result.results)) == ("c1", 0, 2)
        assert model.last_call is not None
        sent: Any = model.last_call.input
        (output,) = (i for i in sent if i.get("type") == "function_call_output")
        kinds = [part["type"] for part in output["output"]]
        assert kinds == ["input_text", "input_image", "input_image"]
        assert "exitCode" not in json.dumps(sent)

    async def test_a_shell_call_is_answered_by_its_executor(sandbox: Sandbox) -> None:
        """Each command has its outcome; the result is for code."""
        action: Any = {"commands": ["echo 1; exit 3"], "timeout_ms": 5000}
        call = ResponseFunctionShellToolCall.model_validate(
            {
                "id": "sh1",
                "type": "shell_call",
                "call_id": "s1",
                "status": "completed",
                "action": action,
            }
        )
        model = ScriptedModel([[call], [assistant_message("done")]])
        tools: Any = [as_shell_tool(sandbox)]
        run = await ran(Agent(name="a", model=model, tools=tools), "run")
        model.assert_complete()
        (result,) = results(run)
        assert (result.stdout, result.exit_code) == ("1\n", 3)
        assert model.last_call is not None
        sent: Any = model.last_call.input
        (output,) = (i for i in sent if i.get("type") == "shell_call_output")
        assert output["output"][0]["outcome"] == {"type": "exit", "exit_code": 3}

    @each_way
    async def test_a_policy_ends_the_run(sandbox: Sandbox, way: str) -> None:
        """The model is not asked once more."""
        calls = [
            [function_call("run_code", {"code": "1/0"}, call_id=f"c{number}")]
            for number in range(2)
        ]
        model = ScriptedModel(calls)
        agent = Agent(
            name="a",
            model=model,
            tools=as_tools(sandbox, policy=FaultPolicy(max_repeats=1)),
            tool_use_behavior=end_on_stop,
        )
        run = await ran(agent, way)
        model.assert_complete()
        stop = stop_of(run)
        assert stop is not None
        assert run.final_output == stop.message
