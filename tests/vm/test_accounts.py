"""`user`, and images with a `USER`: code that is not root of its box."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .machine import answers_of

pytestmark = [pytest.mark.vm, pytest.mark.verify, pytest.mark.timeout(1200)]

ROOT_RANGE, PERSON_RANGE = 100_000, 200_000
READ = ["of a box", "of the host and a box", "of the host and a box"]
FILES = ["given.txt", "made/deep/mine.txt"]


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """Boot the machine once and give what came of each case."""
    answers = answers_of(Path(__file__).parent / "guest/accounts.py")
    return {answer["case"]: answer["answer"] for answer in answers}


@pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
def test_code_of_another_account_shares_the_workspace(
    seen: dict[str, Any], mode: str
) -> None:
    """Both read and change what the other made, and nothing is left at close."""
    answer = seen[mode]

    assert (answer["said"], answer["stderr"]) == ("1000 1000\n", "")
    assert answer["owner"] == ROOT_RANGE + 999
    assert answer["files"] == [*FILES, "shut/inner"]
    assert (answer["read"], answer["left"]) == (READ, False)


def test_a_given_folder_is_shared_and_stays(seen: dict[str, Any]) -> None:
    """An account by its name may change what was there before."""
    answer = seen["a given folder"]

    assert (answer["said"], answer["stderr"]) == ("65534 65534\n", "")
    assert answer["owner"] == ROOT_RANGE + 65_533
    assert (answer["read"], answer["left"]) == (READ, True)


def test_root_of_a_box_is_who_opened_it(seen: dict[str, Any]) -> None:
    """Nothing has to be shared then."""
    answer = seen["root"]

    assert (answer["said"], answer["owner"]) == ("0 0\n", 0)
    assert answer["read"] == READ


def test_the_account_of_an_image_counts_as_well(seen: dict[str, Any]) -> None:
    """A `USER` in it is what code runs as, unless `user` says another."""
    own, root = seen["an image's own account"], seen["root of that image"]

    assert (own["said"], own["stderr"], own["read"]) == ("1000 1000\n", "", READ)
    assert (root["said"], root["stderr"], root["read"]) == ("0 0\n", "", READ)


def test_a_setup_runs_as_root_whatever_the_image_says(seen: dict[str, Any]) -> None:
    """It could write to no folder of ours otherwise."""
    assert seen["setup"] == "0\n"


def test_what_was_restored_is_shared_too(seen: dict[str, Any]) -> None:
    """Code may change the files of a snapshot."""
    assert seen["restored"] == "kept!\n"


def test_it_works_without_privileges(seen: dict[str, Any]) -> None:
    """What an account closes is out of reach, and gone at close all the same."""
    answer = seen["person"]

    assert (answer["said"], answer["stderr"]) == ("1000 1000\n", "")
    assert answer["owner"] == PERSON_RANGE + 999
    assert answer["files"] == FILES
    assert (answer["read"], answer["left"]) == (READ, False)
    assert seen["person, a given folder"]["read"] == READ
