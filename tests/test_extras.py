"""What is said where a framework or library is not installed, or is another release."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent

# A room's own `__init__` would let the first of its modules speak for all of them.
SCRIPT = """
import importlib, json, sys, types
guarded = json.loads(sys.argv[1])
for room, folder in json.loads(sys.argv[2]).items():
    bare = types.ModuleType(room)
    bare.__path__ = [folder]
    sys.modules[room] = bare
told = {}
for name, absent in guarded.items():
    sys.modules.update(dict.fromkeys(absent))
    try:
        importlib.import_module(name)
    except ImportError as error:
        told[name] = str(error), error.name, type(error.__cause__).__name__
print(json.dumps(told))
"""


def modules() -> Iterator[tuple[str, Path]]:
    """Yield the modules of the core and of the adapters, by their full names."""
    for path in sorted((ROOT / "kern_tools").glob("[!_]*.py")):
        yield f"kern_tools.{path.stem}", path
    for path in sorted((ROOT / "adapters").glob("*/[!_]*.py")):
        yield f"kern_tools.adapters.{path.parent.name}.{path.stem}", path


def wanted(path: Path) -> list[str]:
    """Return the packages that a module imports under guard, where it is loaded."""
    guards = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.Try)]
    imports = [n for guard in guards for n in guard.body]
    plain = [a.name for n in imports if isinstance(n, ast.Import) for a in n.names]
    froms = [n for n in imports if isinstance(n, ast.ImportFrom) and not n.level]
    named = [n.module or "" for n in froms]
    return [name.partition(".")[0] for name in (*plain, *named)]


GUARDED = {name: wanted(path) for name, path in modules() if wanted(path)}


@cache
def told() -> dict[str, tuple[str, str, str]]:
    """Return what each module says where its packages are not there."""
    rooms = (p for p in (ROOT / "adapters").iterdir() if (p / "__init__.py").exists())
    folders = {f"kern_tools.adapters.{room.name}": str(room) for room in rooms}
    words = (json.dumps(GUARDED), json.dumps(folders))
    command = [sys.executable, "-W", "error", "-c", SCRIPT, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, tuple[str, str, str]] = json.loads(done.stdout)
    return found


def extras() -> dict[str, Any]:
    """Return what can be asked for in brackets."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: dict[str, Any] = project["project"]["optional-dependencies"]
    return found


@pytest.mark.parametrize("name", GUARDED)
def test_what_is_missing_is_named_with_the_command_that_brings_it(name: str) -> None:
    """Whichever module of a room is loaded first, and whatever release is there."""
    text, missing, cause = told()[name]
    assert missing.partition(".")[0] in GUARDED[name]
    assert cause == "ModuleNotFoundError"
    assert repr(missing) in text
    _, _, installed = text.rpartition("pip install ")
    _, bracket, extra = installed.strip("'").partition("kern-tools[")
    assert extra.removesuffix("]") in extras() if bracket else installed == missing
