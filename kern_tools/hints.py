"""Why code failed by itself, where the nature of its sandbox is the reason.

A traceback says what went wrong, and a model that has not understood the place it is
in then tries the same again in other words. What is recognised here gets one line of
advice, whose words are templates in `kern_tools.prompts`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .facts import SandboxFacts
from .faults import FaultType
from .result import ExecutionResult

_TAIL_CHARS = 4_000
_DETAIL_MAX_CHARS = 80

_Applies = Callable[[SandboxFacts, ExecutionResult], bool]


@dataclass(frozen=True, slots=True)
class Hint:
    """What was recognised.

    Attributes:
        name: That of its template.
        details: What the template may name besides the facts.
    """

    name: str
    details: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class _Sign:
    """How a failure shows in stderr; groups of the pattern are the details.

    The code may write anything there, and a detail stands in a line of ours: a group
    takes a name, never blanks or quotes, so that it cannot go on in words of its own.

    Attributes:
        name: Of the hint.
        pattern: Searched in the last line, or in all of the tail.
        applies: Whether the hint is true of this sandbox.
        whole: Search all of the tail.
    """

    name: str
    pattern: re.Pattern[str]
    applies: _Applies
    whole: bool


def _sign(
    name: str, pattern: str, applies: _Applies | None = None, *, whole: bool = False
) -> _Sign:
    always: _Applies = lambda facts, result: True  # noqa: E731
    return _Sign(name, re.compile(pattern, re.MULTILINE), applies or always, whole)


def _closed(facts: SandboxFacts, result: ExecutionResult) -> bool:
    return facts.network != "on"


def _forgets(facts: SandboxFacts, result: ExecutionResult) -> bool:
    return facts.mode != "kernel" or result.state_new


def _not_found(facts: SandboxFacts, result: ExecutionResult) -> bool:
    return result.exit_code == 127


_SIGNS = (
    _sign("no_stdin", r"^EOFError: EOF when reading a line$"),
    _sign("no_module", r"^ModuleNotFoundError: No module named '(?P<module>[\w.-]+)'"),
    _sign("no_name", r"^NameError: name '(?P<variable>\w+)' is not defined", _forgets),
    _sign("cut_string", r"^SyntaxError: unterminated string literal\b"),
    _sign("no_memory", r"^(?:[\w.]+\.)?\w*MemoryError\b"),
    _sign("read_only", r"^OSError: \[Errno 30\] |: Read-only file system$"),
    _sign("no_space", r"^OSError: \[Errno 28\] |: No space left on device$"),
    _sign(
        "no_processes",
        r"^BlockingIOError: \[Errno 11\] |^RuntimeError: can't start new thread$"
        r"|fork: (?:retry: )?Resource temporarily unavailable",
    ),
    _sign(
        "no_program",
        r"(?:^|: )(?P<program>[\w.+-]+): (?:command )?not found$",
        _not_found,
    ),
    _sign(
        "no_program",
        r"subprocess\.py[\s\S]*"
        r"^FileNotFoundError: \[Errno 2\] [^']*: '(?P<program>[\w.+-]+)'\Z",
        whole=True,
    ),
    _sign("no_file", r"^FileNotFoundError: \[Errno 2\] |: No such file or directory$"),
    _sign(
        "no_network",
        r"Temporary failure in name resolution|Name or service not known"
        r"|Network is unreachable|Could not resolve host|getaddrinfo E\w+"
        r"|Tunnel connection failed: 403|HTTP Error 403: Forbidden",
        _closed,
        whole=True,
    ),
    _sign(
        "no_node_module",
        r"^Error: Cannot find module '(?P<module>[\w.@/:+~-]+)'",
        whole=True,
    ),
)

HINTS = tuple(dict.fromkeys(sign.name for sign in _SIGNS))
"""The names of all hints."""


def hint_for(result: ExecutionResult, facts: SandboxFacts) -> Hint | None:
    """Recognise why code failed.

    Args:
        result: What the call produced.
        facts: What is true of the sandbox it ran in.

    Returns:
        The first reason that fits. None for code that did not fail, and for an end
        that was not its own, but a wait for a network that is not there.
    """
    if result.success:
        return None
    found = _recognised(result, facts)
    if found is None or result.fault is None:
        return found
    waited = result.fault_type == FaultType.TIMEOUT and found.name == "no_network"
    return found if waited else None


def _recognised(result: ExecutionResult, facts: SandboxFacts) -> Hint | None:
    tail = result.code_stderr[-_TAIL_CHARS:].rstrip()
    last = tail.rpartition("\n")[2]
    for sign in _SIGNS:
        match = sign.pattern.search(tail if sign.whole else last)
        if match is not None and sign.applies(facts, result):
            found = match.groupdict()
            return Hint(sign.name, {n: d[:_DETAIL_MAX_CHARS] for n, d in found.items()})
    return None
