"""How a run of the contracts is shown: a table, reasons, what is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import shorten

from .conformance_record import Check, Conformance, Row
from .escaping import escape
from .promises import sources_of
from .screen import show_heading, show_table

_RED = "red"
_LINES, _CHARS = 4, 200
"""Of what a clause that does not hold has to say; `--json` has all of it."""
_SOURCES = 3


def show_conformance(run: Conformance) -> None:
    """Print which clauses hold in which mode, and why the others do not."""
    modes = list(dict.fromkeys(check.mode for check in run.checks))
    reasons = list(dict.fromkeys(c.reason for c in run.checks if c.state == "cannot"))
    rows = [(_cells(row, modes, reasons), _style(row)) for row in run.rows()]
    show_table(("of", "what is promised", *modes), rows)
    for number, reason in enumerate(reasons, 1):
        print(f"[{number}] this host cannot: {escape(reason)}")
    for check in run.checks:
        if check.state == "does not hold":
            _show_failure(check)
    for name, remedy in run.left_out.items():
        print(f"left out: {name}. {escape(remedy)}")
    print(_summary(run))


def _cells(row: Row, modes: Sequence[str], reasons: list[str]) -> tuple[str, ...]:
    cells = (_cell(row.modes.get(mode, ()), reasons) for mode in modes)
    return (row.subject, row.words, *cells)


def _cell(checks: Sequence[Check], reasons: list[str]) -> str:
    """Say in few words what came of a clause's cases in a mode."""
    if not checks:
        return "-"
    states = {check.state for check in checks}
    if len(states) == 1:
        count = f" ({len(checks)})" if len(checks) > 1 else ""
        return f"{checks[0].state}{count}{_notes(checks, reasons)}"
    counted = [f"{sum(c.state == s for c in checks)} {s}" for s in sorted(states)]
    return f"{', '.join(counted)}{_notes(checks, reasons)}"


def _notes(checks: Sequence[Check], reasons: list[str]) -> str:
    named = {reasons.index(c.reason) + 1 for c in checks if c.state == "cannot"}
    return "".join(f" [{number}]" for number in sorted(named))


def _style(row: Row) -> str | None:
    states = {check.state for checks in row.modes.values() for check in checks}
    if "does not hold" in states:
        return _RED
    return None if states == {"holds"} else "yellow"


def _show_failure(check: Check) -> None:
    case = f" ({check.case})" if check.case else ""
    words = check.clause.replace("_", " ")
    show_heading(f"does not hold: {check.subject}, {check.mode}: {words}{case}")
    print(f"  {check.says}")
    if sources := sources_of(check.clause):
        print(f"  promised by: {'; '.join(sources[:_SOURCES])}")
    for line in check.reason.splitlines()[:_LINES]:
        print(f"  {shorten(escape(line), _CHARS, placeholder=' ...')}")


def _summary(run: Conformance) -> str:
    return f"{', '.join(_said(run))}; {run.duration_s:.0f} s"


def _said(run: Conformance) -> Iterator[str]:
    counts = run.counts()
    yield f"{counts['holds']} of {len(run.checks)} checks hold"
    if counts["does not hold"]:
        yield f"{counts['does not hold']} do not"
    if counts["cannot"]:
        yield f"{counts['cannot']} this host cannot show"
    if counts["not run"]:
        yield f"{counts['not run']} were not run"
    if run.quick:
        yield "one case of each clause; without --quick all of them"
