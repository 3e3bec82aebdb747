"""What a model did with a sandbox, and whether the plumbing held."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator

from kern_tools import ExecutionResult, Sandbox
from kern_tools.tools import tools_of

# The tool's description alone has to make it call: there is no system prompt.
QUESTION = "What is 2**100?"
VALUE = "1267650600228229401496703205376"
TOOL = "run_code"
# It may send the same call again for as long as it is asked.
MAX_TURNS = 3
MAX_TOKENS = 200  # A stubborn answer would go on until the context is full.

Call = tuple[Any, ExecutionResult | None]
"""The arguments as the model wrote them, read or not, and what ran."""


@dataclass(slots=True)
class Seen:
    """What one loop came to.

    Attributes:
        calls: All that it made, in order.
        turns: How often the model was asked.
        text: What it said in the end.
    """

    calls: list[Call] = field(default_factory=list[Call])
    turns: int = 0
    text: str = ""


@contextmanager
def judged(name: str, sandbox: Sandbox, told: list[str]) -> Generator[Seen]:
    """Check that a call was right, that its value came back, and that the loop ended.

    Whether the model ends it or the limit on turns, and what it says of the value, is
    not looked at: that would be a test of its wits.

    Args:
        name: Which loop it is.
        sandbox: Where its calls run.
        told: Gets a line of figures, whatever the verdict.

    Yields:
        What is to be filled in.
    """
    seen, start_s = Seen(), time.monotonic()
    yield seen
    took_s = time.monotonic() - start_s
    (tool,) = tools_of(sandbox, TOOL)
    schema: Any = Draft202012Validator(tool.schema(strict=False))
    valid = [ran for written, ran in seen.calls if schema.is_valid(_read(written))]
    right = [ran for ran in valid if ran is not None and VALUE in _shown(ran)]
    figures = f"{len(seen.calls)} calls, {len(valid)} valid, {len(right)} right"
    told.append(
        f"{name}: {took_s:.0f} s, {seen.turns} turns, {figures}; {seen.text[:70]!r}"
    )
    assert right, seen.calls
    assert seen.turns <= MAX_TURNS


def _read(written: Any) -> Any:
    try:
        return json.loads(written) if isinstance(written, str) else written
    except json.JSONDecodeError:
        return None


def _shown(result: ExecutionResult) -> str:
    return result.stdout + "".join(value.text or "" for value in result.results)
