"""A sandbox as the shell of an agent, for models that were taught OpenAI's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kern_tools.adapters.openai_agents.tools import PROVIDER_KEY, RunContext, source_of
from kern_tools.adapters.openai_agents.watches import Watches, with_stop
from kern_tools.events import OnOutput
from kern_tools.extras import missing
from kern_tools.once import once
from kern_tools.policy import FaultPolicy
from kern_tools.sandbox import Sandbox
from kern_tools.shell_output import shell_contents
from kern_tools.shell_tool import SHELL
from kern_tools.source import Pool
from kern_tools.toolspec import Tool

try:
    import agents
except ImportError as error:
    missing("openai-agents", error)


def as_shell_tool(
    sandbox: Sandbox | Pool,
    *,
    conversation: Callable[[RunContext], Any] | None = None,
    tenant: Callable[[RunContext], Any] | None = None,
    on_output: OnOutput | None = None,
    policy: FaultPolicy | None = None,
    idempotent: bool = False,
) -> agents.ShellTool:
    """Run the commands of the `shell` tool in `sandbox`, each as `run_command` does.

    Each has an outcome of its own, an exit code or `timeout`; what the sandbox has to
    say of a fault stands above what the command wrote to stderr.

    Args:
        sandbox: Where they run, as in `as_tools`.
        conversation: With a pool, given the run's context, tells the conversation.
        tenant: With a pool, given the same, tells whose it is; may be async.
        on_output: Given an `OutputEvent` for each piece that a command writes.
        policy: Bounds for its calls in each run. The SDK lets no shell end a run: once
            a bound is reached nothing runs any more, and `stop_of(run)` says why.
        idempotent: As in `as_tools`.

    Returns:
        A local shell; `result_of` reads what decided from the items of a run.
    """
    tool = Tool(once(SHELL) if idempotent else SHELL, source_of(sandbox, tenant))
    watches = None if policy is None else Watches(policy)

    async def execute(request: agents.ShellCommandRequest) -> agents.ShellResult:
        action, context = request.data.action, request.ctx_wrapper
        watch = None if watches is None else watches.of(context)
        call = tool.acall if watch is None else partial(watch.acall, tool)
        reply = await call(
            {
                "commands": action.commands,
                "timeout_ms": action.timeout_ms,
                "max_output_length": action.max_output_length,
            },
            call_id=request.data.call_id,
            conversation=None if conversation is None else conversation(context),
            offered=context,
            on_output=on_output,
        )
        stop = None if watch is None else watch.stopped
        return agents.ShellResult(
            output=[_command_output(content) for content in shell_contents(reply)],
            provider_data={PROVIDER_KEY: with_stop(reply.artifact, stop)},
        )

    return agents.ShellTool(executor=execute)


def _command_output(content: dict[str, Any]) -> agents.ShellCommandOutput:
    outcome = agents.ShellCallOutcome(**content["outcome"])
    return agents.ShellCommandOutput(
        stdout=content["stdout"], stderr=content["stderr"], outcome=outcome
    )
