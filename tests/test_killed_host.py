"""A host that is killed in the middle of a call: its code goes, and what is left."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from .depth import partly
from .hosts import calling, ended

GONE_S = 3.0
"""What is promised: no code of a killed host runs any longer than that."""
CODE = (
    "import os, subprocess, time\n"
    "open('/tmp/scratch', 'w').write('x')\n"
    "subprocess.Popen(['sleep', '600'])\n"
    "print('running', flush=True)\n"
    "time.sleep(600)\n"
)
NEXT_START = """\
Sandbox(prewarm=0).open()
for thread in threading.enumerate():
    if thread.name == "kern-tools-prune":
        thread.join()
"""


def inside(workspace: Path) -> set[int]:
    """Give the processes in whose box a folder of the host is the workspace."""
    wanted, found = workspace.stat(), set[int]()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            seen = (entry / "root" / "workspace").stat()
        except OSError:
            continue
        if (seen.st_dev, seen.st_ino) == (wanted.st_dev, wanted.st_ino):
            found.add(int(entry.name))
    return found


def leftovers(runtime: Path, token: str) -> list[str]:
    """Give what of a host's runs still lies in the runtime folder, ours and kern's."""
    places = (runtime, runtime / "kern" / "env", runtime / "kern" / "scratch")
    return sorted(
        f"{place.relative_to(runtime)}/{path.name}"
        for place in places
        for path in place.glob(f"*{token}*")
    )


MODES = partly(["fresh", "resident", "kernel"], "fresh".__eq__)


@pytest.mark.parametrize("mode", MODES)
def test_code_of_a_killed_host_is_gone_and_the_next_start_is_clean(
    mode: str, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Workspace, private files, kern's scratch and the mark: all of it goes."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    with calling(CODE, mode=mode, env={"PYTHONHASHSEED": "1"}) as host:
        running, boxes = inside(host.workspace), host.boxes()
        assert len(running) >= 2
        host.kill()
        deadline_s = time.monotonic() + GONE_S
        while left := inside(host.workspace):
            assert time.monotonic() < deadline_s, left
    assert host.workspace.exists()
    assert {line.split("/")[0] for line in leftovers(runtime, host.token)} == {
        ".",
        "kern",
    }
    wait_reaped(running, boxes)
    ended(NEXT_START)
    assert not host.workspace.exists()
    assert leftovers(runtime, host.token) == []
    assert list((fresh_cache / "owners").glob("*")) == []


def wait_reaped(pids: set[int], pidfds: list[int]) -> None:
    """Wait until their last parent took note of their end, which kern looks at."""
    pids |= {pid_of(descriptor) for descriptor in pidfds} - {-1}
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        pass
    for descriptor in pidfds:
        os.close(descriptor)


def pid_of(pidfd: int) -> int:
    """Give the pid that a pidfd stands for; -1 once it is gone."""
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    raise AssertionError("it is no pidfd")
