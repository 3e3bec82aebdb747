"""The memory and process caps for real, in a virtual machine that enforces them."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from .machine import answers_of

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def seen() -> dict[str, dict[str, Any]]:
    """Boot the machine once and give what came of each case."""
    answers = answers_of(Path(__file__).parent / "guest/cases.py")
    return {answer.pop("case"): answer for answer in answers}


def test_kern_itself_says_oom(seen: dict[str, dict[str, Any]]) -> None:
    """The four bytes that our verdict rests on: started, cap bound, oom, SIGKILL."""
    assert seen["kern_alone"] == {"exit_code": 137, "verdict": [1, 1, 1, 9]}


def test_the_host_report_says_that_caps_bind(seen: dict[str, dict[str, Any]]) -> None:
    """On a host with cgroup v2 and its controllers, caps are enforced."""
    report = seen["host"]

    assert (report["ok"], report["limits_enforced"]) == (True, True)
    assert report["cgroups"] == "v2"


@pytest.mark.parametrize(
    "case",
    [
        "in_the_cell",
        "in_a_warm_box",
        "in_a_child",
        "through_shared_memory",
        "in_bash",
        "without_python",
    ],
)
def test_outgrowing_the_cap_is_oom(seen: dict[str, dict[str, Any]], case: str) -> None:
    """Whoever in the box takes the memory, and however, the fault is `oom`."""
    result = seen[case]

    assert (result["fault"]["type"], result["exit_code"]) == ("oom", 137)
    assert result["limits_enforced"] is True
    assert result["code_stderr"] == ""


def test_output_before_an_oom_is_kept(seen: dict[str, dict[str, Any]]) -> None:
    """What the cell printed before it was killed is in the result."""
    assert seen["in_the_cell"]["stdout"] == "before\n"


def test_memory_within_the_cap_is_the_codes_own(
    seen: dict[str, dict[str, Any]],
) -> None:
    """`require_limits=True` starts where caps bind, and leaves modest code alone."""
    result = seen["within_the_cap"]

    assert (result["stdout"], result["fault"]) == (f"{20 << 20}\n", None)
    assert result["limits_enforced"] is True


def test_oom_cannot_be_claimed_by_a_cell(seen: dict[str, dict[str, Any]]) -> None:
    """The sentence and exit code of an oom, from the code, are just what they are."""
    result = seen["forged"]

    assert (result["exit_code"], result["fault"]) == (137, None)


def test_the_process_cap_is_an_error_in_the_code(
    seen: dict[str, dict[str, Any]],
) -> None:
    """A fork over the cap fails with EAGAIN; the sandbox did not act."""
    result = seen["processes"]

    assert (result["stdout"], result["fault"]) == (f"{errno.EAGAIN}\n", None)


def test_a_sandbox_goes_on_after_an_oom(seen: dict[str, dict[str, Any]]) -> None:
    """The next call has a box of its own, and the files of the one before."""
    result = seen["after_an_oom"]

    assert (result["stdout"], result["fault"]) == ("kept\n", None)


def test_an_oom_leaves_siblings_alone(seen: dict[str, dict[str, Any]]) -> None:
    """A call beside the killed one runs on to its end."""
    result = seen["beside_an_oom"]

    assert (result["stdout"], result["fault"]) == ("unharmed\n", None)


def test_the_caps_that_bind_are_told(seen: dict[str, dict[str, Any]]) -> None:
    """The prompt names them, and so does the advice once one was met."""
    told = seen["told"]

    assert "At most 64 MiB of memory, 16 processes." in told["prompt"]
    assert "At most 64 MiB of memory, 16 processes." in told["description"]
    assert told["oom"].startswith("fault: oom. Out of memory: the box went over its 64")
    assert told["oom"].rpartition("\n")[2].startswith("next: use less memory: ")
    assert told["processes"].endswith(" at a time: there may be 16.")
