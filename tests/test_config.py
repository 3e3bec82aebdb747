"""Every option: what it takes, what it refuses, and what an error says."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from kern_tools import Sandbox
from kern_tools.config import Budget, MountSpec, SandboxConfig
from kern_tools.faults import ConfigError
from kern_tools.option_table import CAPABILITIES

from .depth import examples

OPTIONS = [option.name for option in fields(SandboxConfig) if option.init]
CANARY = "c4n4ry-value"


def swallow(text: str) -> None:
    """Take a piece of output; at module level, so that it can be pickled."""


TAKEN: list[tuple[str, Any]] = [
    ("image", "host"),
    ("image", "python:3.12-slim"),
    ("image", "alpine@sha256:" + "0" * 64),
    ("image", "localhost:5000/a/b:c"),
    ("packages", ["numpy", "scikit-learn", "zope.interface"]),
    ("workspace", None),
    ("workspace", "/tmp/kern-tools-test-workspace"),
    ("workspace", Path("/tmp/kern-tools-test-workspace")),
    ("workspace_max_bytes", None),
    ("workspace_max_bytes", 1),
    ("memory_mb", None),
    ("memory_mb", 2),
    ("memory_mb", 1 << 24),
    ("cpus", None),
    ("cpus", 0.5),
    ("cpus", 2),
    ("pids", None),
    ("pids", 2),
    ("timeout_s", 0.001),
    ("timeout_s", 86_400),
    ("network", True),
    ("egress_allow", ("example.com", "files.example.com", "xn--bcher-kva.xn--p1ai")),
    ("cap_drop", ()),
    ("cap_drop", ["NET_RAW", "CAP_SYS_PTRACE"]),
    ("mounts", {"/usr/lib": "/host-lib"}),
    ("mounts", {Path("/usr/lib"): ("/host-lib", "ro")}),
    ("tmpfs", None),
    ("tmpfs", {}),
    ("tmpfs", {"/tmp": "512m"}),
    ("mode", "resident"),
    ("mode", "kernel"),
    ("prewarm", 0),
    ("prewarm", 8),
    ("setup", None),
    ("setup", "pip install six"),
    ("setup", "set -e\npip install --find-links /wheels six # a script\n"),
    ("setup_timeout_s", 0.5),
    ("deps_readonly", False),
    ("toolchain", True),
    ("setup_code", None),
    ("max_age_s", 60),
    ("timeout_max_s", 300),
    ("profiles", ["vcpu:heavy", "vgpio:leds", "vdisk:scratch.1"]),
    ("env", {"HOME": "/workspace", "_x.y-z": "", "LONG": "a b=c#d"}),
    ("env", {"TOKEN": SecretStr("s")}),
    ("max_output_bytes", 1),
    ("max_output_bytes", 1 << 30),
    ("enforce_limits", False),
    ("require_limits", True),
    ("security_profile", None),
    ("security_profile", "untrusted"),
    ("apparmor", "docker-default"),
    ("user", "node"),
    ("user", "1000:1000"),
    ("track_files", False),
    ("offline", True),
    ("pull_timeout_s", 0.5),
    ("max_running", 1),
    ("on_stdout", swallow),
    ("on_stderr", print),
    ("budget", Budget(text_chars=256, images=0)),
]

NOT_BOOLS: list[object] = [None, 0, 1, "true", []]
NOT_NUMBERS: list[object] = ["5", True, [], {}, math.nan, math.inf, -math.inf, 0, -1]
NOT_INTS: list[object] = [*NOT_NUMBERS, 1.0, "512m", 10**30]
NOT_LISTS: list[object] = [None, 5, "ALL", b"ALL", {"a": 1}, {"a"}]

REFUSED: dict[str, list[object]] = {
    "image": [
        None,
        5,
        b"host",
        "",
        "-x",
        "--help",
        " host",
        "a b",
        "a\n",
        "a\0b",
        "\t",
    ],
    "packages": [
        *NOT_LISTS,
        *(
            [name]
            for name in (5, "", "numpy==2", "numpy>=2", "a b", "./x", "-e", "a[b]")
        ),
    ],
    "workspace": [
        5,
        b"/tmp/x",
        "",
        "ws",
        "~/ws",
        "/",
        "/etc/ws",
        "/tmp/a\0b",
        "/tmp/a,b",
    ],
    "workspace_max_bytes": NOT_INTS,
    "memory_mb": [*NOT_INTS, 1, (1 << 24) + 1],
    "cpus": [*NOT_NUMBERS, 0.001, 5000],
    "pids": [*NOT_INTS, 1],
    "timeout_s": [None, *NOT_NUMBERS, 86_401, 1e9],
    "network": NOT_BOOLS,
    "egress_allow": [
        *NOT_LISTS,
        *(
            [domain]
            for domain in (
                5,
                "",
                "localhost",
                "https://example.com",
                "example.com:443",
                "example.com/simple",
                "*.example.com",
                "1.2.3.4",
                "a b.org",
                "a,b.org",
                "example.com.",
                "example.com\n",
                "b\u00fccher.example",
                "-a.org",
                "a_b.org",
                "a." * 130 + "org",
            )
        ),
    ],
    "cap_drop": [
        *NOT_LISTS,
        *([c] for c in (5, "", "net_raw", "CAP_", "CAP_ALLL", "-x")),
    ],
    "mounts": [None, 5, "/usr", ["/usr"], {"/usr": 5}, {5: "/x"}],
    "tmpfs": [5, "/tmp", ["/tmp"], {"/tmp": "0"}, {"/tmp": "64"}, {"/tmp": 64}],
    "mode": [None, 5, "", "Fresh", "persist"],
    "prewarm": [None, True, -1, 1.5, "1", 257],
    "setup": [5, b"pip", ["pip", "install", "six"], "", " \n", "a\0b", "a\ud800"],
    "setup_timeout_s": [None, *NOT_NUMBERS, 86_401],
    "deps_readonly": NOT_BOOLS,
    "toolchain": NOT_BOOLS,
    "setup_code": [5, b"x", "x\0"],
    "max_age_s": [None, *NOT_NUMBERS],
    "timeout_max_s": [*NOT_NUMBERS, 1],
    "profiles": [
        *NOT_LISTS,
        *(
            [p]
            for p in (5, "", "heavy", "vgpu:x", "vcpu:", "vcpu:-x", "vcpu:a b", "--net")
        ),
    ],
    "env": [
        None,
        5,
        CANARY,
        [CANARY],
        {f"A={CANARY}": CANARY},
        *(
            {name: CANARY}
            for name in ("", "1A", "A B", "A\n", "A\0", "#A", 5, None, "\u00e9")
        ),
        *({"A": value} for value in (None, 5, True, CANARY.encode(), [CANARY])),
        *({"A": CANARY + bad} for bad in ("\n", "\r", "\0", "\ud800")),
        {"A": SecretStr(CANARY + "\n")},
    ],
    "max_output_bytes": [None, *NOT_INTS, (1 << 30) + 1],
    "enforce_limits": NOT_BOOLS,
    "require_limits": NOT_BOOLS,
    "security_profile": [5, "", "x", "Untrusted", True],
    "apparmor": [5, "", "-x", "a b", "a/b", "a\n", "x" * 129],
    "user": [5, 1000, "", "-x", "a:b:c", "a:", ":a", "a b", "root\n"],
    "track_files": NOT_BOOLS,
    "offline": NOT_BOOLS,
    "pull_timeout_s": [None, *NOT_NUMBERS],
    "max_running": [None, *NOT_INTS, 5000],
    "on_stdout": [5, "print", True],
    "on_stderr": [5, "print", True],
    "budget": [None, 5, {"text_chars": 8000}],
}
ROWS = [(name, value) for name, values in REFUSED.items() for value in values]


def refused(**options: Any) -> ConfigError:
    """Return the error with which options are refused."""
    with pytest.raises(ConfigError) as caught:
        SandboxConfig(**options)
    return caught.value


def test_every_option_has_rows() -> None:
    """A new option comes with what it takes and what it refuses."""
    assert {name for name, _ in TAKEN} == set(OPTIONS)
    assert set(REFUSED) == set(OPTIONS)


@pytest.mark.parametrize(("name", "value"), TAKEN)
def test_a_good_value_is_taken(name: str, value: Any) -> None:
    """Each option takes what its documentation says."""
    config = SandboxConfig(**{name: value})
    assert config.replace() == config


@pytest.mark.parametrize(("name", "value"), ROWS)
def test_a_bad_value_is_refused(name: str, value: object) -> None:
    """The error is a ConfigError that names the option and ends with a remedy."""
    error = refused(**{name: value})
    assert isinstance(error, ValueError)
    assert error.option == name
    message = str(error)
    assert name.rstrip("s") in message
    assert "; " in message


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "memory_mb",
            "512m",
            "memory_mb='512m' is not an int; write the MiB as an int from 2 to"
            " 16777216",
        ),
        (
            "timeout_s",
            math.inf,
            "timeout_s=inf is not finite; write the seconds as a number from 0.001 to"
            " 86400",
        ),
        (
            "cap_drop",
            "ALL",
            "cap_drop='ALL' is not a list or tuple; write cap_drop=[...], or []",
        ),
        (
            "cap_drop",
            ["NET_ROW"],
            "cap_drop[0]='NET_ROW' is not a Linux capability; write a name such as"
            " 'NET_RAW'",
        ),
        (
            "security_profile",
            "x",
            "security_profile='x' is not known; write 'untrusted'",
        ),
    ],
)
def test_a_message_says_what_is_wrong_and_what_to_write(
    name: str, value: object, message: str
) -> None:
    """The option, its value, why not, and what instead."""
    assert str(refused(**{name: value})).startswith(message)


def test_a_long_value_is_cut_in_the_message() -> None:
    """A message stays readable whatever was passed."""
    assert len(str(refused(user="x" * 10_000))) < 200


@pytest.mark.parametrize("name", CAPABILITIES)
def test_every_capability_is_known(name: str) -> None:
    """Each may be dropped alone, with and without its prefix."""
    assert SandboxConfig(cap_drop=[name, f"CAP_{name}"]).cap_drop[0] == name


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("memoryMb", "memory_mb"),
        ("timeout", "timeout_s"),
        ("timeoutS", "timeout_s"),
        ("maxOutputBytes", "max_output_bytes"),
        ("egress_allowed", "egress_allow"),
    ],
)
def test_an_unknown_option_is_named_with_what_was_meant(name: str, meant: str) -> None:
    """A mistyped or camelCase name is answered with the right one."""
    error = refused(**{name: CANARY})
    assert error.option == name
    assert f"did you mean {meant}" in str(error)
    assert CANARY not in str(error)


def test_an_unknown_option_like_no_other_gets_the_whole_list() -> None:
    """Where nothing is near, all names are shown."""
    message = str(refused(zzz=1))
    assert all(name in message for name in OPTIONS)


def test_the_defaults_are_safe() -> None:
    """Nothing that relaxes isolation is on unless asked for."""
    config = SandboxConfig()
    assert config.image == "host"
    assert (config.memory_mb, config.pids, config.timeout_s) == (512, 256, 30)
    assert config.network is False
    assert config.cap_drop == ("ALL",)
    assert config.max_output_bytes == 1 << 20
    assert dict(config.scratch) == {"/tmp": "64m"}
    assert config.binds == ()
    assert config.environment() == {}


CONTRADICTORY: dict[str, tuple[dict[str, Any], str]] = {
    "the host's network and an allowlist": (
        {"network": True, "egress_allow": ["example.com"]},
        "egress_allow=('example.com',) has no meaning with network=True, which allows"
        " everything; leave one of the two out",
    ),
    "setup code of names that do not survive": (
        {"setup_code": "x = 1"},
        "setup_code='x = 1' is only for mode='kernel', not for 'fresh'; leave it out,"
        " or begin each call with that code",
    ),
    "the same in a resident box": (
        {"setup_code": "x = 1", "mode": "resident"},
        "setup_code='x = 1' is only for mode='kernel', not for 'resident'; leave it"
        " out, or begin each call with that code",
    ),
    "a longest limit below the usual one": (
        {"timeout_max_s": 29.9, "timeout_s": 30},
        "timeout_max_s=29.9 is less than timeout_s=30; raise it",
    ),
    "packages of this Python for another": (
        {"packages": ["numpy"], "image": "alpine"},
        "packages=('numpy',) is only for image='host', not for 'alpine'; leave it out,"
        " or use an image that has them",
    ),
    "a budget of another type": (
        {"budget": {"text_chars": 8000}},
        "budget={'text_chars': 8000} is not a Budget; write Budget(...)",
    ),
}


@pytest.mark.parametrize(
    ("options", "message"), CONTRADICTORY.values(), ids=CONTRADICTORY
)
def test_options_that_promise_what_cannot_hold_are_refused(
    options: dict[str, Any], message: str
) -> None:
    """The error names one of the two, what it is given, and the way out."""
    error = refused(**options)
    assert error.option == message.partition("=")[0]
    assert str(error) == message


def test_options_that_go_together_are_taken() -> None:
    """Each of two that exclude each other elsewhere has a partner that it suits."""
    taken = SandboxConfig(
        mode="kernel",
        setup_code="x = 1",
        egress_allow=["example.com"],
        packages=["numpy"],
        timeout_s=30,
        timeout_max_s=30,
    )
    assert (taken.setup_code, taken.packages) == ("x = 1", ("numpy",))
    assert taken.egress_allow == ("example.com",)
    assert (taken.timeout_s, taken.timeout_max_s) == (30, 30)


def test_required_limits_exclude_a_host_that_accepts_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """KERN_ALLOW_UNCAPPED in the environment says the opposite, whatever its value."""
    monkeypatch.setenv("KERN_ALLOW_UNCAPPED", "0")
    error = refused(require_limits=True)
    assert error.option == "require_limits"
    assert str(error) == (
        "require_limits=True contradicts KERN_ALLOW_UNCAPPED in the environment;"
        " unset the variable"
    )
    SandboxConfig()
    monkeypatch.setenv("KERN_ALLOW_UNCAPPED", "")
    assert SandboxConfig(require_limits=True).require_limits


def test_scratch_follows_memory_mounts_and_profile() -> None:
    """The default knows the options that it depends on."""
    assert dict(SandboxConfig(memory_mb=32).scratch) == {"/tmp": "16m"}
    assert dict(SandboxConfig(memory_mb=None).scratch) == {"/tmp": "64m"}
    assert dict(SandboxConfig(mounts={"/usr/lib": "/tmp"}).scratch) == {}
    assert dict(SandboxConfig(security_profile="untrusted").scratch) == {}
    roomy = SandboxConfig(toolchain=True, memory_mb=4096)
    assert dict(roomy.scratch) == {"/tmp": "512m"}


def test_the_workspace_is_kept_with_its_links_resolved(tmp_path: Path) -> None:
    """What is mounted is the place, not a link to it."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert SandboxConfig(workspace=tmp_path / "link").workspace == tmp_path / "real"


def test_a_config_cannot_be_changed_in_place() -> None:
    """Neither a field nor what a field holds, and not through what was passed."""
    env = {"A": "1"}
    tmpfs = {"/scratch": "1m"}
    packages = ["numpy"]
    config = SandboxConfig(env=env, tmpfs=tmpfs, packages=packages)
    with pytest.raises(FrozenInstanceError):
        config.memory_mb = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        config.env["B"] = "2"  # type: ignore[index]
    env["B"] = "2"
    tmpfs["/more"] = "1m"
    packages.append("pandas")
    assert config.tmpfs == config.scratch == {"/scratch": "1m"}
    assert config.environment() == {"A": "1"}
    assert config.packages == ("numpy",)


def test_a_changed_copy_is_checked_as_a_whole() -> None:
    """`replace` keeps the rest, and refuses what the constructor would."""
    config = SandboxConfig(memory_mb=128, env={"A": "1"}, mounts={"/usr/lib": "/l"})
    changed = config.replace(memory_mb=64, timeout_s=5)
    assert (changed.memory_mb, changed.timeout_s) == (64, 5)
    assert dict(changed.scratch) == {"/tmp": "32m"}
    assert changed.binds == config.binds
    assert changed.environment() == {"A": "1"}
    assert config.memory_mb == 128
    with pytest.raises(ConfigError):
        config.replace(tmpfs={"/tmp": "1g"})
    with pytest.raises(ConfigError, match="did you mean timeout_s"):
        config.replace(timeout=5)


def test_options_beside_a_config_change_a_copy_of_it() -> None:
    """They are checked as a whole, and the config given stays as it was."""
    config = SandboxConfig(timeout_s=7, memory_mb=256)
    assert Sandbox(config, memory_mb=128).config == config.replace(memory_mb=128)
    assert Sandbox(config).config is config
    assert config.memory_mb == 256
    with pytest.raises(ConfigError):
        Sandbox(config, prewarm=-1)


def test_a_config_survives_pickle_and_copy() -> None:
    """A worker process gets the same options, secrets included."""
    config = SandboxConfig(
        env={"A": CANARY}, mounts={"/usr/lib": "/l"}, on_stdout=swallow
    )
    copies = [pickle.loads(pickle.dumps(config)), copy.copy(config)]
    for other in [*copies, copy.deepcopy(config)]:
        assert other == config
        assert hash(other) == hash(config)
        assert other.binds == config.binds
        assert other.environment() == {"A": CANARY}


def test_configs_with_different_secrets_differ() -> None:
    """Equal configs may share a box, so that secrets count."""
    assert SandboxConfig(env={"A": "1"}) != SandboxConfig(env={"A": "2"})


def test_no_text_form_shows_a_secret() -> None:
    """repr, str, the public dump and its JSON show names alone."""
    config = SandboxConfig(env={"TOKEN": CANARY, "A": SecretStr(CANARY)})
    public = config.public()
    for text in (repr(config), str(config), json.dumps(public), repr(config.env)):
        assert "TOKEN" in text
        assert CANARY not in text
    assert public["env"] == ["A", "TOKEN"]


@pytest.mark.parametrize("env", REFUSED["env"])
def test_no_error_shows_a_secret(env: object) -> None:
    """Not the message, and not an exception hidden behind it."""
    error: BaseException | None = refused(env=env)
    while error is not None:
        assert CANARY not in repr(error)
        assert CANARY not in repr(error.args)
        error = error.__cause__ or error.__context__


def test_the_public_form_is_plain_json_without_callbacks() -> None:
    """What doctor and logs may show can be written as JSON, option by option."""
    mounts: dict[str, MountSpec] = {"/usr/lib": ("/l", "ro"), "/usr/share": "/s"}
    config = SandboxConfig(
        workspace="/tmp/kern-tools-test-workspace",
        mounts=mounts,
        packages=["numpy"],
        egress_allow=["example.com"],
        profiles=["vcpu:heavy"],
        env={"B": "1", "A": "2"},
        budget=Budget(images=1),
        on_stdout=swallow,
        on_stderr=swallow,
    )
    shown = {
        "workspace": "/tmp/kern-tools-test-workspace",
        "mounts": [
            {"source": "/usr/lib", "target": "/l", "read_only": True},
            {"source": "/usr/share", "target": "/s", "read_only": False},
        ],
        "packages": ["numpy"],
        "egress_allow": ["example.com"],
        "profiles": ["vcpu:heavy"],
        "cap_drop": ["ALL"],
        "env": ["A", "B"],
        "tmpfs": {"/tmp": "64m"},
        "budget": {
            "text_chars": 8_000,
            "images": 1,
            "image_bytes": 4 << 20,
            "artifact_chars": 64_000,
            "artifact_bytes": 1 << 20,
        },
    }
    plain = set(OPTIONS) - {*shown, "on_stdout", "on_stderr"}
    public = config.public()
    assert public == shown | {name: getattr(config, name) for name in plain}
    assert json.loads(json.dumps(public)) == public
    assert SandboxConfig().public()["workspace"] is None


@pytest.mark.parametrize("name", [option.name for option in fields(Budget)])
@pytest.mark.parametrize("value", [None, True, "5", 1.5, -1, 1 << 31])
def test_a_bad_budget_is_refused(name: str, value: object) -> None:
    """Each bound is a whole number that is not negative."""
    options: dict[str, Any] = {name: value}
    with pytest.raises(ConfigError, match=name) as caught:
        Budget(**options)
    assert caught.value.option == f"budget.{name}"


@pytest.mark.parametrize(
    ("name", "unit", "low"),
    [
        ("text_chars", "chars", 256),
        ("images", "images", 0),
        ("image_bytes", "bytes", 0),
        ("artifact_chars", "chars", 0),
        ("artifact_bytes", "bytes", 0),
    ],
)
def test_a_budget_is_told_its_bounds(name: str, unit: str, low: int) -> None:
    """None at all will do, but for text: the first line needs room."""
    for value in (low, 1 << 30):
        options: dict[str, Any] = {name: value}
        assert getattr(Budget(**options), name) == value
    options = {name: low - 1}
    with pytest.raises(ConfigError) as refused:
        Budget(**options)
    assert str(refused.value) == (
        f"budget.{name}={low - 1} is out of range;"
        f" write the {unit} as an int from {low} to 1073741824"
    )


def test_a_budget_is_changed_by_copying() -> None:
    """Unknown names are answered here too."""
    assert Budget().replace(images=1) == Budget(images=1)
    with pytest.raises(ConfigError, match="did you mean text_chars"):
        Budget().replace(text_char=1)


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=10), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=5,
)


@examples(50, 1000)
@given(name=st.sampled_from(OPTIONS), value=JUNK)
def test_whatever_is_passed_is_taken_or_refused_as_a_config_error(
    name: str, value: Any
) -> None:
    """No value of any option makes another exception escape."""
    try:
        config = SandboxConfig(**{name: value})
    except ConfigError as error:
        assert error.option == name  # noqa: PT017 - taking it is as good
    else:
        json.dumps(config.public())
