"""What is kept in the cache, who uses it, and when it goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import inf
from pathlib import Path
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner

from kern_tools import Sandbox, SandboxError
from kern_tools.cli import app
from kern_tools.expiry import BUILT_HERE, expire_images, expire_setups
from kern_tools.image_store import build_image, image_info
from kern_tools.prune import prune
from kern_tools.uses import Kind, forget_uses, unused, use

from .hosts import BEGIN

NET_S = 60  # what hangs ends the test; nothing is measured
LINE = "echo 42 > $KERN_DEPS/answer"
TODAY = {"older_than_days": 0.0}


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give one test a cache with nothing in it, neither ours nor kern's."""
    cache = tmp_path / "cache"
    (cache / "kern").mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return cache


@pytest.fixture
def image(cache: Path, tmp_path: Path) -> str:
    """Build an image named as the host's are, with hardly anything in it."""
    assert cache.is_dir()
    context = tmp_path / "context"
    context.mkdir()
    (context / "file").write_text("x")
    reference = f"{BUILT_HERE}host-python:0.0.0-tiny"
    build_image(reference, "FROM scratch\nCOPY file /file\n", context)
    return reference


def installed(fresh_cache: Path) -> list[Path]:
    """Give what setup lines have installed; what they left may still be there."""
    return sorted((fresh_cache / "setup").glob("[0-9a-f]" * 24))


@contextmanager
def another_process(script: str) -> Generator[subprocess.Popen[str]]:
    """Run a script until it says that it is ready, and then until the block ends."""
    wait = f"{BEGIN}{script}\nsay('ready')\nsys.stdin.read()\n"
    with subprocess.Popen(
        [sys.executable, "-c", wait],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


# setups


def test_a_setup_in_use_does_not_expire(fresh_cache: Path) -> None:
    """However old; once its last sandbox is closed it does, and is installed anew."""
    with Sandbox(setup=LINE, prewarm=0) as sandbox:
        (folder,) = installed(fresh_cache)
        os.utime(folder, (0, 0))
        assert expire_setups(**TODAY, dry_run=False) == ()
        assert sandbox.run(["cat", "/opt/kern-deps/answer"]).stdout == "42\n"
    assert expire_setups(**TODAY, dry_run=False) == (folder,)
    assert installed(fresh_cache) == []
    assert list(fresh_cache.glob("setup-*.lock")) == []
    with Sandbox(setup=LINE, prewarm=0) as sandbox:
        assert sandbox.run(["cat", "/opt/kern-deps/answer"]).stdout == "42\n"


def test_a_setup_that_another_process_uses_does_not_expire(fresh_cache: Path) -> None:
    """Until that process ends, however it ends."""
    script = f"sandbox = Sandbox(setup={LINE!r}, prewarm=0).open()"
    with another_process(script) as process:
        (folder,) = installed(fresh_cache)
        assert expire_setups(**TODAY, dry_run=False) == ()
        process.kill()
        process.wait()
    assert expire_setups(**TODAY, dry_run=False) == (folder,)


def test_a_private_copy_uses_the_shared_one_no_longer(fresh_cache: Path) -> None:
    """What it was copied from may go while it is changed."""
    with Sandbox(setup=LINE, deps_readonly=False, prewarm=0) as sandbox:
        shared = tuple(installed(fresh_cache))
        assert expire_setups(**TODAY, dry_run=False) == shared
        assert sandbox.run(["cat", "/opt/kern-deps/answer"]).stdout == "42\n"


def test_a_use_makes_a_setup_young_again(fresh_cache: Path) -> None:
    """Its age counts from when it was last used, not from when it was installed."""
    with Sandbox(setup=LINE, prewarm=0):
        pass
    (folder,) = installed(fresh_cache)
    (mark,) = (fresh_cache / "uses").glob("setup-*")
    for path in (folder, mark):
        os.utime(path, (0, 0))
    assert expire_setups(older_than_days=1, dry_run=True) == (folder,)
    with Sandbox(setup=LINE, prewarm=0):
        pass
    assert expire_setups(older_than_days=1, dry_run=True) == ()


def test_a_failed_setup_is_not_used(fresh_cache: Path) -> None:
    """Nothing keeps what is not there."""
    with pytest.raises(SandboxError):
        Sandbox(setup="exit 3", prewarm=0).open()
    (mark,) = (fresh_cache / "uses").glob("setup-*")
    with unused("setup", mark.name.removeprefix("setup-")) as used_s:
        assert used_s is not None


# images


def test_an_image_in_use_does_not_expire(image: str) -> None:
    """Nor does one that was used of late; a dry run removes nothing."""
    used = use("image", image)
    assert expire_images(**TODAY, dry_run=False) == ()
    used.close()
    assert expire_images(older_than_days=1, dry_run=False) == ()
    assert expire_images(**TODAY, dry_run=True) == (image,)
    assert image_info(image) is not None
    assert expire_images(**TODAY, dry_run=False) == (image,)
    assert image_info(image) is None


def test_an_image_that_nobody_used_is_as_old_as_its_build(image: str) -> None:
    """Nothing else is known of it."""
    assert expire_images(older_than_days=1, dry_run=False) == ()
    assert expire_images(**TODAY, dry_run=False) == (image,)


def test_an_image_that_was_not_built_here_stays(cache: Path, tmp_path: Path) -> None:
    """What was pulled is not ours to remove."""
    (tmp_path / "file").write_text("x")
    build_image("localhost/mine:1", "FROM scratch\nCOPY file /file\n", tmp_path)
    assert expire_images(**TODAY, dry_run=False) == ()
    assert image_info("localhost/mine:1") is not None


def test_the_image_of_an_open_sandbox_is_in_use(fresh_cache: Path) -> None:
    """Also of a sandbox in another process."""
    assert fresh_cache
    with another_process("sandbox = Sandbox(prewarm=0).open()"):
        (mark,) = (fresh_cache / "uses").glob("image-*")
        assert is_used("image", mark)
    assert not is_used("image", mark)
    with Sandbox(prewarm=0):
        assert is_used("image", mark)
    assert not is_used("image", mark)


def is_used(kind: Kind, mark: Path) -> bool:
    """Tell whether anybody uses what a file stands for."""
    with unused(kind, unquote(mark.name).removeprefix(f"{kind}-")) as used_s:
        return used_s is None


# uses


def test_who_comes_while_a_thing_is_removed_looks_again(cache: Path) -> None:
    """It waits for the end of that, and is told that what it saw may be gone."""
    assert cache.is_dir()
    use("setup", "a").close()
    with ThreadPoolExecutor(1) as threads:
        with unused("setup", "a") as used_s:
            assert used_s is not None
            coming = threads.submit(use, "setup", "a")
            forget_uses("setup", "a")
        used = coming.result(NET_S)
        assert used.is_first
        with unused("setup", "a") as used_s:
            assert used_s is None
        used.close()
    assert not use("setup", "a").is_first


def test_many_may_use_one_thing(cache: Path) -> None:
    """It is unused once the last of them has closed."""
    assert cache.is_dir()
    uses = [use("image", "a/b:c@d e") for _ in range(3)]
    assert [used.is_first for used in uses] == [True, False, False]
    for used in uses:
        with unused("image", "a/b:c@d e") as used_s:
            assert used_s is None
        used.close()
        used.close()
    with unused("image", "a/b:c@d e") as used_s:
        assert used_s


def test_racing_users_and_removers_never_meet(cache: Path) -> None:
    """Whoever uses a thing finds it there for as long as that lasts."""
    thing, failures, stop = cache / "thing", list[str](), threading.Event()
    thing.mkdir()

    def remove() -> None:
        while not stop.is_set():
            with unused("setup", "thing") as used_s:
                if used_s is not None and thing.exists():
                    thing.rmdir()
                    forget_uses("setup", "thing")

    def work() -> None:
        for _ in range(200):
            used = use("setup", "thing")
            thing.mkdir(exist_ok=True)
            if not thing.exists():
                failures.append("it was removed while it was used")
            used.close()

    with ThreadPoolExecutor(4) as threads:
        removing = threads.submit(remove)
        for working in [threads.submit(work) for _ in range(3)]:
            working.result()
        stop.set()
        removing.result()
    assert failures == []


# prune


def test_prune_says_what_expired(cache: Path, image: str) -> None:
    """By a flag of days, first without removing it."""
    folder = cache / "kern-tools" / "setup" / ("0" * 24)
    folder.mkdir(parents=True)
    (folder / "file").write_text("x")
    assert prune().empty
    runner = CliRunner()
    looked = runner.invoke(app, ["prune", "--dry-run", "--older-than", "0"])
    assert f"would remove setup {folder}\n" in looked.stdout
    assert f"would remove image {image}\n" in looked.stdout
    assert folder.exists()
    done = runner.invoke(app, ["prune", "--older-than", "0"])
    assert f"removed setup {folder}\n" in done.stdout
    assert f"removed image {image}\n" in done.stdout
    assert not folder.exists()
    again = runner.invoke(app, ["prune", "--json", "--older-than", "0"])
    seen = json.loads(again.stdout)
    assert (seen["setups"], seen["images"]) == ([], [])


def test_a_negative_age_is_refused() -> None:
    """The command line says so."""
    refused = CliRunner().invoke(app, ["prune", "--older-than", "-1"])
    assert refused.exit_code == 2


# what a killed process leaves of snapshots

KILLED = """
import signal
from kern_tools import snapshot, locations
def kill(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
sandbox = Sandbox(workspace=PLACE, prewarm=0).open()
sandbox.write_file("a.txt", "1")
"""


def killed(place: Path, script: str) -> None:
    """Have a process killed in the middle of a snapshot or a restore."""
    code = f"{BEGIN}PLACE = {str(place)!r}\n{KILLED}{script}"
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -9


@pytest.mark.usefixtures("fresh_cache")
def test_half_a_snapshot_is_pruned(tmp_path: Path) -> None:
    """Of a process that was killed while it saved; what was there before stays."""
    place, target = tmp_path / "ws", tmp_path / "kept"
    target.mkdir()
    (target / "run.tar.gz").write_text("old")
    script = f"os.fsync = kill\nsandbox.snapshot({str(target / 'run.tar.gz')!r})"
    killed(place, script)
    (half,) = target.glob(".kern-tools-part-*")
    assert prune(older_than_days=inf).files == (half,)
    assert [path.name for path in target.iterdir()] == ["run.tar.gz"]
    assert (target / "run.tar.gz").read_text() == "old"


@pytest.mark.usefixtures("fresh_cache")
def test_half_a_restore_is_pruned(tmp_path: Path) -> None:
    """Out of a workspace of yours, which has nothing else removed."""
    place, snapshot = tmp_path / "ws", tmp_path / "run.tar.gz"
    with Sandbox(prewarm=0) as sandbox:
        sandbox.write_file("b.txt", "2")
        sandbox.snapshot(snapshot)
    killed(place, f"snapshot.move_in = kill\nsandbox.restore({str(snapshot)!r})")
    (half,) = (place / ".kern").glob("*restore-*")
    assert (half / "b.txt").read_text() == "2"
    assert prune(older_than_days=inf).folders == (half,)
    assert not half.exists()
    assert (place / "a.txt").read_text() == "1"
