"""Why a loop has to end: typed for code, and in words for people."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from .faults import FaultType, SandboxFault
from .quantities import count

_DOCTOR = {None, "host", "limits", "slow_build"}
"""Reasons of which `kern-tools doctor` has more to say."""


class StopReason(StrEnum):
    """Why a loop has to end."""

    REPEATED = "repeated"
    """The model sends a call again and again that fails each time."""
    HOST = "host"
    """Calls do not run, and the code is not to blame: the circuit is open."""


class Stop(BaseModel):
    """The end of a loop, for the code around it and for who runs the host."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    reason: StopReason
    """To branch on."""
    message: str
    """For people: what happened, how often, and whose turn it is."""
    tool: str
    """The tool whose call was the last straw."""
    count: int
    """How many calls in a row led here."""
    fault: SandboxFault | None = None
    """Of the last one; None where the code failed by itself."""


def host_stop(tool: str, fault: SandboxFault, failures: int) -> Stop:
    """End a loop whose calls do not run.

    Args:
        tool: The tool of the last call.
        fault: Of the last call; the operator's.
        failures: How many calls in a row ended so.
    """
    what = f"{fault.type}, {fault.reason}" if fault.reason else str(fault.type)
    calls = "1 call" if failures == 1 else f"{failures:,} calls in a row"
    if fault.type == FaultType.STARTUP_FAILED:
        ended, blame = "did not start", "The code is not to blame"
    else:
        ended, blame = (
            "did not end by themselves",
            "Something outside the code ended it",
        )
    more = " `kern-tools doctor` tells more." if fault.reason in _DOCTOR else ""
    message = (
        f"Stopped: {calls} {ended}, the last one with {what}:"
        f" {fault.message.rstrip('.')}. {blame}: whoever runs this host has to act."
        f"{more}"
    )
    return Stop(
        reason=StopReason.HOST,
        message=message,
        tool=tool,
        count=failures,
        fault=fault,
    )


def repeat_stop(
    tool: str, verdict: str, fault: SandboxFault | None, failed: int
) -> Stop:
    """End a loop whose model sends one call again and again.

    Args:
        tool: The tool that it calls.
        verdict: How the last call ended.
        fault: Of the last call, if any.
        failed: How many times in a row it failed.
    """
    message = (
        f"Stopped: the model called `{tool}` {count(failed, 'time')} in a row with the"
        f" same arguments, and each call failed, the last one with {verdict}. It does"
        " not change what it sends: a person, or another model, has to look at it."
    )
    return Stop(
        reason=StopReason.REPEATED,
        message=message,
        tool=tool,
        count=failed,
        fault=fault,
    )
