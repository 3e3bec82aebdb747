"""What options come to in real boxes: network, limits, profiles, privileges."""

from __future__ import annotations

import ast
import os
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kern_tools import Sandbox
from kern_tools.mounts import DEPS
from kern_tools.sandbox_contract import kern_processes

WRITABLE = """\
import os
print([path for path in ('/', '/tmp', '/dev/shm', '/workspace', '/data')
       if os.access(path, os.W_OK)])
"""
PROFILES = """\
[[vcpu]]
name = "small"
backend = "host"
memory = "100m"

[[vdisk]]
name = "scratch"
backend = "ram"
size = "8m"
"""
MODES = pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])


def shown(code: str, **options: Any) -> Any:
    """Give the plain value that code prints in a sandbox with these options."""
    with Sandbox(**{"prewarm": 0, **options}) as sandbox:
        result = sandbox.run_code(code)
    assert result.success, (result.fault, result.code_stderr)
    return ast.literal_eval(result.stdout)


# Network


def test_by_default_the_loopback_of_the_host_is_out_of_reach() -> None:
    """A service that listens there sees nobody."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        code = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 30)"
        with Sandbox(prewarm=0) as sandbox:
            result = sandbox.run_code(code)
        listener.settimeout(0)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert "Connection refused" in result.code_stderr


@pytest.mark.usefixtures("fresh_cache")
def test_an_allowlist_is_for_calls_and_not_for_setup() -> None:
    """The box that installs has the host's network all the same."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 30)"
        line = f'python3 -c "{code}" && echo met > $KERN_DEPS/met'
        options = {"setup": line, "egress_allow": ["allowed.example"]}
        with Sandbox(prewarm=0, **options) as sandbox:
            assert sandbox.run(["cat", f"{DEPS}/met"]).stdout == "met\n"
            assert not sandbox.run_code(code).success


# Limits and profiles


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give kern settings of our own with a profile of two kinds."""
    (tmp_path / "kern").mkdir()
    (tmp_path / "kern" / "kern.toml").write_text(PROFILES)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.mark.usefixtures("profiles")
@pytest.mark.parametrize(
    ("memory_mb", "size_mb"), [(None, 100), (512, 512)], ids=["left to it", "given"]
)
def test_a_profile_sets_the_memory_that_is_not_given(
    memory_mb: int | None, size_mb: int
) -> None:
    """The default of `memory_mb` counts as given; None lets the profile's apply."""
    code = "import os\ns = os.statvfs('/dev/shm')\nprint(s.f_blocks * s.f_frsize)"
    size = shown(code, profiles=["vcpu:small"], memory_mb=memory_mb)
    assert size == size_mb << 20


def test_without_a_number_kern_has_a_cap_of_its_own() -> None:
    """None is not without end: shared memory shows the size."""
    code = "import os\ns = os.statvfs('/dev/shm')\nprint(s.f_blocks * s.f_frsize)"
    assert shown(code, memory_mb=None) == 512 << 20


@pytest.mark.usefixtures("profiles")
def test_a_disk_of_a_profile_is_there() -> None:
    """It stands at a path of its own, no larger than the profile says."""
    code = "import os\ns = os.statvfs('/vdisk/scratch')\nprint(s.f_blocks * s.f_frsize)"
    assert 4 << 20 < shown(code, profiles=["vdisk:scratch"]) <= 8 << 20


@pytest.mark.usefixtures("profiles")
@pytest.mark.parametrize("profile", ["vcpu:nope", "vdisk:nope", "vgpio:nope"])
def test_a_profile_that_is_not_defined_is_named(profile: str) -> None:
    """No box starts with less than was asked for."""
    with Sandbox(profiles=[profile], prewarm=0) as sandbox:
        fault = sandbox.run_code("print(1)").fault
    assert fault is not None
    assert (fault.type, fault.actor) == ("startup_failed", "operator")
    assert profile in fault.message


def test_a_cpu_cap_is_a_share_of_time_and_no_count() -> None:
    """Programs that size themselves by the count see the host's."""
    assert shown("import os\nprint(os.cpu_count())", cpus=0.5) == os.cpu_count()


@pytest.mark.parametrize("enforce_limits", [True, False])
def test_the_best_effort_way_to_caps_is_told_to_kern(
    enforce_limits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only where it was asked for."""
    monkeypatch.delenv("KERN_NO_SCOPE", raising=False)
    with Sandbox(mode="kernel", enforce_limits=enforce_limits) as sandbox:
        assert sandbox.run_code("1").success
        told = {
            b"KERN_NO_SCOPE=1" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            for pid in kern_processes(sandbox)
        }
    assert told == {not enforce_limits}


# Privileges


@pytest.mark.parametrize(
    ("cap_drop", "bound"),
    [(("ALL",), False), ((), True), (("NET_RAW",), True)],
    ids=["all dropped", "kept", "another dropped"],
)
def test_a_low_port_needs_the_capability_for_it(
    cap_drop: tuple[str, ...], bound: bool
) -> None:
    """Inside the box's own network, code may bind below 1024 where it is kept."""
    code = (
        "import socket\nwith socket.socket() as s:\n"
        "    try: s.bind(('127.0.0.1', 80)); print(True)\n"
        "    except PermissionError: print(False)"
    )
    assert shown(code, cap_drop=cap_drop) is bound


def test_the_untrusted_profile_leaves_no_scratch() -> None:
    """The root is read-only, no capability is left, and /tmp has to be asked for."""
    profile: dict[str, Any] = {"security_profile": "untrusted", "cap_drop": ()}
    assert shown(WRITABLE, **profile) == ["/dev/shm", "/workspace"]
    status = (
        "print(int(open('/proc/self/status').read().split('CapEff:')[1].split()[0]))"
    )
    assert shown(status, **profile) == 0
    asked = shown(WRITABLE, tmpfs={"/tmp": "8m"}, **profile)
    assert asked == ["/tmp", "/dev/shm", "/workspace"]


@MODES
@pytest.mark.parametrize(
    ("option", "value"), [("apparmor", "no-such-profile"), ("user", "no-such-account")]
)
def test_what_only_kern_can_check_is_a_result(
    mode: str, option: str, value: str
) -> None:
    """A box without the profile or account does not start, and the fault names it."""
    with Sandbox(mode=mode, prewarm=0, **{option: value}) as sandbox:
        result = sandbox.run_code("open('ran', 'w')")
        assert sandbox.list_files() == []
    assert result.fault is not None
    assert (result.fault.type, result.fault.actor) == ("startup_failed", "operator")
    assert f"{option}={value!r}" in result.fault.message
    assert result.exit_code != 0


def test_a_warm_box_serves_its_own_sandbox_alone() -> None:
    """However alike two sandboxes are, none gets a box with the options of another."""
    code = "import os\ns = os.statvfs('/tmp')\nprint(os.environ['MINE'], s.f_blocks)"
    options = [{"env": {"MINE": str(n)}, "tmpfs": {"/tmp": f"{n}m"}} for n in (1, 2, 3)]
    with ExitStack() as opened:
        sandboxes = [opened.enter_context(Sandbox(prewarm=2, **o)) for o in options]
        assert all(sandbox.wait_ready(30) for sandbox in sandboxes[:2])
        for _ in range(3):
            said = [sandbox.run_code(code).stdout.split() for sandbox in sandboxes]
            assert [name for name, _ in said] == ["1", "2", "3"]
            assert len({size for _, size in said}) == 3


def test_a_call_may_have_callbacks_and_a_limit_of_its_own() -> None:
    """They hold for that call, and the sandbox's own for the next one."""
    ours: list[str] = []
    own: list[str] = []
    say: Callable[[str], None] = ours.append
    with Sandbox(on_stdout=say, on_stderr=say, timeout_s=20) as sandbox:
        code = "import sys\nprint('out')\nprint('err', file=sys.stderr)"
        sandbox.run_code(code, on_stdout=own.append, on_stderr=own.append)
        assert (sorted("".join(own).split()), ours) == (["err", "out"], [])
        sandbox.run(["echo", "again"])
        assert "".join(ours) == "again\n"
        assert sandbox.run(["sleep", "60"], timeout_s=1).fault_type == "timeout"


@MODES
def test_a_kill_names_the_memory_cap_that_does_not_bind(mode: str) -> None:
    """Where caps bind, it was nobody's lack of memory but of the one who killed."""
    began = threading.Event()
    with Sandbox(mode=mode, memory_mb=100) as sandbox, ThreadPoolExecutor(1) as pool:
        enforced = sandbox.describe().limits_enforced
        code = "print('on', flush=True)\nimport time\ntime.sleep(600)"
        call = pool.submit(sandbox.run_code, code, on_stdout=lambda _: began.set())
        began.wait()
        for pid in kern_processes(sandbox):
            os.kill(pid, signal.SIGKILL)
        fault = call.result().fault
    assert fault is not None
    assert fault.type == "killed"
    assert ("memory_mb=100" in fault.message) is (enforced is False)
