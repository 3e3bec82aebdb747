"""Options that are mistyped or cannot be used: what the errors say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kern_tools import ConfigError, Sandbox, SandboxPool
from tests.depth import crossed

# Each value of each axis; `make verify` takes every pair.
pytestmark = crossed()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("max_sandbox", 3, "max_sandbox=3 is no"),
        ("max_sandbox", 3, "did you mean max_sandboxes?"),
        ("maxSandboxes", 3, "did you mean max_sandboxes"),
        ("idle_timeout", 9, "did you mean idle_timeout_s"),
        ("snapshot", "/x", "did you mean snapshots"),
        ("timeout", 3, "did you mean timeout_s"),
        ("zzz", "s3cret", "the options are max_sandboxes,"),
    ],
)
def test_a_mistyped_option_is_answered_with_the_right_one(
    name: str, value: object, said: str
) -> None:
    """Of the pool's own as well as of its sandboxes'; a text may be a secret."""
    with pytest.raises(ConfigError) as refused:
        SandboxPool(**{name: value})  # type: ignore[arg-type]
    assert refused.value.option == name
    assert said in str(refused.value)
    assert "s3cret" not in str(refused.value)


async def not_awaited(sandbox: Sandbox, key: str, tenant: str | None) -> None:
    """Nobody would run this."""


@pytest.mark.parametrize(
    ("option", "value", "remedy"),
    [
        ("max_sandboxes", 0, "write the sandboxes as an int"),
        ("max_sandboxes", "3", "write the sandboxes as an int"),
        ("max_per_tenant", True, "write the sandboxes as an int"),
        ("idle_timeout_s", -1, "write the seconds as a number"),
        ("snapshots", 3, "write a folder"),
        ("secret", 3, "write it as a str"),
        ("on_evict", 3, "pass a function of three arguments"),
        ("on_evict", not_awaited, "pass a function of three arguments"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(
    option: str, value: object, remedy: str
) -> None:
    """With its value and what to write instead, before anything starts."""
    with pytest.raises(ConfigError) as refused:
        SandboxPool(**{option: value})  # type: ignore[arg-type]
    assert refused.value.option == option
    assert remedy in str(refused.value)
    if option != "secret":
        assert repr(value)[:40] in str(refused.value)


def test_what_is_no_config_is_no_config() -> None:
    """A dict of options is a natural mistake."""
    with pytest.raises(ConfigError, match=r"SandboxPool\(\*\*options\)"):
        SandboxPool({"timeout_s": 5})  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["/nowhere", ""])
@pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
def test_a_program_that_env_hides_is_told_as_such(mode: str, given: str) -> None:
    """The image has it, but not on the `PATH` that the option sets; no value shows."""
    with Sandbox(mode=mode, prewarm=0, env={"PATH": given}) as sandbox:
        hidden = sandbox.run(["ls"])
        cell = sandbox.run_code("print(1)")
        shown = sandbox.run(["/bin/ls", "/workspace"])
    assert hidden.fault is not None
    assert (hidden.fault.type, hidden.fault.reason) == ("exec_failed", "not_found")
    assert "env={'PATH': ...}" in hidden.fault.message
    assert "/nowhere" not in hidden.fault.message
    assert (cell.stdout, shown.exit_code) == ("1\n", 0)


def test_a_home_of_yours_is_where_code_looks() -> None:
    """`env` goes before what `toolchain` would make."""
    with Sandbox(prewarm=0, toolchain=True, env={"HOME": "/workspace/mine"}) as sandbox:
        assert sandbox.run(["sh", "-c", "echo $HOME"]).stdout == "/workspace/mine\n"
        assert sandbox.list_files() == []


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"PATH": None}, "env['PATH'] is of type NoneType; write it as a str"),
        ({"HOME": 5}, "env['HOME'] is of type int; write it as a str"),
        ({"A B": "s3cret"}, "env names a variable 'A B'"),
        ({"A=s3cret": ""}, "env names a variable 'A'"),
        ("PATH=/bin", "env is of type str, not a mapping"),
    ],
)
def test_an_environment_that_cannot_be_used_is_named(env: object, said: str) -> None:
    """By variable and remedy; what may be a secret is not shown."""
    with pytest.raises(ConfigError) as refused:
        Sandbox(env=env)
    assert refused.value.option == "env"
    assert said in str(refused.value)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("given", [{"timeout_s": 5}, "host"], ids=repr)
def test_what_is_no_config_makes_no_sandbox(given: Any) -> None:
    """The error shows how options are given."""
    with pytest.raises(ConfigError, match=r"Sandbox\(\*\*options\)"):
        Sandbox(given)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Give a sandbox that is asked for what starts no box."""
    with Sandbox(prewarm=0) as opened:
        yield opened


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ("ls -l", "argv='ls -l' is not a list of words"),
        ([], "argv=[] is not a list of words"),
        ((), "argv=() is not a list of words"),
        (["", "-l"], "names no program"),
        (["ls", 5], "holds 5, which is not a str"),
        (["ls", b"a"], "holds b'a', which is not a str"),
        ([None], "names no program"),
        (["ls", "a\0b"], "a NUL at position 1"),
        (["ls", "ab\ud800"], "a lone surrogate at position 2"),
    ],
    ids=repr,
)
async def test_a_command_that_no_process_can_be_given_is_refused(
    sandbox: Sandbox, argv: Any, said: str
) -> None:
    """Before a box is started, in both ways of running it."""
    with pytest.raises(ConfigError) as refused:
        sandbox.run(argv)
    with pytest.raises(ConfigError) as again:
        await sandbox.arun(argv)
    assert refused.value.option == again.value.option == "argv"
    assert said in str(refused.value)
    assert str(refused.value) == str(again.value)


@pytest.mark.parametrize(
    ("code", "language", "option"),
    [
        ("1", "ruby", "language"),
        ("1", "Python", "language"),
        ("1", "", "language"),
        (b"1", "python", "code"),
        (None, "python", "code"),
        (["ls"], "sh", "code"),
        ("echo \0", "sh", "code"),
        ("echo \0", "bash", "code"),
        ("'\ud800'", "node", "code"),
    ],
    ids=repr,
)
def test_code_that_no_language_can_be_given_is_refused(
    sandbox: Sandbox, code: Any, language: str, option: str
) -> None:
    """With the option that is wrong, before a box is started."""
    with pytest.raises(ConfigError) as refused:
        sandbox.run_code(code, language)
    assert refused.value.option == option


@pytest.mark.parametrize("language", ["sh", "bash"])
@pytest.mark.parametrize("size", [90_000, 300_000])
def test_a_script_longer_than_a_command_line_runs_whole(
    sandbox: Sandbox, language: str, size: int
) -> None:
    """Its last line too, whatever Linux takes of one argument."""
    script = "x=$((40 + 2))\n".ljust(size, "#") + "\necho $x"
    assert sandbox.run_code(script, language).stdout == "42\n"
