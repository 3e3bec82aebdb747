"""Change the code in small ways, and see that a test fails each time.

    make mutants ARGS="rendering arguments"

The modules are those whose words a model or a developer relies on most. mutmut changes
a copy of the project, one place at a time, and runs the fast tests of the module. A
change that no test notices is printed, unless `equivalent.toml` says why it is none.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
TESTS = {
    "rendering": ("test_rendering.py", "attack/test_replies_read_back.py"),
    "arguments": ("test_arguments.py", "attack/test_arguments_are_read.py"),
    "policy": (
        "test_policy.py::test_an_option_that_cannot_be_used_is_named",
        "test_policy.py::test_each_bound_is_taken_and_the_next_value_refused",
        "test_policy.py::test_a_policy_has_a_watch_for_each_loop",
        "test_policy.py::test_a_state_that_is_none_is_refused",
    ),
    "config": ("test_config.py",),
}
"""A module, and its tests that need no box."""

SEEN_IS_ENOUGH = """
from hypothesis import Phase, settings

settings.register_profile("mutants", phases=[Phase.generate], database=None)
settings.load_profile("mutants")
"""
"""A property that fails is only to be seen, not to be shown at its smallest."""

_SURVIVED = re.compile(
    r"^\s*(kern_tools\.\S+): (survived|no tests|suspicious|timeout)$"
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change.

    Attributes:
        function: The changed function, with its module.
        before: The changed lines as they are, without outer blanks.
        after: What they became.
    """

    function: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.function}\n  - {self.before}\n  + {self.after}"


def main(modules: Sequence[str]) -> int:
    """Check modules, all of them where none is named.

    Returns:
        1 if a change was noticed by nobody and is not listed, else 0.
    """
    known = _equivalent()
    found: set[Mutant] = set()
    for module in modules or TESTS:
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            found |= set(_survivors(Path(folder), module))
    for mutant in sorted(found - known.keys(), key=str):
        print(f"survived: {mutant}")
    print(f"{len(found)} survived, {len(found & known.keys())} of them are equivalent")
    return int(not found <= known.keys())


def _survivors(folder: Path, module: str) -> Iterator[Mutant]:
    _stage(folder, module)
    mutmut = [sys.executable, "-m", "mutmut"]
    subprocess.run([*mutmut, "run"], cwd=folder, check=True)
    told = subprocess.run(
        [*mutmut, "results"], cwd=folder, check=True, capture_output=True, text=True
    )
    for line in told.stdout.splitlines():
        if found := _SURVIVED.match(line):
            shown = subprocess.run(
                [*mutmut, "show", found[1]],
                cwd=folder,
                check=True,
                capture_output=True,
                text=True,
            )
            yield _mutant(found[1], shown.stdout)


def _stage(folder: Path, module: str) -> None:
    """Lay the rooms out as a wheel does, where no editable install maps them."""
    ignored = shutil.ignore_patterns("__pycache__", "*.ipynb", "results")
    package = folder / "kern_tools"
    shutil.copytree(ROOT / "kern_tools", package, ignore=ignored)
    for room in ("adapters", "prompts"):
        shutil.copytree(ROOT / room, package / room, ignore=ignored)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=ignored)
    with (folder / "tests" / "conftest.py").open("a", encoding="utf-8") as conftest:
        conftest.write(SEEN_IS_ENOUGH)
    for document in ("README.md", "SECURITY.md"):
        shutil.copy2(ROOT / document, folder)
    tests = [f"tests/{name}" for name in TESTS[module]]
    settings = (
        "\n[tool.mutmut]\n"
        'source_paths = ["kern_tools"]\n'
        f'only_mutate = ["kern_tools/{module}.py"]\n'
        f"pytest_add_cli_args_test_selection = {tests!r}\n"
        'pytest_add_cli_args = ["-p", "no:cacheprovider", "-p", "no:xdist"]\n'
    )
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (folder / "pyproject.toml").write_text(project + settings, encoding="utf-8")


def _mutant(name: str, diff: str) -> Mutant:
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    removed = (line[1:].strip() for line in lines if line.startswith("-"))
    added = (line[1:].strip() for line in lines if line.startswith("+"))
    function = re.sub(r"__mutmut_\d+$", "", name)
    return Mutant(function, " ".join(removed), " ".join(added))


def _equivalent() -> dict[Mutant, str]:
    """Read the changes that change nothing, with the reason for each."""
    listed = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["mutant"]
    return {
        Mutant(row["function"], row["before"], row["after"]): row["reason"]
        for row in listed
    }


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
