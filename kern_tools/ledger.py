"""What the calls of one loop came to, as far as a policy has to know it.

It holds digests and counts: small, plain JSON, with nothing of what a model wrote. It
can be kept, and it can be made again from a history.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, TypeAdapter

from .arguments import Read, read_arguments
from .faults import SandboxFault
from .result import ExecutionResult
from .stop import Stop, host_stop, repeat_stop
from .tools import TOOLS

if TYPE_CHECKING:
    from .policy import FaultPolicy

AGAIN_MAX_CHARS = 300
"""The most that `Again.line` has."""

_READS_ONLY = {"read_file", "list_files", "search_files", "find_files"}
_FAILURES_KEPT = 64
_KEYS_KEPT = 256
# Of one failure: addresses and durations differ from run to run.
_PASSING = re.compile(
    r"[0-9](?:x[0-9a-fA-F]+|[0-9]*(?:\.[0-9]+)? ?(?:ms|s|sec|seconds)\b)"
)


class Outcome(NamedTuple):
    """One call and what it came to.

    Attributes:
        tool: The tool that was called.
        key: Of the call, see `call_key`.
        result: The run, or None where nothing ran.
        error: None, `bad_arguments`, or the code of a file error.
    """

    tool: str
    key: str
    result: ExecutionResult | None
    error: str | None

    @property
    def failed(self) -> bool:
        """The call did not do what it was made for."""
        if self.result is not None:
            return not self.result.success
        return self.error is not None

    @property
    def fault(self) -> SandboxFault | None:
        """What the sandbox did, or None."""
        return None if self.result is None else self.result.fault

    @property
    def is_the_hosts(self) -> bool:
        """Who runs the host has to act, not who wrote the code."""
        return self.fault is not None and self.fault.actor == "operator"

    @property
    def verdict(self) -> str:
        """How it ended, in the words that its reply begins with."""
        if self.fault is not None:
            return f"fault: {self.fault.type}"
        if self.result is not None:
            return f"exit {self.result.exit_code}"
        return "bad arguments" if self.error == "bad_arguments" else str(self.error)

    @property
    def way(self) -> str:
        """A digest of how it failed: the verdict, and what the code itself said."""
        said = [self.verdict, self.error]
        if self.fault is not None:
            said.append(self.fault.reason)
        elif self.result is not None:
            streams = (self.result.code_stderr, self.result.stdout)
            said += [_PASSING.sub("", stream) for stream in streams]
        return _digest(said)

    @property
    def acted(self) -> bool:
        """It may have changed what later calls come to."""
        if self.result is not None:
            return not self.is_the_hosts
        return self.error is None and self.tool not in _READS_ONLY


@dataclass(slots=True)
class Failure:
    """What is known of a call that failed.

    Attributes:
        count: How often in a row.
        verdict: How it ended last.
        way: A digest of how it failed last.
        timed_out: It met the time limit last.
        raised_timeout_s: The limit then, where a policy had raised it.
    """

    count: int
    verdict: str
    way: str
    timed_out: bool = False
    raised_timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """A call that failed before and was sent again unchanged: it failed again.

    Attributes:
        repeats: How often it was sent again in a row, this time included; 0 where
            another call did something in between.
        line: What the reply begins with.
    """

    repeats: int
    line: str


@dataclass(slots=True)
class _State:
    failures: dict[str, Failure] = field(default_factory=dict[str, Failure])
    keys: list[str] = field(default_factory=list[str])
    host_failures: int = 0
    stop: Stop | None = None


_STATE = TypeAdapter(_State)


class Ledger:
    """Counts what a policy bounds; not safe between threads.

    Args:
        policy: Whose bounds.
        state: What `dump` gave.

    Raises:
        ValueError: `state` is something else.
    """

    def __init__(
        self, policy: FaultPolicy, state: Mapping[str, Any] | None = None
    ) -> None:
        self._policy = policy
        self._state = _State() if state is None else _STATE.validate_python(state)

    @property
    def stop(self) -> Stop | None:
        """Why the loop has to end, or None."""
        return self._state.stop

    def dump(self) -> dict[str, Any]:
        """Give all of it as plain JSON."""
        return dict(_STATE.dump_python(self._state, mode="json"))

    def known(self, key: str) -> Failure | None:
        """Look a call up before it is made.

        Returns:
            How it failed before, as it is known now; None where it did not.
        """
        failure = self._state.failures.get(key)
        return None if failure is None else replace(failure)

    def enter(self, outcome: Outcome, known: Failure | None) -> Again | None:
        """Enter a call that has ended.

        Args:
            outcome: The call and what it came to.
            known: What `known` said before it was made: calls that were made at once
                do not count as repeats of each other.

        Returns:
            What to say first where it failed as before, else None.
        """
        if outcome.error == "stopped":
            return None
        self._count_host(outcome)
        if outcome.is_the_hosts:
            return None
        again = self._fail(outcome, known) if outcome.failed else None
        if not outcome.failed:
            self._state.failures.pop(outcome.key, None)
        self._count_act(outcome)
        return again

    def replay(self, turns: Iterable[Sequence[Outcome]]) -> None:
        """Enter the calls of a history.

        Args:
            turns: For each turn of the model, its calls in order.
        """
        for turn in turns:
            known = [self.known(outcome.key) for outcome in turn]
            for outcome, before in zip(turn, known, strict=True):
                self.enter(outcome, before)

    def _count_host(self, outcome: Outcome) -> None:
        fault, state = outcome.fault, self._state
        if fault is None or not outcome.is_the_hosts:
            if outcome.result is not None:
                state.host_failures = 0
            return
        state.host_failures += 1
        if _reached(state.host_failures, self._policy.max_host_failures):
            stop = host_stop(outcome.tool, fault, state.host_failures)
            state.stop = state.stop or stop

    def _fail(self, outcome: Outcome, known: Failure | None) -> Again | None:
        failed = 1 if known is None else known.count + 1
        self._keep(outcome, failed)
        if known is None:
            return None
        if _reached(failed - 1, self._policy.max_repeats):
            stop = repeat_stop(outcome.tool, outcome.verdict, outcome.fault, failed)
            self._state.stop = self._state.stop or stop
        line = _again_line(outcome, known, failed)
        return None if line is None else Again(failed - 1, line)

    def _keep(self, outcome: Outcome, failed: int) -> None:
        failures, result = self._state.failures, outcome.result
        failures.pop(outcome.key, None)
        failures[outcome.key] = Failure(
            count=failed,
            verdict=outcome.verdict,
            way=outcome.way,
            timed_out=result is not None and result.fault_type == "timeout",
            raised_timeout_s=None if result is None else result.raised_timeout_s,
        )
        while len(failures) > _FAILURES_KEPT:
            del failures[next(iter(failures))]

    def _count_act(self, outcome: Outcome) -> None:
        """After a call that was new and did something, other calls may go better."""
        if outcome.key in self._state.keys or not outcome.acted:
            return
        self._state.keys = [*self._state.keys[1 - _KEYS_KEPT :], outcome.key]
        for key, failure in self._state.failures.items():
            if key != outcome.key:
                failure.count = 0


def call_key(tool: str, arguments: object, read: Read[BaseModel] | None = None) -> str:
    """Name a call, so that the same one is known again.

    Args:
        tool: The tool that was called.
        arguments: What the model wrote.
        read: The same as it was read; None reads it.

    Returns:
        A digest. Calls that differ in what is repaired, or in an absent property that
        may as well be null, have the same one.
    """
    spec = TOOLS.get(tool)
    if read is None and spec is not None:
        read = read_arguments(arguments, spec.arguments, code_field=spec.code_field)
    if read is None or read.arguments is None:
        return _digest([tool, arguments])
    said = read.arguments.model_dump(exclude_none=True)
    if spec is not None and spec.code_field in said:  # A fence may leave a line end.
        said[spec.code_field] = said[spec.code_field].strip("\n").rstrip()
    return _digest([tool, said])


def _reached(number: int, most: int | None) -> bool:
    return most is not None and number >= most


def _digest(said: object) -> str:
    written = json.dumps(said, sort_keys=True, default=repr)
    return hashlib.sha256(written.encode()).hexdigest()[:16]


def _again_line(outcome: Outcome, known: Failure, failed: int) -> str | None:
    again, same = f"{outcome.verdict} again", outcome.way == known.way
    if known.count == 0:  # something was done since
        how = "an earlier call was the same, and it failed in the same way"
        return f"{again}: {how}." if same else None
    how = "it failed in the same way" if same else "it failed again, with other output"
    if outcome.verdict != known.verdict:
        how = f"it failed again, after {known.verdict} before"
    return (
        f"{again}: this is the same call as before, unchanged, and {how} ({failed}"
        " times in a row). Do not send it once more: change what fails in it."
    )
