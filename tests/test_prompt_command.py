"""`kern-tools prompt` and `tools`: what a model is told, printed for any stack."""

from __future__ import annotations

import json
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

from kern_tools import Sandbox
from kern_tools.adapters import openai
from kern_tools.cli import app
from kern_tools.config import Budget, SandboxConfig
from kern_tools.faults import FaultType
from kern_tools.flags import OPTIONS
from kern_tools.hints import HINTS
from kern_tools.prompting import system_prompt, tool_description
from kern_tools.tool_forms import FORMS
from kern_tools.tools import tools_of
from tests.depth import partly

# Options that are no flag: of a program that goes on, or for those who write Python.
NO_FLAGS = {
    *("prewarm", "max_age_s", "setup_timeout_s", "pull_timeout_s", "max_running"),
    *("cap_drop", "profiles", "max_output_bytes", "enforce_limits", "apparmor"),
    *("track_files", "on_stdout", "on_stderr", "budget"),
}
USAGE = 2


def kern_tools(*words: str) -> str:
    """Run a command that has to end well, and give what it printed."""
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def printed(*words: str) -> Any:
    """Run a command that prints JSON."""
    return json.loads(kern_tools(*words))


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ((), {}),
        (
            ("--mode", "resident", "--toolchain"),
            {"mode": "resident", "toolchain": True},
        ),
        (("--mode", "kernel", "--network"), {"mode": "kernel", "network": True}),
        (("--egress-allow", "a.org,b.org"), {"egress_allow": ["a.org", "b.org"]}),
        (("--packages", "mdurl"), {"packages": ["mdurl"]}),
        (
            ("--setup", "true", "--no-deps-readonly"),
            {"setup": "true", "deps_readonly": False},
        ),
        (
            ("--timeout-s", "9", "--timeout-max-s", "70"),
            {"timeout_s": 9, "timeout_max_s": 70},
        ),
        (
            ("--memory-mb", "99", "--cpus", "1.5", "--pids", "44"),
            {"memory_mb": 99, "cpus": 1.5, "pids": 44},
        ),
        (
            ("--tmpfs", "/a:1m", "--tmpfs", "/b:2m"),
            {"tmpfs": {"/a": "1m", "/b": "2m"}},
        ),
        (("--tmpfs", "none"), {"tmpfs": {}}),
        (("--workspace-max-bytes", "5000000"), {"workspace_max_bytes": 5_000_000}),
        (
            ("--text-chars", "900", "--images", "0"),
            {"budget": Budget(text_chars=900, images=0)},
        ),
        (("--env", "A=1", "--env", "B=2"), {"env": {"A": "1", "B": "2"}}),
    ],
    ids=str,
)
def test_flags_say_what_options_say(
    words: tuple[str, ...], options: dict[str, Any]
) -> None:
    """The same words as of a `Sandbox` with the options of the same names."""
    told = printed("prompt", "--json", "--tools", "coding", *words)
    with Sandbox(**options) as sandbox:
        facts = sandbox.describe().offering("coding")
    assert told["system"] == system_prompt(facts)
    assert list(told["tools"]) == list(facts.tools)
    for name, description in told["tools"].items():
        assert description == tool_description(name, facts)


def test_a_mount_is_told(tmp_path: Path) -> None:
    """By where code sees it."""
    told = kern_tools("prompt", "--system", "--mount", f"{tmp_path}:/data:ro")
    assert "- Read-only: /data.\n" in told
    assert str(tmp_path) not in told


def test_each_option_of_a_sandbox_has_its_flag() -> None:
    """Under the same name, but for those that a command line has no use for."""
    options = {field.name for field in fields(SandboxConfig) if field.init}
    budget = {field.name for field in fields(Budget)}
    assert set(OPTIONS) <= options | budget
    assert options - set(OPTIONS) == NO_FLAGS


@pytest.mark.parametrize("command", ["run", "tools", "prompt"])
def test_commands_share_the_flags(command: str) -> None:
    """What can be shown can be run, with the same words."""
    shown = kern_tools(command, "--help")
    names = {"mounts": "mount"}
    for name in OPTIONS:
        assert f"--{names.get(name, name).replace('_', '-')}" in shown


def test_one_text_is_printed_alone() -> None:
    """For a shell that puts it where it is wanted."""
    with Sandbox() as sandbox:
        assert kern_tools("prompt", "--system") == f"{sandbox.system_prompt()}\n"
        (tool,) = tools_of(sandbox, "run_code")
        told = kern_tools("prompt", "--description", "run_code")
        assert told == f"{tool.description}\n"


def test_advice_is_printed_for_each_fault_and_each_hint() -> None:
    """What a reply would say after `next:`."""
    told = printed("prompt", "--json")["advice"]
    assert {name.partition(" ")[0] for name in told} == {*FaultType, *HINTS}
    shown = kern_tools("prompt", "--faults")
    assert all(text in shown for text in told.values())
    online = printed("prompt", "--json", "--network")["advice"]
    assert set(told) - set(online) == {"no_network"}


@pytest.mark.parametrize(
    "words",
    [
        ("prompt", "--description", "nothing"),
        ("prompt", "--tmpfs", "/tmp"),
        ("tools", "--format", "yaml"),
    ],
    ids=" ".join,
)
def test_a_wrong_word_is_a_wrong_command_line(words: tuple[str, ...]) -> None:
    """It exits with 2, and names what there is."""
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stdout) == (USAGE, "")


# -- tools


# By name: these packages take seconds to load, and one test here needs them.
KINDS = {
    "anthropic": ("anthropic.types", "ToolParam"),
    "gemini": ("google.genai.types", "FunctionDeclaration"),
    "mcp": ("mcp.types", "Tool"),
}


@pytest.mark.parametrize("strict", ["--strict", "--no-strict"])
@pytest.mark.parametrize("form", partly(KINDS, lambda form: form != "anthropic"))
def test_a_form_is_what_that_sdk_takes(form: str, strict: str) -> None:
    """Each definition is read by the SDK's own type, and nothing of it is lost."""
    module, name = KINDS[form]
    known: TypeAdapter[Any] = TypeAdapter(getattr(import_module(module), name))
    for definition in printed("tools", "--tools", "coding", "--format", form, strict):
        read = known.validate_python(definition)
        kept = known.dump_python(read, mode="json", by_alias=True, exclude_none=True)
        assert kept == definition


def test_custom_tools_are_those_of_the_adapter() -> None:
    """Code is free text; the other tools are functions."""
    done = printed("tools", "--format", "openai-custom")
    with Sandbox() as sandbox:
        assert done == openai.as_tools(sandbox).custom


@pytest.mark.parametrize("form", FORMS)
def test_schemas_are_strict_where_that_is_usual(form: str) -> None:
    """OpenAI's strict mode wants all properties required; others the plain ones."""
    usual = printed("tools", "--format", form)
    strict = printed("tools", "--format", form, "--strict")
    assert (usual == strict) == FORMS[form].strict
