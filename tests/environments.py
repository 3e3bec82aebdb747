"""`kern-tools conformance` in other environments: Pythons, oldest and newest packages.

    python -m tests.environments [NAME ...]

Each environment is a new one, with the wheel of this checkout and what an extra brings:
by default the newest releases, in those named `floor` the oldest that are allowed.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kern_tools.screen import show_table

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
ADAPTERS = {
    "deepagents": ["deepagents"],
    "langchain": ["langchain"],
    "llama-index": ["llama-index"],
    "mcp": ["mcp"],
    "openai": ["openai-responses", "openai-chat"],
    "openai-agents": ["openai-agents"],
}
"""Each extra that brings a framework, and the adapters that it is for."""
UV = Path(sysconfig.get_path("scripts"), "uv")
NOBODY = "nobody"
FOR_ALL = "/usr/bin/python3"
"""A Python that other accounts can run: one in a home may be closed to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where the contracts are run.

    Attributes:
        name: Chooses it on the command line.
        python: Its version, as `3.12`, or its path.
        extra: What is installed.
        floor: Install the oldest releases that are allowed, not the newest.
        words: Further words of the command.
        user: An account other than this one.
    """

    name: str
    python: str = "3.11"
    extra: str = "all"
    floor: bool = False
    words: Sequence[str] = field(default_factory=list[str])
    user: str | None = None


def environments() -> Iterator[Environment]:
    """Give every environment."""
    for version in PYTHONS:
        yield Environment(name=f"python{version}", python=version)
    for extra, adapters in ADAPTERS.items():
        words = [word for name in adapters for word in ("--adapter", name)]
        yield Environment(name=f"floor-{extra}", extra=extra, floor=True, words=words)
    words = ["--adapter", "none"]
    yield Environment(
        name="unprivileged", python=FOR_ALL, extra="testing", words=words, user=NOBODY
    )


def python_of(version: str) -> str:
    """Find a Python of pyenv, which is on no path; else uv looks, and may fetch it."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))
    return str(found[-1]) if found else version


def made(environment: Environment, wheel: Path, folder: Path) -> Path:
    """Make an environment and give its command.

    Raises:
        LookupError: There is no such Python.
        CalledProcessError: Something cannot be installed.
    """
    python = python_of(environment.python)
    try:
        run([UV, "venv", "-q", "--python", python, folder])
    except subprocess.CalledProcessError as error:
        raise LookupError(f"no Python {python} here; {_line(error.stderr)}") from None
    extras = ",".join(dict.fromkeys([environment.extra, "testing"]))
    oldest = ["--resolution", "lowest-direct"] if environment.floor else []
    where = ["--python", folder / "bin/python"]
    run([UV, "pip", "install", "-q", *where, *oldest, f"{wheel}[{extras}]"])
    return folder / "bin/kern-tools"


def built(folder: Path) -> Path:
    """Build the wheel from a copy: in place, files that are gone would ship."""
    source = folder / "source"
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    names = shutil.ignore_patterns(".git", *(name.rstrip("/") for name in ignored))
    shutil.copytree(ROOT, source, ignore=names, symlinks=True)
    build = ["-m", "build", "--no-isolation", "--wheel", "--outdir", folder]
    run([sys.executable, *build, source])
    (wheel,) = folder.glob("*.whl")
    return wheel


def run(command: Sequence[object], **options: Any) -> str:
    """Run a command outside the checkout and give what it printed."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, text=True, cwd="/", stdout=-1, stderr=-1, check=True, **options
    )
    return str(done.stdout)


def account(user: str, home: Path) -> Mapping[str, Any]:
    """Say how to run as another account, in a home of its own.

    Raises:
        LookupError: Only root can.
    """
    if os.getuid() != 0:
        raise LookupError("only root can run as another account")
    entry = pwd.getpwnam(user)
    home.mkdir()
    os.chown(home, entry.pw_uid, entry.pw_gid)
    kept = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home)}
    return {
        "user": entry.pw_uid,
        "group": entry.pw_gid,
        "extra_groups": [],
        "env": kept,
    }


def verdict(environment: Environment, wheel: Path, folder: Path) -> tuple[str, bool]:
    """Run the contracts in an environment, and say what came of it."""
    try:
        command = made(environment, wheel, folder / "venv")
        options: Mapping[str, Any] = {}
        if environment.user is not None:
            folder.chmod(0o755)
            options = account(environment.user, folder / "home")
        words = [command, "conformance", "--quick", "--json", *environment.words]
        done = subprocess.run(
            [str(word) for word in words],
            cwd="/",
            capture_output=True,
            text=True,
            **options,
        )
    except LookupError as error:
        return f"not tried: {error}", True
    except subprocess.CalledProcessError as error:
        return f"not installed: {_line(error.stderr)}", False
    if not done.stdout:
        return f"exit {done.returncode}: {done.stderr.strip().splitlines()[-1]}", False
    return told(json.loads(done.stdout)), done.returncode == 0


def told(ran: Mapping[str, Any]) -> str:
    """Say in one line what a run came to."""
    said = [f"{count} {state}" for state, count in sorted(ran["counts"].items())]
    said += [f"{name} left out" for name in ran["left_out"]]
    said += [
        f"{row['subject']}, {mode}: {row['clause']} ({_line(check['reason'])})"
        for row in ran["clauses"]
        for mode, checks in row["modes"].items()
        for check in checks
        if check["state"] == "does not hold"
    ]
    return ", ".join(said)


def _line(text: str) -> str:
    return " ".join(text.split())[:200]


def main(names: Sequence[str]) -> int:
    """Try the environments that are named, or all; give the exit code."""
    chosen = [each for each in environments() if not names or each.name in names]
    rows: list[tuple[tuple[str, ...], str | None]] = []
    with tempfile.TemporaryDirectory(prefix="kern-environments-") as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)
        wheel = built(folder)
        for each in chosen:
            place = folder / each.name
            place.mkdir()
            words, good = verdict(each, wheel, place)
            print(f"{each.name}: {words}", file=sys.stderr, flush=True)
            rows.append(((each.name, words), None if good else "red"))
    show_table(("environment", "what came of it"), rows)
    return int(any(style for _, style in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
