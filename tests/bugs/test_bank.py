"""The bug bank is whole: every row has its tests, and every mark its row."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from .bank import BUGS, DEMANDS, url

TESTS = Path(__file__).parents[1]
README = TESTS.parent / "README.md"
ELSEWHERE = {name for bug in BUGS.values() for name in bug.also}
MEETING = {name for demand in DEMANDS.values() for name in demand.tests}
SHORT = {demand.short for demand in DEMANDS.values() if demand.short}


@cache
def functions(file: str) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Give the functions of a test file, by name."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name: node for node in ast.walk(tree) if isinstance(node, kinds)}


def marked() -> Iterator[tuple[str, str, str]]:
    """Give each row that a test is marked with, the test, and its docstring."""
    for file in sorted((TESTS / "bugs").glob("test_*.py")):
        for name, function in functions(f"bugs/{file.name}").items():
            for row in rows_of(function):
                yield row, f"{file.name}::{name}", ast.get_docstring(function) or ""


def rows_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Give the rows that a test says it holds."""
    for mark in function.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.bug":
            yield from (ast.literal_eval(row) for row in mark.args)


def test_every_bug_has_a_test_and_every_mark_its_bug() -> None:
    """A row without a test, or a mark of no row, is found here."""
    assert {row for row, _, _ in marked()} == set(BUGS)


def test_a_test_names_where_its_bug_was_reported() -> None:
    """Its docstring has one of the row's sources, and all its tests have all."""
    cited: dict[str, set[str]] = {}
    for row, test, doc in marked():
        sources = {url(source) for source in BUGS[row].sources}
        found = sources & {line.split()[-1] for line in doc.splitlines() if line}
        assert found, test
        cited.setdefault(row, set()).update(found)
    assert cited == {n: set(map(url, bug.sources)) for n, bug in BUGS.items()}


def test_each_test_that_is_named_exists() -> None:
    """One that was renamed or removed is missed here."""
    named = {tuple(name.split("::")) for name in ELSEWHERE | MEETING}
    assert {
        (file, name) for file, name in named if name not in functions(file)
    } == set()


def test_every_demand_is_met_or_said_not_to_be() -> None:
    """By a test, by a bullet of the README, or by both where it is met in part."""
    assert [n for n, d in DEMANDS.items() if not d.tests and not d.short] == []


def test_what_is_not_met_is_in_the_readme() -> None:
    """No bullet without its demand, and none that is kept silent."""
    text = README.read_text(encoding="utf-8").partition("\n## Not met\n")[2]
    bullets = re.findall(r"^- \*\*(.+?)\*\*", text.partition("\n## ")[0], re.M | re.S)
    assert {" ".join(bullet.split()) for bullet in bullets} == SHORT


def test_sources_are_public_and_of_one_form() -> None:
    """Each leads to an issue, a pull request or a page of its project."""
    sources = [source for bug in BUGS.values() for source in bug.sources]
    sources += [source for demand in DEMANDS.values() for source in demand.sources]
    for source in sources:
        assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/.+", url(source))
