"""The code in docstrings runs as it is printed, and none is left out."""

# The frameworks leave parts of their types open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

import ast
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import agents
import pytest
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.graph import MessagesState, StateGraph
from llama_index.core import workflow
from llama_index.core.agent import workflow as agent_workflow
from openai import OpenAI

from kern_tools import FaultPolicy, Sandbox, Transcript
from kern_tools.adapters import langchain, llama_index, openai, openai_agents
from kern_tools.adapters.openai.caller import responses_caller
from kern_tools.adapters.openai_agents.caller import ScriptedModel, asked, said
from kern_tools.events import OutputEvent
from kern_tools.loop_events import TextPiece
from kern_tools.other_tools import OtherTool, other_tool
from kern_tools.scripted import ScriptedCall, ScriptedServer
from kern_tools.stand_in import Said, llama_index_model
from kern_tools.telemetry import uninstrument
from kern_tools.tools import tools_of

from .examples import examples_of, run_examples

ROOT = Path(__file__).parent.parent
FAILS = ScriptedCall("run_code", {"code": "1/0"})
GO: Any = {"messages": [("user", "go")]}

# Blocks that are no code: messages of a driver, and what a box and a reply look like.
PICTURES = {
    *("kern_tools.box", "kern_tools.rendering"),
    *("kern_tools.driver", "kern_tools.driver_modes"),
}
# Its example needs a cluster; `tests/cluster` has one.
ELSEWHERE = {"kern_tools.cluster"}

# LlamaIndex reads every attribute of its own agents, pydantic's deprecated ones too.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::pydantic.warnings.PydanticDeprecatedSince20",
    ),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]


def _documented() -> Iterator[str]:
    """Give the full name of everything whose docstring has an indented block."""
    for room, package in (("kern_tools", ""), ("adapters", "kern_tools.")):
        for path in sorted((ROOT / room).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            module = package + ".".join(parts).removesuffix(".__init__")
            yield from _inside(ast.parse(path.read_text(encoding="utf-8")), module)


def _inside(node: ast.AST, name: str) -> Iterator[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    if isinstance(node, kinds):
        holder = SimpleNamespace(__doc__=ast.get_docstring(node))
        if examples_of(holder):
            yield name
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # No definition stands in an expression.
        inner = getattr(child, "name", None) if isinstance(child, kinds) else None
        yield from _inside(child, f"{name}:{inner}" if inner else name)


DOCUMENTED = sorted({*_documented()} - PICTURES - ELSEWHERE)


@dataclass
class Reader:
    """Who tries an example out, with what such a reader has at hand."""

    thing: object
    sandbox: Sandbox
    printed: Callable[[], str]
    folder: Path
    names: dict[str, Any] = field(default_factory=dict[str, Any])

    async def run(self, **names: Any) -> dict[str, Any]:
        """Run the one example there is, and give all names after it."""
        self.names = {"sandbox": self.sandbox, "FaultPolicy": FaultPolicy, **names}
        assert await run_examples(self.thing, self.names) == 1
        return self.names


def _model(server: ScriptedServer) -> ChatOpenAI:
    return ChatOpenAI(model="m", base_url=server.url, api_key="k")  # type: ignore[arg-type]


async def _langchain_agent(reader: Reader, *script: Any, **names: Any) -> Any:
    """Run an example that makes an agent, and let that agent answer."""
    with ScriptedServer(script) as server:
        bring = {"create_agent": create_agent, "model": _model(server), **names}
        made = await reader.run(**vars(langchain), **bring)
        return made["agent"].invoke(GO)


async def _call_repair(reader: Reader) -> None:
    broken = ScriptedCall("python", '{"code": "print(\n6 * 7)"}')
    known = {"CallRepair": langchain.CallRepair}
    state = await _langchain_agent(reader, broken, "done", **known)
    assert "42" in state["messages"][2].text


async def _fault_middleware(reader: Reader) -> None:
    known = {"FaultMiddleware": langchain.FaultMiddleware}
    state = await _langchain_agent(reader, *[FAILS] * 3, **known)
    stop = langchain.stop_of(state)
    assert stop is not None
    assert stop.reason == "repeated"


async def _images_to_user(reader: Reader) -> None:
    known = {"ImagesToUser": langchain.ImagesToUser}
    state = await _langchain_agent(reader, "done", **known)
    assert state["messages"][-1].text == "done"


async def _langchain_events(reader: Reader) -> None:
    transcript = Transcript(live=False)
    with ScriptedServer([ScriptedCall("run_code", {"code": "6 * 7"}), "ok"]) as server:
        agent = create_agent(_model(server), langchain.as_tools(reader.sandbox))
        await reader.run(
            agent=agent,
            question=GO,
            transcript=transcript,
            events_of=langchain.events_of,
        )
    assert "= exit 0" in str(transcript)


async def _route_on_fault(reader: Reader) -> None:
    graph: Any = StateGraph(MessagesState)
    await reader.run(**vars(langchain), graph=graph)
    assert "route_on_fault" in graph.branches["tools"]


def _llm(*script: Said) -> Any:
    return llama_index_model(list(script))


async def _code_execute_fn(reader: Reader) -> None:
    names = {**vars(llama_index), **vars(agent_workflow), "Sandbox": Sandbox}
    made = await reader.run(**names, llm=_llm("done"))
    assert isinstance(made["agent"], agent_workflow.CodeActAgent)
    assert "an image" not in str(made["agent"].system_prompt)


async def _stops_on_fault(reader: Reader) -> None:
    made = await reader.run(**{**vars(llama_index), **vars(agent_workflow)})
    assert issubclass(made["Agent"], agent_workflow.CodeActAgent)


async def _kern_function_agent(reader: Reader) -> None:
    await reader.run(**vars(llama_index), llm=_llm(*[FAILS] * 3))
    assert reader.printed().startswith("repeated Stopped: ")


async def _llama_index_events(reader: Reader) -> None:
    transcript = Transcript(live=False)
    tools: Any = llama_index.as_tools(reader.sandbox)
    agent: Any = agent_workflow.FunctionAgent(tools=tools, llm=_llm(FAILS, "sorry"))
    handler = agent.run(user_msg="go")
    known = {"handler": handler, "events_of": llama_index.events_of}
    await reader.run(**known, transcript=transcript)
    await handler
    assert "= exit 1" in str(transcript)


async def _kern_fault(reader: Reader) -> None:
    (run_code,) = llama_index.as_tools(reader.sandbox, "run_code")
    names = {**vars(workflow), **vars(llama_index), "run_code": run_code}
    made = await reader.run(**names)
    assert "ok" in await made["Analysis"](timeout=60).run(code="print(7)")
    slow = await made["Analysis"](timeout=60).run(code="import time; time.sleep(60)")
    assert slow.startswith("timeout: ")


async def _end_on_stop(reader: Reader) -> None:
    made = await reader.run(**vars(openai_agents), Agent=agents.Agent)
    turns = [[asked({"code": "1/0"}, call_id=f"c{n}")] for n in range(3)]
    made["agent"].model = ScriptedModel(*turns, [said()])
    quiet = agents.RunConfig(tracing_disabled=True)
    run = await agents.Runner.run(made["agent"], "go", run_config=quiet)
    assert openai_agents.stop_of(run) is not None


async def _loop_events(reader: Reader) -> None:
    from kern_tools import loop_events

    show = (await reader.run(**vars(loop_events)))["show"]
    show(TextPiece(turn=1, text="words"))
    show(OutputEvent(call_id="c", stream="stdout", text="passed over"))
    assert reader.printed() == "words"


async def _other_tools(reader: Reader) -> None:
    made = other_tool((await reader.run(date=date))["get_weather"])
    assert isinstance(made, OtherTool)
    assert made.definition["description"] == "The weather of a city."
    assert set(made.definition["parameters"]["properties"]) == {"city", "day"}


async def _policy(reader: Reader) -> None:
    (tool,) = tools_of(reader.sandbox, "run_code")
    made = await reader.run(tool=tool, arguments={"code": "1/0"})
    assert made["reply"].result.exit_code == 1


async def _scripted(reader: Reader) -> None:
    from kern_tools import scripted

    made = await reader.run(**vars(scripted), OpenAI=OpenAI)
    made["client"].close()
    assert made["server"].url.startswith(str(made["client"].base_url)[:-1])


async def _stand_in(reader: Reader) -> None:
    from kern_tools import stand_in

    made = await reader.run(**vars(stand_in), OpenAI=OpenAI)
    made["client"].close()
    assert made["model"].requests[0].body["input"] == "What is 6 * 7?"


async def _telemetry(reader: Reader) -> None:
    await reader.run()
    assert reader.sandbox.observer is not None
    uninstrument(reader.sandbox)


def _same(thing: Any) -> Any:
    return thing


async def _testing(reader: Reader) -> None:
    from kern_tools import testing

    # Outside of a test module, a fixture is a plain method.
    plain = SimpleNamespace(fixture=_same)
    known = {"MyCaller": _same, "my_tools": responses_caller}
    made = await reader.run(**{**vars(testing), **known, "pytest": plain})
    adapter = made["TestMyAdapter"]().adapter(reader.sandbox)
    assert "42" in adapter.call("run_code", {"code": "6 * 7"}).text


async def _transcript(reader: Reader) -> None:
    tools = openai.as_tools(reader.sandbox)
    with ScriptedServer(["warm"]) as server:
        client = OpenAI(base_url=server.url, api_key="k")
        known = {"client": client, "tools": tools, "run_loop": openai.run_loop}
        await reader.run(**known, Transcript=Transcript)
        client.close()
    assert "warm" in (reader.folder / "run.html").read_text(encoding="utf-8")


READERS: dict[str, Callable[[Reader], Awaitable[None]]] = {
    "kern_tools.adapters.langchain.events:events_of": _langchain_events,
    "kern_tools.adapters.langchain.middleware:FaultMiddleware": _fault_middleware,
    "kern_tools.adapters.langchain.middleware:ImagesToUser": _images_to_user,
    "kern_tools.adapters.langchain.repair:CallRepair": _call_repair,
    "kern_tools.adapters.langchain.routing:route_on_fault": _route_on_fault,
    "kern_tools.adapters.llama_index.agents:KernFunctionAgent": _kern_function_agent,
    "kern_tools.adapters.llama_index.agents:StopsOnFault": _stops_on_fault,
    "kern_tools.adapters.llama_index.code_act:code_execute_fn": _code_execute_fn,
    "kern_tools.adapters.llama_index.events:events_of": _llama_index_events,
    "kern_tools.adapters.llama_index.signals:KernFault": _kern_fault,
    "kern_tools.adapters.openai_agents.watches:end_on_stop": _end_on_stop,
    "kern_tools.loop_events": _loop_events,
    "kern_tools.other_tools": _other_tools,
    "kern_tools.policy": _policy,
    "kern_tools.scripted": _scripted,
    "kern_tools.stand_in": _stand_in,
    "kern_tools.telemetry": _telemetry,
    "kern_tools.testing": _testing,
    "kern_tools.transcript": _transcript,
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """One sandbox for all examples."""
    with Sandbox(timeout_s=2, prewarm=0) as sandbox:
        yield sandbox


def test_every_example_has_a_reader() -> None:
    """A docstring's code that no test would run is found, and a reader of none too."""
    assert sorted(READERS) == DOCUMENTED


@pytest.mark.parametrize("where", sorted(READERS))
async def test_the_example_runs(
    where: str,
    sandbox: Sandbox,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it is printed, and it does what is said of it."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)
    module, *inner = where.split(":")
    thing = reduce(getattr, inner, import_module(module))
    printed = lambda: capsys.readouterr().out  # noqa: E731
    await READERS[where](Reader(thing, sandbox, printed, tmp_path))
