"""The function that runs the code of a `CodeActAgent`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from kern_tools.adapters.llama_index.tools import KernFunctionTool, as_tools
from kern_tools.extras import missing
from kern_tools.policy import FaultPolicy
from kern_tools.sandbox import Sandbox
from kern_tools.saying import saying
from kern_tools.source import Pool

try:
    from llama_index.core.agent.workflow.codeact_agent import EXECUTE_TOOL_NAME
    from llama_index.core.workflow import Context
except ImportError as error:
    missing("llama-index", error)

__all__ = ["CodeResult", "code_execute_fn"]


class CodeResult(dict[str, Any]):
    """The result as plain JSON, as `result_of` reads it; its text is the model's."""

    def __init__(self, artifact: dict[str, Any], text: str) -> None:
        super().__init__(artifact)
        self._text = text

    def __str__(self) -> str:
        return self._text


class CodeExecuteFn(Protocol):
    """What a `CodeActAgent` calls; LlamaIndex brings the context."""

    def __call__(self, ctx: Context[Any], code: str) -> Awaitable[CodeResult]:
        """Run code."""
        ...


def code_execute_fn(
    sandbox: Sandbox | Pool,
    *,
    policy: FaultPolicy | None = None,
    tenant: Callable[[Any], Any] | None = None,
    idempotent: bool = False,
) -> CodeExecuteFn:
    """Run the Python that a `CodeActAgent` writes in a sandbox.

        with Sandbox(mode="kernel") as sandbox:
            agent = CodeActAgent(
                code_execute_fn=code_execute_fn(sandbox),
                llm=llm,
                system_prompt=sandbox.system_prompt("code", images="none"),
            )

    That agent tells its model that variables outlive a call: use `mode="kernel"`, or
    give it another `code_act_system_prompt`. Functions in its `tools` it offers to the
    code, where no box has them: leave them out.

    Args:
        sandbox: Where the code runs; open for as long as the agent runs. Of a pool,
            each `Context` has a sandbox of its own.
        policy: Bounds for its calls, as in `as_tools`.
        tenant: With a pool, given the `Context`, tells whose it is; may be async.
        idempotent: A call that is made again under its id runs once, as in `as_tools`.

    Returns:
        An async function. `result_of` reads what came of a call from its
        `ToolCallResult`; a fault does not set `is_error` there, which the agent leaves
        to itself. Output, faults and the policy's end are streamed as events.
    """
    (tool,) = as_tools(
        sandbox,
        "run_code",
        images="none",
        policy=policy,
        tenant=tenant,
        idempotent=idempotent,
    )
    assert isinstance(tool, KernFunctionTool)
    tool.called_as = EXECUTE_TOOL_NAME

    async def execute(ctx: Context[Any], code: str) -> CodeResult:
        """Run Python code in the sandbox."""
        with saying(takes_limit=False):  # It is given code alone.
            output = await tool.acall(code=code, ctx=ctx)
        return CodeResult(output.raw_output, output.content)

    # LlamaIndex looks for these types as they are, not as text.
    execute.__annotations__ = {"ctx": Context, "code": str, "return": CodeResult}
    vars(execute)["watches"] = tool.watches
    return execute
