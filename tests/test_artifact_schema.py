"""The schema that is published for what code finds beside a reply."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kern_tools import ExecutionResult, RichResult, SandboxFault
from kern_tools.artifact_schema import artifact_schema
from kern_tools.reply import Reply
from kern_tools.result import FileInfo

REFUSED = Reply(name="run_code", parts=(), error="bad_arguments").artifact
FULL = ExecutionResult(
    stdout="hi",
    exit_code=137,
    signal=9,
    fault=SandboxFault(type="a_new_one", message="m", reason="r", actor="operator"),
    files=[FileInfo(path="a", size=1)],
    results=[RichResult(data={"text/plain": "1"})],
    call_id="c1",
)


def dumped(result: ExecutionResult) -> dict[str, Any]:
    """Give a result as an artifact."""
    return Reply(name="run_code", parts=(), result=result).artifact


ARTIFACTS = {
    "empty": dumped(ExecutionResult()),
    "full": dumped(FULL),
    "refused": REFUSED,
    "repeated": {**REFUSED, "repeats": 2},
}


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("artifact", ARTIFACTS.values(), ids=ARTIFACTS)
def test_every_artifact_fits(artifact: dict[str, Any], runs: bool) -> None:
    """A tool that only looks at files may have had no sandbox, which is a result."""
    Draft202012Validator(artifact_schema(runs=runs)).validate(artifact)


@pytest.mark.parametrize(
    "other",
    [
        {"fault": None},
        {**ARTIFACTS["full"], "exitCode": "137"},
        {k: v for k, v in ARTIFACTS["full"].items() if k != "stdout"},
        {"error": None, "tool": "run_code"},
    ],
    ids=["nothing else", "wrong type", "a part is missing", "no fault"],
)
def test_what_is_no_artifact_does_not_fit(other: dict[str, Any]) -> None:
    """A client may rely on all parts of a result, or on why there is none."""
    assert not Draft202012Validator(artifact_schema(runs=True)).is_valid(other)


@pytest.mark.parametrize("runs", [True, False])
def test_the_schema_stands_alone(runs: bool) -> None:
    """Clients that cannot follow references would drop every tool of a server."""
    schema = artifact_schema(runs=runs)
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert "$" not in str(schema)
    schema["properties"].clear()
    assert artifact_schema(runs=runs)["properties"]
