"""What pytest needs to run contracts without a file: collection, async, a record."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from .conformance_record import Check

if TYPE_CHECKING:
    from .conformance_subjects import Subject

Tell = Callable[[str], None]

_HANGS_AFTER_S = 120
"""A net for a clause that would never end, far from what any of them takes."""
QUICK_CASES = ("printed", "exception", "blocked", "charts", "no arguments")
"""The cases of adapters that a quick run keeps, in one mode."""


class ContractPlugin:
    """Collects the clauses of subjects and keeps what came of each.

    Args:
        subjects: Makes what is looked at, once asserts can be rewritten.
        quick: Keep one case of each clause, and of adapters a few in one mode.
        tell: Told what begins.
    """

    def __init__(
        self, subjects: Callable[[], Sequence[Subject]], *, quick: bool, tell: Tell
    ) -> None:
        self._subjects = subjects
        self._quick = quick
        self._tell = tell
        self._checks: dict[str, Check] = {}
        self._told = ""
        self.error: Exception | None = None

    @property
    def checks(self) -> list[Check]:
        """What was found, in the order of the run."""
        return list(self._checks.values())

    # -- what is to be run

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool:
        """Take the place of the search for files."""
        try:
            subjects = self._subjects()
        except Exception as error:
            self.error = error
            return True
        session.items = self._items(session, {each.label: each for each in subjects})
        session.config.hook.pytest_collection_modifyitems(
            session=session, config=session.config, items=session.items
        )
        session.testscollected = len(session.items)
        chosen = {item.nodeid for item in session.items}
        self._checks = {n: c for n, c in self._checks.items() if n in chosen}
        return True

    def _items(
        self, session: pytest.Session, subjects: dict[str, Subject]
    ) -> list[pytest.Item]:
        holder = ModuleType("contracts")
        vars(holder).update({name: each.clauses for name, each in subjects.items()})
        path = Path(session.config.rootpath, "contracts")
        collector: Any = pytest.Module
        module: pytest.Module = collector.from_parent(session, path=path)
        module.obj = holder
        items: list[pytest.Item] = []
        for item in session.genitems(module):
            assert isinstance(item, pytest.Function)
            assert item.parent is not None
            subject = subjects[item.parent.name]
            if not self._quick or _is_quick(item, subject, self._checks):
                self._checks[item.nodeid] = _check(item, subject)
                items.append(item)
        return items

    # -- how it is run

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Tell when another subject begins."""
        check = self._checks[nodeid]
        label = f"{check.subject}, {check.mode}"
        if label != self._told:
            self._told = label
            self._tell(label)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Run an async clause on a loop of its own."""
        clause = pyfuncitem.obj
        if not inspect.iscoroutinefunction(clause):
            return None
        names = inspect.signature(clause).parameters
        asyncio.run(clause(**{name: pyfuncitem.funcargs[name] for name in names}))
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        """End a clause that hangs."""
        with _limited():
            return (yield)

    # -- what came of it

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of each phase, of which the worst counts."""
        check = self._checks[report.nodeid]
        if report.failed:
            reason = _failure(report)
            check = dataclasses.replace(check, state="does not hold", reason=reason)
        elif report.skipped:
            check = dataclasses.replace(check, state="cannot", reason=_skip(report))
        elif report.when == "call":
            check = dataclasses.replace(check, state="holds")
        self._checks[report.nodeid] = check


def _check(item: pytest.Function, subject: Subject) -> Check:
    name = item.originalname
    says = inspect.getdoc(item.obj) or name
    return Check(
        subject=subject.name,
        mode=subject.mode,
        clause=name.removeprefix("test_"),
        says=says.splitlines()[0],
        case=item.name[len(name) + 1 : -1],
    )


def _is_quick(item: pytest.Function, subject: Subject, taken: dict[str, Check]) -> bool:
    check = _check(item, subject)
    if "sandbox" in item.fixturenames:
        return check.mode == "fresh" and check.case in ("", *QUICK_CASES)
    same = (check.subject, check.mode, check.clause)
    return same not in {(c.subject, c.mode, c.clause) for c in taken.values()}


def _skip(report: pytest.TestReport) -> str:
    assert isinstance(report.longrepr, tuple)
    return report.longrepr[2].removeprefix("Skipped: ")


def _failure(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    said = report.longreprtext if crash is None else crash.message
    return f"{report.when}: {said}" if report.when != "call" else said


@contextmanager
def _limited() -> Generator[None]:
    def end(number: int, frame: object) -> None:
        raise TimeoutError(f"it did not end within {_HANGS_AFTER_S} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, _HANGS_AFTER_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
