"""What keeps code in its box: what it cannot see, write, reach or learn."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .contract import Make, SandboxClauses
from .contract_view import box_processes, processes_with
from .faults import MountRefused
from .sandbox import Sandbox

_SECRET = "c4n4ry-5ecret-value"
_WRITABLE = """\
import os
def takes_a_file(folder):
    path = os.path.join(folder, 'probe')
    try:
        open(path, 'x').close()
        os.unlink(path)
    except OSError:
        return False
    return True
mounted = {line.split()[1]: line.split()[2] for line in open('/proc/self/mounts')}
folders = {*mounted, *('/' + name for name in os.listdir('/')), '/usr/lib'}
for folder in folders:
    if takes_a_file(folder): print(folder, mounted.get(folder))
"""
_STATUS = """\
lines = dict(line.split(':', 1) for line in open('/proc/self/status'))
print(*(lines[name].strip() for name in (
    'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp')))
"""
_WAITS = (
    "import os, time\n"
    f"assert os.environ['TOKEN'].startswith({_SECRET[:6]!r})\n"
    "print('on', flush=True)\n"
    "while not os.path.exists('go'): time.sleep(0.01)\n1/0"
)
_REFUSED = (
    *("/", "/etc", "/root", "/boot", "/proc", "/sys", "/dev", "~", "~/.ssh", "~/.aws"),
    *("~/.gnupg", "~/.kube", "~/.docker", "~/.netrc", "/var/run/docker.sock"),
)


class WallsContract(SandboxClauses):
    """Isolation is kern's; this is what code finds of it."""

    def test_only_the_workspace_and_memory_are_writable(self, make: Make) -> None:
        """The image is read-only; files go to the workspace or to scratch."""
        lines = make().run_code(_WRITABLE).stdout.splitlines()
        kinds = dict(line.rsplit(" ", 1) for line in lines)
        assert {"/workspace", "/tmp", "/dev/shm"} <= kinds.keys()
        in_memory = {kinds[place] for place in kinds if place != "/workspace"}
        assert in_memory <= {"tmpfs", "mqueue"}

    def test_code_has_no_privilege_left(self, make: Make) -> None:
        """Code has no capability, no way to gain one, and a filter on its calls."""
        *capabilities, no_new, seccomp = make().run_code(_STATUS).stdout.split()
        assert {int(value, 16) for value in capabilities} == {0}
        assert (no_new, seccomp) == ("1", "2")

    def test_only_processes_of_the_box_are_seen(self, make: Make) -> None:
        """The host's processes are in another namespace."""
        code = "import os\nprint(*(n for n in os.listdir('/proc') if n.isdigit()))"
        pids = [int(pid) for pid in make().run_code(code).stdout.split()]
        assert min(pids) == 1
        assert len(pids) <= 2

    def test_the_hosts_loopback_is_out_of_reach(self, make: Make) -> None:
        """A service of this machine does not answer code without `network`."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            code = (
                "import socket\n"
                f"print(socket.socket().connect_ex(('127.0.0.1', {port})) != 0)"
            )
            assert make().run_code(code).stdout == "True\n"
            server.setblocking(False)
            with pytest.raises(BlockingIOError):
                server.accept()

    def test_nothing_of_the_hosts_environment_comes_along(
        self, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Code sees the variables of the image and of `env`, and no others."""
        monkeypatch.setenv("KERN_TOOLS_CANARY", _SECRET)
        code = "import os\nprint(*sorted(os.environ))"
        names = make(env={"MINE": "1"}).run_code(code).stdout.split()
        assert "MINE" in names
        assert not [name for name in names if name.startswith("KERN")]

    def test_a_secret_shows_nowhere_but_in_the_box(self, make: Make) -> None:
        """A value of `env` is on no command line, in no words, and in no result."""
        sandbox = make(env={"TOKEN": _SECRET})

        def look() -> None:
            assert box_processes(sandbox)
            assert processes_with(_SECRET) == []

        result = _while_it_waits(sandbox, look)
        said = [
            *(repr(sandbox), repr(sandbox.config), repr(sandbox.describe())),
            *(json.dumps(sandbox.config.public()), sandbox.system_prompt()),
            result,
        ]
        assert [text for text in said if _SECRET in text] == []

    @pytest.mark.parametrize("source", _REFUSED)
    def test_a_mount_that_defeats_the_box_is_refused(
        self, make: Make, source: str
    ) -> None:
        """A mount that would defeat the box is refused before anything starts."""
        with pytest.raises(MountRefused):
            make(mounts={str(Path(source).expanduser()): "/data"})

    def test_a_read_only_mount_cannot_be_written(
        self, make: Make, tmp_path: Path
    ) -> None:
        """Code reads a read-only mount, and changes nothing in it."""
        (tmp_path / "a").write_text("kept")
        code = (
            "print(open('/data/a').read())\n"
            "try: open('/data/a', 'w')\nexcept OSError as error: print(error.errno)"
        )
        result = make(mounts={str(tmp_path): ("/data", "ro")}).run_code(code)
        assert result.stdout.split() == ["kept", "30"]
        assert (tmp_path / "a").read_text() == "kept"

    def test_what_code_writes_is_the_users(self, make: Make) -> None:
        """Root of a box is the user of this process, and nobody more."""
        sandbox = make()
        result = sandbox.run_code("import os\nopen('mine', 'w')\nprint(os.getuid())")
        assert result.stdout == "0\n"
        assert (sandbox.workspace.root / "mine").stat().st_uid == os.getuid()


def _while_it_waits(sandbox: Sandbox, look: Callable[[], None]) -> str:
    """Look around while a call that was given the secret runs; give its result."""
    began = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(sandbox.run_code, _WAITS, on_stdout=lambda _: began.set())
        call.add_done_callback(lambda _: began.set())
        began.wait()
        try:
            look()
        finally:
            sandbox.write_file("go", "")
        result = call.result()
    assert result.exit_code == 1
    return result.model_dump_json()
