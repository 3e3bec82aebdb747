"""Change the code in small ways, and see that a test fails each time.

    make mutants ARGS="rendering arguments"

The modules are those whose words a model or a developer relies on most. mutmut changes
a copy of the project, one place at a time, and runs those fast tests of the module that
reach it, the quickest first. A change that no test notices is printed, unless
`equivalent.toml` says why it is none; so is a line of that file which is not true.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
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
        "test_policy.py::test_what_is_no_policy_is_refused_with_what_to_give",
        "test_policy.py::test_a_policy_has_a_watch_for_each_loop",
        "test_policy.py::test_a_state_that_is_none_is_refused",
    ),
    # What one option alone may be is a matter of `option_table`.
    "config": (
        "test_config.py",
        "--deselect=tests/test_config.py::test_a_good_value_is_taken",
        "--deselect=tests/test_config.py::test_a_bad_value_is_refused",
        "--deselect=tests/test_config.py::test_every_capability_is_known",
        "--deselect=tests/test_config.py::test_no_error_shows_a_secret",
    ),
}
"""A module, and its tests that need no box, in words of pytest's."""

TYPES_ONLY = [" cast[(]"]
"""Lines on which nothing happens when they run."""

SEEN_IS_ENOUGH = """
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "mutants",
    phases=[Phase.generate],
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("mutants")
"""
"""A property that fails is only to be seen, not to be shown at its smallest; one that
is slow does not fail."""

_RESULT = re.compile(r"^\s*(kern_tools\.\S+): (.+)$")


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
        0 if each change was noticed or is listed, and each that is listed was not.
    """
    return max(_check(module) for module in modules or TESTS)


def _check(module: str) -> int:
    listed = _equivalent(module)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        _stage(Path(folder), module)
        _mutmut(folder, "run")
        outcomes = _outcomes(folder)
        left = {
            _mutant(name, _mutmut(folder, "show", name)): outcome
            for name, outcome in outcomes.items()
            if outcome != "killed"
        }
    for mutant in sorted(left.keys() - listed, key=str):
        print(f"{left[mutant]}: {mutant}")
    for mutant in sorted(listed - left.keys(), key=str):
        print(f"noticed or gone, but listed as equivalent: {mutant}")
    equivalent = len(left.keys() & listed)
    print(f"{module}: {len(outcomes)} changes, {equivalent} of them equivalent")
    return int(left.keys() != listed)


def _mutmut(folder: str, *words: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "mutmut", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if ran.returncode:
        raise SystemExit(f"mutmut {' '.join(words)} failed:\n{ran.stdout[-9000:]}")
    return ran.stdout


def _outcomes(folder: str) -> dict[str, str]:
    told = _mutmut(folder, "results", "--all", "true")
    lines = (_RESULT.match(line) for line in told.splitlines())
    return {line[1]: line[2] for line in lines if line}


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
    tests = [w if w.startswith("-") else f"tests/{w}" for w in TESTS[module]]
    settings = (
        "\n[tool.mutmut]\n"
        'source_paths = ["kern_tools"]\n'
        f'only_mutate = ["kern_tools/{module}.py"]\n'
        f"do_not_mutate_patterns = {TYPES_ONLY!r}\n"
        "track_dependencies = false\n"
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


def _equivalent(module: str) -> set[Mutant]:
    """Read the changes that change nothing; each is listed with the reason."""
    listed = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["mutant"]
    return {
        Mutant(row["function"], row["before"], row["after"])
        for row in listed
        if row["function"].startswith(f"kern_tools.{module}.") and row["reason"]
    }


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
