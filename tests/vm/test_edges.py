"""Where caps bind for real: what they take along, and what they leave alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .machine import answers_of

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def seen() -> dict[str, list[dict[str, Any]]]:
    """Boot the machine once and give the results of each case."""
    answers = answers_of(Path(__file__).parent / "guest/edges.py")
    return {answer["case"]: answer["results"] for answer in answers}


@pytest.mark.parametrize("mode", ["resident", "kernel"])
def test_an_oom_ends_a_session_and_keeps_the_files(
    seen: dict[str, list[dict[str, Any]]], mode: str
) -> None:
    """The call says that the box is gone, the next one that it started anew."""
    _, ended, after, later = seen[mode]

    assert (ended["fault"]["type"], ended["exit_code"]) == ("oom", 137)
    assert (ended["stdout"], ended["state_lost"]) == ("before\n", True)
    assert (after["stdout"], after["state_new"]) == ("kept False\n", True)
    assert (later["stdout"], later["state_new"]) == ("on\n", False)


def test_an_oom_of_a_child_is_not_handled_by_a_shell(
    seen: dict[str, list[dict[str, Any]]],
) -> None:
    """The kernel takes the whole box, so that `||` never runs."""
    (result,) = seen["handled"]

    assert (result["fault"]["type"], result["stdout"]) == ("oom", "")


def test_scratch_as_large_as_the_cap_ends_the_box(
    seen: dict[str, list[dict[str, Any]]],
) -> None:
    """Its bytes are charged to the box; the default is small enough to be just full."""
    (larger,), (usual,) = seen["scratch"], seen["scratch by default"]

    assert larger["fault"]["type"] == "oom"
    assert (usual["fault"], usual["exit_code"]) == (None, 1)
    assert "No space left on device" in usual["code_stderr"]


def test_a_workspace_counts_where_the_host_keeps_it_in_memory(
    seen: dict[str, list[dict[str, Any]]],
) -> None:
    """On a disk, a file larger than the cap is none of its business."""
    (memory,), (disk,) = seen["workspace in memory"], seen["workspace on disk"]

    assert memory["fault"]["type"] == "oom"
    assert (disk["fault"], disk["exit_code"]) == (None, 0)


def test_code_can_read_its_caps(seen: dict[str, list[dict[str, Any]]]) -> None:
    """Where programs that know of control groups look for them."""
    (result,) = seen["limits"]

    assert result["stdout"].split("\n") == [
        str(64 << 20),
        "0",
        "32",
        "50000 100000",
        "",
    ]


def test_the_memory_of_a_profile_binds(
    seen: dict[str, list[dict[str, Any]]],
) -> None:
    """The fault is the same, and makes up no number."""
    (result,) = seen["profile"]

    assert result["fault"]["type"] == "oom"
    assert result["fault"]["message"] == "out of memory: the box went over its limit"


def test_an_unhandled_fork_over_the_cap_names_the_reason(
    seen: dict[str, list[dict[str, Any]]],
) -> None:
    """The code ends by its own exception, and nobody else ended it."""
    (result,) = seen["forks"]

    assert (result["exit_code"], result["fault"]) == (1, None)
    assert "Resource temporarily unavailable" in result["code_stderr"]


def test_a_setup_has_the_memory_of_the_calls(
    seen: dict[str, list[dict[str, Any]]],
) -> None:
    """The error of one that needs more names the option to raise."""
    (refused,) = seen["setup"]

    assert "out of memory" in refused["error"]
    assert "raise memory_mb" in refused["error"]
