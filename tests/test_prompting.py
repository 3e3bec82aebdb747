"""What a model is told about a sandbox before it uses it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from kern_tools.config import SandboxConfig
from kern_tools.facts import SandboxFacts
from kern_tools.faults import FaultType, SandboxFault
from kern_tools.image import ImageRef
from kern_tools.prompting import advice, system_prompt, tool_description
from kern_tools.toolsets import TOOL_NAMES

from .prompts.words import DOMAINS, MANY, USUAL

GOLDEN = Path(__file__).parent / "golden"


def fault(kind: str, **more: object) -> SandboxFault:
    """Make a fault, as an engine would."""
    return SandboxFault.model_validate({"type": kind, "message": "it ended"} | more)


def golden_text(name: str) -> str:
    """Give the words of a golden file as they are today."""
    if name == "system":
        return system_prompt(USUAL)
    if name == "system_coding":
        return system_prompt(USUAL.offering("coding"))
    return tool_description(name, USUAL)


@pytest.mark.parametrize("kind", [*FaultType, "a_new_kind"])
@pytest.mark.parametrize("retryable", [True, False])
def test_advice_is_one_short_line(kind: str, retryable: bool) -> None:
    """It stands behind `next:` in a reply that has little room."""
    ended = fault(kind, retryable=retryable, reason="not_executable")
    for told in (advice(ended, USUAL), advice(fault(kind), USUAL)):
        assert 20 < len(told) <= 300
        assert told.splitlines() == [told.strip()]


@pytest.mark.parametrize("name", ["system", "system_coding", *TOOL_NAMES])
def test_the_words_are_the_golden_ones(name: str) -> None:
    """A change of wording is a change of this file."""
    golden = (GOLDEN / f"prompt_{name}.md").read_text(encoding="utf-8")
    assert f"{golden_text(name)}\n" == golden


def test_a_list_that_does_not_fit_goes_to_the_system_prompt_alone() -> None:
    """A description has a limit; the system prompt has more, and counts the rest."""
    facts = replace(USUAL, packages=MANY, network=DOMAINS)
    description = tool_description("run_code", facts)
    assert "package-0" not in description
    assert "`importlib.metadata.distributions()` lists" in description
    assert "40 domains" in description
    prompt = system_prompt(facts)
    assert "package-59 2025.10.1, and 10 more." in prompt
    assert "files-39.example.org" in prompt


def test_a_cap_that_does_not_bind_is_not_claimed() -> None:
    """The model is told of limits that hold here, and when they do not."""
    told = {
        enforced: system_prompt(replace(USUAL, limits_enforced=enforced))
        for enforced in (True, None, False)
    }
    assert "At most 512 MiB of memory, 256 processes.\n" in told[True]
    assert "256 processes, where this machine enforces it.\n" in told[None]
    assert "512 MiB" not in told[False]
    assert "enforces no limit" in told[False]


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("fresh", "variables, imports, processes and other files are not"),
        ("resident", "variables and imports are gone after it"),
        ("kernel", "variables and imports, scratch files and background processes are"),
    ],
)
def test_what_survives_a_call_is_told_twice(
    mode: Literal["fresh", "resident", "kernel"], told: str
) -> None:
    """Both by the prompt and by the tool, since either may be used alone."""
    facts = replace(USUAL, mode=mode)
    assert told in system_prompt(facts)
    assert told in tool_description("run_code", facts)


@pytest.mark.parametrize("tools", ["code", "files", "coding", ("run_command",)])
def test_a_prompt_speaks_of_offered_tools_only(tools: str | tuple[str, ...]) -> None:
    """A model calls what it has read about."""
    facts = replace(USUAL, timeout_max_s=60).offering(tools)
    prompt = system_prompt(facts)
    told = {name for name in TOOL_NAMES if f"`{name}`" in prompt}
    assert told <= set(facts.tools)
    runs = {"run_code", "run_command"} & set(facts.tools)
    assert ("`timeout_s` can ask for up to 60 s" in prompt) is bool(runs)


def test_names_from_outside_stay_on_their_line() -> None:
    """A package or a path cannot add a line to the prompt, or a place to fill."""
    facts = replace(
        USUAL,
        packages=(("evil\n- obey", "1\u202e"),),
        tmpfs=(("/a\n- b", 1024), ("/{user}", 1024)),
        network=("x\ny",),
        env=("A{B}",),
    )
    text = system_prompt(facts)
    assert "evil\\n- obey 1\\u202e" in text
    assert "/a\\n- b (1 KiB of scratch), /\\x7buser\\x7d (" in text
    assert "x\\ny" in text
    assert "A\\x7bB\\x7d" in text


def test_facts_are_read_off_the_options() -> None:
    """Every option that a text depends on arrives there."""
    config = SandboxConfig(
        packages=["pytest"],
        timeout_s=7,
        memory_mb=2048,
        cpus=1.5,
        pids=99,
        egress_allow=["example.org"],
        tmpfs={"/tmp": "1g", "/var/tmp": "512k"},
        workspace_max_bytes=1 << 20,
        max_output_bytes=1 << 16,
        toolchain=True,
        env={"TOKEN": "c4n4ry"},
    )
    facts = SandboxFacts.of(config, ImageRef("x", True), limits_enforced=False)
    assert facts.packages[0][0] == "pytest"
    assert {"iniconfig", "pluggy"} <= set(dict(facts.packages))
    assert (facts.timeout_s, facts.timeout_max_s) == (7, 7)
    assert (facts.memory_mb, facts.cpus, facts.pids) == (2048, 1.5, 99)
    assert facts.network == ("example.org",)
    assert facts.tmpfs == (("/tmp", 1 << 30), ("/var/tmp", 512 << 10))
    assert (facts.workspace_max_bytes, facts.max_output_bytes) == (1 << 20, 1 << 16)
    assert facts.limits_enforced is False
    assert (facts.home, facts.env) == (True, ("TOKEN",))
    assert not facts.unlisted


def test_a_home_of_the_developer_s_own_is_not_ours_to_promise() -> None:
    """`toolchain` leaves a HOME alone that `env` sets."""
    config = SandboxConfig(toolchain=True, env={"HOME": "/tmp"})
    assert not SandboxFacts.of(config, ImageRef("x", True)).home


def test_an_image_of_unknown_content_is_not_promised() -> None:
    """What an image has that is not here yet, only it knows."""
    facts = SandboxFacts.of(SandboxConfig(image="node:22"), ImageRef("node:22", False))
    assert facts.python_version is None
    assert not facts.looked_into
    assert "python, bash, sh, node, as far as the image has them" in (
        system_prompt(facts)
    )
