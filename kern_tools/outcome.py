"""From an ended call to the result that everyone reads."""

from __future__ import annotations

from dataclasses import replace

from .call import Call, Lost
from .config import SandboxConfig
from .faults import FaultType, SandboxFault
from .launch import NOT_FOUND
from .listing import Files
from .result import ExecutionResult
from .verdict import NOTHING_RAN, Evidence, Terms, Verdict, judge


def result_of_call(
    call: Call,
    seen: Evidence,
    config: SandboxConfig,
    *,
    files: Files,
    limits_enforced: bool | None,
    lost: Lost | None = None,
) -> ExecutionResult:
    """Put together what one call produced."""
    verdict = judge(_with_shell_word(seen, call), _terms(call, config))
    ours, uncapped = seen.ended_by is not None, limits_enforced is False
    stdout, lossy_stdout = call.stdout.text()
    code_stderr, lossy_stderr = call.stderr.text()
    code_stderr += call.stray_stderr
    started_s = call.submitted_s if call.started_s is None else call.started_s
    ended_s = started_s if call.ended_s is None else call.ended_s
    return ExecutionResult(
        stdout=stdout,
        code_stderr=code_stderr,
        runtime_notes=[line for line in call.notes.splitlines() if line != NOT_FOUND],
        exit_code=verdict.exit_code,
        signal=verdict.signal,
        fault=_explained(verdict, config, uncapped=not ours and uncapped),
        duration_ms=round((ended_s - started_s) * 1000),
        queued_ms=round((started_s - call.submitted_s) * 1000),
        start_ms=_start_ms(call, seen),
        warm=None if call.started_s is None else not call.cold,
        files=list(files),
        files_omitted=files.total - len(files),
        results=call.results,
        results_omitted=call.results_omitted,
        truncated=call.stdout.truncated or call.stderr.truncated,
        stdout_bytes=call.stdout.total_bytes,
        stderr_bytes=call.stderr.total_bytes,
        lossy=lossy_stdout or lossy_stderr,
        limits_enforced=limits_enforced,
        call_id=call.call_id,
        state_lost=config.mode != "fresh" and seen.box_gone,
        state_new=call.state_new or lost is not None,
        files_lost=lost == "files",
    )


def _start_ms(call: Call, seen: Evidence) -> int | None:
    """Give the time until the box could take the code up; all of it if it never did."""
    if call.started_s is None:
        return None
    ready_s = call.ready_s
    if ready_s is None:
        ready_s = call.started_s if seen.ran else call.ended_s or call.started_s
    return round((ready_s - call.started_s) * 1000)


def blocked_result(call_id: str | None, fault: SandboxFault) -> ExecutionResult:
    """Give the result of a call that was not started at all."""
    return ExecutionResult(fault=fault, exit_code=NOTHING_RAN, call_id=call_id)


def _terms(call: Call, config: SandboxConfig) -> Terms:
    return Terms(
        timeout_s=call.timeout_s,
        memory_mb=config.memory_mb,
        workspace_max_bytes=config.workspace_max_bytes,
        image=config.image,
        command=call.work.argv[0] if call.work.argv else "python3",
    )


def _with_shell_word(seen: Evidence, call: Call) -> Evidence:
    """Read the one line by which our wrapper says that a command is missing."""
    if seen.status == 127 and NOT_FOUND in call.notes.splitlines():
        return replace(seen, exec_failure=(0, False, call.work.argv[0]))
    return seen


def _explained(
    verdict: Verdict, config: SandboxConfig, *, uncapped: bool
) -> SandboxFault | None:
    """Say what more is known of a fault than the end of its box tells."""
    fault = verdict.fault
    if fault is None:
        return None
    if fault.type == FaultType.KILLED and uncapped:
        return _killed_uncapped(fault, config)
    if fault.type == FaultType.STARTUP_FAILED and fault.reason == "host":
        return _not_started(fault, config)
    if fault.reason == "not_found" and "PATH" in config.env:
        message = f"{fault.message}, on the PATH that env={{'PATH': ...}} sets there"
        return fault.model_copy(update={"message": message})
    return fault


def _killed_uncapped(fault: SandboxFault, config: SandboxConfig) -> SandboxFault:
    """Name the cap that did not bind: the host may have run out of memory instead."""
    if config.memory_mb is None:
        return fault
    why = f"memory_mb={config.memory_mb} does not bind on this host"
    message = f"{fault.message}; {why}, which may be short of memory"
    return fault.model_copy(update={"message": message})


def _not_started(fault: SandboxFault, config: SandboxConfig) -> SandboxFault:
    """Find out what kept a box from starting, where that can be asked."""
    missing = [str(bind.source) for bind in config.binds if not bind.source.exists()]
    if missing:
        message = f"the mounted path {missing[0]!r} is gone from the host"
        return fault.model_copy(update={"reason": "mount", "message": message})
    given = [
        f"{name}={getattr(config, name)!r}"
        for name in ("profiles", "apparmor", "user", "cpus")
        if getattr(config, name)
    ]
    if given:  # what only kern can check, when it builds a box
        message = f"{fault.message}; check {', '.join(given)}"
        return fault.model_copy(update={"message": message})
    return fault
