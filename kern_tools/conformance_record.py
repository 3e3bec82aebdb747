"""What a run of the contracts came to: which promise holds here, in which mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .promises import sources_of

MODES = ("fresh", "resident", "kernel")
"""Of a sandbox; each is a column."""

State = Literal["holds", "does not hold", "cannot", "not run"]
"""`cannot`: this host cannot show it, for the reason that is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One clause, in one mode, with one case.

    Attributes:
        subject: What was looked at: a part of the sandbox, or an adapter.
        mode: Of the sandbox.
        clause: Its name, without `test_`.
        says: What it claims, in one sentence.
        case: What tells it from the clause's other cases, or an empty text.
        state: What came of it.
        reason: Of what does not hold or cannot; else empty.
    """

    subject: str
    mode: str
    clause: str
    says: str
    case: str = ""
    state: State = "not run"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One clause of one subject.

    Attributes:
        subject: As of its checks.
        clause: As of its checks.
        says: As of its checks.
        modes: Its checks in each mode.
    """

    subject: str
    clause: str
    says: str
    modes: Mapping[str, Sequence[Check]]

    @property
    def words(self) -> str:
        """The name as a sentence."""
        return self.clause.replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conformance:
    """All checks of a run.

    Attributes:
        checks: In the order in which they were to be made.
        left_out: Adapters whose framework is not here, and what would bring it.
        interrupted: Somebody pressed Ctrl-C.
        quick: Not all cases were asked for.
        duration_s: How long it took.
    """

    checks: Sequence[Check]
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    interrupted: bool = False
    quick: bool = False
    duration_s: float = 0.0

    @property
    def ok(self) -> bool:
        """All that can hold on this host does."""
        return not self.interrupted and all(
            check.state in ("holds", "cannot") for check in self.checks
        )

    def counts(self) -> Counter[str]:
        """Give how many checks there are in each state."""
        return Counter(check.state for check in self.checks)

    def rows(self) -> Iterator[Row]:
        """Give the clauses, each with its checks by mode."""
        found: dict[tuple[str, str], dict[str, list[Check]]] = {}
        for check in self.checks:
            modes = found.setdefault((check.subject, check.clause), {})
            modes.setdefault(check.mode, []).append(check)
        for (subject, clause), modes in found.items():
            (first, *_), *_ = modes.values()
            yield Row(subject, clause, first.says, modes)

    def to_dict(self) -> dict[str, Any]:
        """Return the run as plain JSON."""
        return {
            "ok": self.ok,
            "interrupted": self.interrupted,
            "quick": self.quick,
            "duration_s": round(self.duration_s, 1),
            "counts": dict(self.counts()),
            "left_out": dict(self.left_out),
            "clauses": [_row(row) for row in self.rows()],
        }


def _row(row: Row) -> dict[str, Any]:
    return {
        "subject": row.subject,
        "clause": row.clause,
        "says": row.says,
        "sources": list(sources_of(row.clause)),
        "modes": {
            mode: [_case(check) for check in checks]
            for mode, checks in row.modes.items()
        },
    }


def _case(check: Check) -> dict[str, str]:
    return {"case": check.case, "state": check.state, "reason": check.reason}
