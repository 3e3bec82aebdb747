"""What an image has, as a box made of it says: its Python, packages and programs."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any

from .binary import run_kern
from .image_store import image_info
from .ownership import box_name

PROGRAMS = (
    *("git", "curl", "wget", "gcc", "g++", "clang", "make", "cmake", "go", "cargo"),
    *("rustc", "java", "npm", "ruby", "perl", "php", "R", "pip", "uv", "apt-get"),
    *("apk", "dnf", "conda", "jq", "rg", "sqlite3", "psql", "ffmpeg", "pdftotext"),
)
"""Programs worth naming where an image has them: models reach for these unasked."""
_LANGUAGES = (("python3", "python"), ("bash", "bash"), ("sh", "sh"), ("node", "node"))
_TRIED = (*(program for program, _ in _LANGUAGES), *PROGRAMS)
_NOT_FOUND = 127
_BOX_S, _WAIT_S = 20, 30
_BY_PYTHON = f"""\
import json, platform, shutil
from importlib import metadata
found = {{}}
for each in metadata.distributions():
    name = each.metadata["Name"]
    if name and each.version:
        found.setdefault(name, each.version)
print(json.dumps({{
    "python_version": platform.python_version(),
    "packages": sorted(found.items(), key=lambda pair: pair[0].lower()),
    "programs": [name for name in {_TRIED!r} if shutil.which(name)],
}}))
"""
_BY_SHELL = f"""\
for name in {" ".join(_TRIED)}; do
    command -v "$name" >/dev/null 2>&1 && echo "$name"
done
:
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What code finds in an image.

    Attributes:
        python_version: Such as `3.12.4`; None without Python.
        packages: Name and version of each Python distribution, sorted.
        languages: Those of `run_code` that it can run.
        programs: Those of `PROGRAMS` that it has, in that order.
    """

    python_version: str | None = None
    packages: tuple[tuple[str, str], ...] = ()
    languages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()


_KNOWN: dict[str, Inventory | None] = {}


def image_inventory(reference: str) -> Inventory | None:
    """Look into an image that is present, once in the life of this process.

    Args:
        reference: As given to `--image`.

    Returns:
        What it has, or None where no box of it could say: it is absent, boxes do not
        start here, or what is in it does not answer.

    Raises:
        HostError: There is no usable kern.
    """
    if reference not in _KNOWN:
        found = _by_python(reference)
        if found is None and image_info(reference) is None:
            return None  # It may come.
        _KNOWN[reference] = found
    return _KNOWN[reference]


def _by_python(reference: str) -> Inventory | None:
    answer = _run(reference, "python3", "-I", "-c", _BY_PYTHON)
    if answer is None or answer.returncode != _NOT_FOUND:
        return None if answer is None else _told_by_python(answer)
    return _by_shell(reference)


def _by_shell(reference: str) -> Inventory | None:
    answer = _run(reference, "sh", "-c", _BY_SHELL)
    if answer is None:
        return None
    if answer.returncode == 0:
        return _of(answer.stdout.split())
    return _one_by_one(reference)


def _one_by_one(reference: str) -> Inventory | None:
    """Try what is left of the languages in an image with neither Python nor shell."""
    found: list[str] = []
    for program in ("bash", "node"):
        answer = _run(reference, program, "--version")
        if answer is None:
            return None
        if answer.returncode != _NOT_FOUND:
            found.append(program)
    return _of(found)


def _told_by_python(answer: subprocess.CompletedProcess[str]) -> Inventory | None:
    try:
        told: dict[str, Any] = json.loads(answer.stdout)
        packages = tuple((str(name), str(at)) for name, at in told["packages"])
        version, programs = str(told["python_version"]), told["programs"]
    except (ValueError, KeyError, TypeError):  # a Python of another kind
        return None
    return _of(programs, python_version=version, packages=packages)


def _of(
    programs: list[str],
    *,
    python_version: str | None = None,
    packages: tuple[tuple[str, str], ...] = (),
) -> Inventory:
    return Inventory(
        python_version=python_version,
        packages=packages,
        languages=tuple(name for program, name in _LANGUAGES if program in programs),
        programs=tuple(name for name in PROGRAMS if name in programs),
    )


def _run(reference: str, *command: str) -> subprocess.CompletedProcess[str] | None:
    """Run a program in a box of its own; None where no box started, or none ended."""
    box = ["box", box_name(), "--image", reference, "--pull", "never", "--ro", "-q"]
    box += ["--timeout", str(_BOX_S), "--memory", "512m", "--pids-limit", "64"]
    box += ["--cap-drop", "ALL", "--no-uid-range"]
    try:
        answer = run_kern([*box, "--", *command], timeout_s=_WAIT_S)
    except subprocess.TimeoutExpired:
        return None
    return answer if answer.returncode in (0, _NOT_FOUND) else None
