"""Runs inside the virtual machine: boxes whose code is an account other than root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kern_tools import Sandbox
from kern_tools.host_image import host_reference

PERSON, HOME = 1234, Path("/tmp/person")
WRITE = """\
import os
os.makedirs('made/deep')
with open('made/deep/mine.txt', 'w') as f: f.write('of a box')
with open('given.txt', 'a') as f: f.write(' and a box')
os.mkdir('shut', 0o700)
open('shut/inner', 'w').close()
print(os.getuid(), os.getgid())
"""


def prepare() -> None:
    """Make this a host with ranges of ids, for root and for a person."""
    subprocess.run(
        ["kern", "tag", os.environ["IMAGE"], host_reference()],
        check=True,
        capture_output=True,
    )
    for name in ("newuidmap", "newgidmap"):
        os.chown(f"/usr/bin/{name}", 0, 0)
        Path(f"/usr/bin/{name}").chmod(0o4755)
    with Path("/etc/passwd").open("a") as passwd:
        passwd.write(f"person:x:{PERSON}:{PERSON}::{HOME}:/bin/sh\n")
    for name in ("subuid", "subgid"):
        ranges = "root:100000:65536\nperson:200000:65536\n"
        Path(f"/etc/{name}").write_text(ranges)
    Path("/tmp").chmod(0o1777)


def written(mode: str, workspace: Path | None, user: str | None, **options: Any) -> Any:
    """Have code and this process write, each what the other has made."""
    chosen = {"mode": mode, "user": user, "workspace": workspace, "prewarm": 0}
    with Sandbox(**chosen, **options) as sandbox:
        sandbox.write_file("given.txt", "of the host")
        ran = sandbox.run_code(WRITE)
        assert ran.success, (ran.code_stderr, ran.runtime_notes)
        root = sandbox.workspace.root
        owner = (root / "made").stat().st_uid
        sandbox.write_file("made/deep/new.txt", "of the host")
        again = sandbox.run_code("open('made/deep/new.txt', 'a').write(' and a box');")
        read = [
            sandbox.read_file(path).decode()
            for path in ("made/deep/mine.txt", "given.txt", "made/deep/new.txt")
        ]
    return {
        "said": ran.stdout,
        "stderr": ran.code_stderr + again.code_stderr,
        "files": [file.path for file in ran.files],
        "owner": owner,
        "read": read,
        "left": root.exists(),
    }


def of_an_image(*lines: str) -> str:
    """Build an image on top of the host's; give its reference."""
    with tempfile.TemporaryDirectory() as folder:
        text = "\n".join([f"FROM {host_reference()}", *lines])
        Path(folder, "Dockerfile").write_text(f"{text}\n")
        command = ["kern", "build", "-t", "localhost/guest/other:1", folder]
        subprocess.run(command, check=True, capture_output=True)
    return "localhost/guest/other:1"


def given() -> Path:
    """Make a folder of ours with a file in it that others may not change."""
    folder = Path(tempfile.mkdtemp())
    (folder / "given.txt").write_text("old")
    return folder


def restored() -> Any:
    """Restore a snapshot into a sandbox whose code may not be root."""
    with Sandbox(user="1000:1000", prewarm=0) as sandbox:
        sandbox.write_file("a.txt", "kept")
        sandbox.snapshot("/tmp/a.tar.gz")
    with Sandbox(user="1000:1000", prewarm=0) as sandbox:
        sandbox.restore("/tmp/a.tar.gz")
        ran = sandbox.run_code(
            "open('a.txt', 'a').write('!'); print(open('a.txt').read())"
        )
    return ran.stdout


def tell(name: str, answer: Any) -> None:
    """Print one case."""
    print(json.dumps({"case": name, "answer": answer}), flush=True)


def as_person() -> None:
    """Run this file again as someone who is not root, with a cache of their own."""
    for folder in ("", ".cache", "run"):
        (HOME / folder).mkdir()
    shutil.copytree("/root/.cache/kern", HOME / ".cache/kern", symlinks=True)
    owner = f"{PERSON}:{PERSON}"
    subprocess.run(["/usr/bin/busybox", "chown", "-R", owner, HOME], check=True)
    environ = {**os.environ, "HOME": str(HOME), "XDG_RUNTIME_DIR": f"{HOME}/run"}
    subprocess.run(
        [sys.executable, __file__, "person"],
        env=environ,
        user=PERSON,
        group=PERSON,
        extra_groups=[],
        cwd=HOME,
        check=True,
    )


if sys.argv[1:] == ["person"]:
    tell("person", written("fresh", None, "1000:1000"))
    tell("person, a given folder", written("fresh", given(), "nobody"))
else:
    prepare()
    for each in ("fresh", "resident", "kernel"):
        tell(f"{each}", written(each, None, "1000:1000"))
    tell("a given folder", written("fresh", given(), "nobody"))
    tell("root", written("fresh", None, "root"))
    image = of_an_image("USER 1000:1000")
    tell("an image's own account", written("fresh", None, None, image=image))
    tell("root of that image", written("fresh", None, "root", image=image))
    setup = "id -u > $KERN_DEPS/who"
    with Sandbox(image=image, setup=setup, prewarm=0) as opened:
        tell("setup", opened.run(["cat", "/opt/kern-deps/who"]).stdout)
    tell("restored", restored())
    as_person()
