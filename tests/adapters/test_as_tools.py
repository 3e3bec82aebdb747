"""What `as_tools` of each adapter refuses, and what it leaves out without images."""

# The frameworks leave parts of their types open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kern_tools import ConfigError, FaultPolicy, Sandbox, SandboxPool
from kern_tools.adapters import langchain, llama_index, mcp, openai, openai_agents
from kern_tools.adapters.langchain import FaultMiddleware, route_on_fault
from tests.depth import crossed

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()

Offer = Callable[..., Any]

OFFERS: dict[str, Offer] = {
    "openai": openai.as_tools,
    "langchain": langchain.as_tools,
    "langchain toolkit": lambda sandbox, tools="code", **options: (
        langchain.KernToolkit.model_construct(
            sandbox=sandbox, tools=tools, **options
        ).get_tools()
    ),
    "llama_index": llama_index.as_tools,
    "llama_index spec": llama_index.KernToolSpec,
    "openai_agents": openai_agents.as_tools,
    "mcp": mcp.as_server,
}
WRONG: dict[str, tuple[Any, ...]] = {
    "images": ("base64", None, True),
    "strict": ("no", None, 1),
    "tenant": (5, "me"),
}
CASES = [(option, value) for option, values in WRONG.items() for value in values]
each_offer = pytest.mark.parametrize("offer", OFFERS.values(), ids=OFFERS)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """A sandbox in which nothing runs."""
    with Sandbox(prewarm=0) as sandbox:
        yield sandbox


@each_offer
@pytest.mark.parametrize(("option", "value"), CASES, ids=repr)
def test_what_an_option_cannot_be_is_refused(
    sandbox: Sandbox, offer: Offer, option: str, value: Any
) -> None:
    """It would be taken for the opposite of what is meant, or fail in a call."""
    with pytest.raises(ConfigError) as caught:
        offer(sandbox, **{option: value})
    assert caught.value.option == option


@each_offer
@pytest.mark.parametrize("wrong", [None, "sandbox", 5, Sandbox], ids=repr)
def test_what_is_no_sandbox_is_refused(offer: Offer, wrong: Any) -> None:
    """With what to give instead."""
    with pytest.raises(ConfigError, match="give a Sandbox") as caught:
        offer(wrong)
    assert caught.value.option == "sandbox"


@each_offer
@pytest.mark.parametrize("wrong", [None, 5, "nope", ["run_code", 5]], ids=repr)
def test_what_names_no_tools_is_refused(
    sandbox: Sandbox, offer: Offer, wrong: Any
) -> None:
    """With the names there are."""
    with pytest.raises(ConfigError) as caught:
        offer(sandbox, wrong)
    assert caught.value.option == "tools"


def test_a_tenant_is_told_by_a_function() -> None:
    """Also with a pool, which takes one."""
    wrong: Any = "me"
    with SandboxPool(max_sandboxes=1) as pool, pytest.raises(ConfigError) as caught:
        openai.as_tools(pool, tenant=wrong)
    assert caught.value.option == "tenant"


HELD: dict[str, Offer] = {
    "llama_index": lambda sandbox, policy: llama_index.as_tools(sandbox, policy=policy),
    "code act": lambda sandbox, policy: llama_index.code_execute_fn(
        sandbox, policy=policy
    ),
    "agents": lambda sandbox, policy: openai_agents.as_tools(sandbox, policy=policy),
    "agents shell": lambda sandbox, policy: openai_agents.as_shell_tool(
        sandbox, policy=policy
    ),
    "mcp": lambda sandbox, policy: mcp.as_server(sandbox, policy=policy),
    "middleware": lambda _, policy: FaultMiddleware(policy),
    "routes": lambda _, policy: route_on_fault({None: "model"}, policy=policy),
}


@pytest.mark.parametrize("hold", HELD.values(), ids=HELD)
@pytest.mark.parametrize("wrong", [FaultPolicy, {"retries": 1}, 5, "none"], ids=str)
def test_what_is_no_policy_is_refused(
    sandbox: Sandbox, hold: Offer, wrong: Any
) -> None:
    """Where it is given, and not in the first call that fails."""
    with pytest.raises(ConfigError) as caught:
        hold(sandbox, wrong)
    assert caught.value.option == "policy"


@pytest.mark.parametrize("routes", [None, ["timeout"], "timeout", {("a",)}], ids=repr)
def test_what_are_no_routes_is_refused(routes: Any) -> None:
    """They are a mapping."""
    with pytest.raises(ConfigError) as caught:
        route_on_fault(routes)
    assert caught.value.option == "routes"


# without images


def _words(offer: Offer, sandbox: Sandbox, images: str) -> str:
    """Give all that a model is told of tools."""
    made = offer(sandbox, images=images)
    if isinstance(made, openai.OpenAITools):
        return repr([made.chat, made.responses, made.custom, made.chat_custom])
    if isinstance(made, llama_index.KernToolSpec):
        made = made.to_tool_list()
    if not isinstance(made, list):
        return str(made.instructions)
    return repr(
        [getattr(t, "description", None) or t.metadata.description for t in made]
    )


@each_offer
def test_no_tool_promises_an_image_that_is_left_out(offer: Offer) -> None:
    """The words of all tools, as a model is told them."""
    with Sandbox(packages=["matplotlib"], prewarm=0) as sandbox:
        assert "comes back as an image" in _words(offer, sandbox, "parts")
        assert "comes back as an image" not in _words(offer, sandbox, "none")
