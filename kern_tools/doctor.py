"""A host report as findings, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from .host import HostReport

State = Literal["ok", "note", "warning", "missing"]

_UNCAPPED = (
    "NOT ENFORCED: code can use all memory and processes of this machine; the rest of"
    " the isolation holds"
)
_CAP_REMEDY = (
    "let kern have a cgroup v2 with `memory` and `pids` delegated (`kern doctor` says"
    " what is missing); until then require_limits=True refuses to run uncapped"
)
_CAPS: Mapping[bool | None, tuple[State, str, str]] = {
    True: ("ok", "memory and process caps are enforced", ""),
    False: ("warning", _UNCAPPED, _CAP_REMEDY),
    None: ("note", "not known whether they are enforced", ""),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        about: What it is.
        state: `missing` stands in the way, `warning` weakens what holds.
        found: What was found.
        remedy: What to do, or an empty text.
    """

    about: str
    state: State
    found: str
    remedy: str = ""


def findings(report: HostReport) -> list[Finding]:
    """Say what a report means, in the order in which one depends on another."""
    return [
        Finding("system", "ok", report.platform),
        Finding("python", "ok", f"{report.python_version}, {report.python_executable}"),
        _kern(report),
        *_answers(report),
        _boxes(report),
        _caps(report),
        _image(report),
        *_environment(report),
    ]


def _kern(report: HostReport) -> Finding:
    if report.kern is None:
        return Finding("kern", "missing", "not usable", report.problem or "")
    return Finding("kern", "ok", f"{report.kern_version}, {report.kern}")


def _answers(report: HostReport) -> Iterator[Finding]:
    if report.missing_answers:
        yield Finding(
            "kern's answers",
            "warning",
            f"this kern does not say: {', '.join(report.missing_answers)}",
            "pip install --upgrade kern-sandbox; until then faults that need these"
            " answers are reported as 'killed'",
        )


def _boxes(report: HostReport) -> Finding:
    if report.boxes_start:
        return Finding("boxes", "ok", "start")
    # Without kern the problem already stands there.
    remedy = report.problem or "" if report.kern else "see kern above"
    return Finding("boxes", "missing", "do not start", remedy)


def _caps(report: HostReport) -> Finding:
    state, found, remedy = _CAPS[report.limits_enforced]
    return Finding("caps", state, f"{found} (cgroups: {report.cgroups})", remedy)


def _image(report: HostReport) -> Finding:
    reference = str(report.image)
    if report.image_present:
        return Finding("image", "ok", f"present, {reference}")
    if report.image_present is None:
        return Finding("image", "note", f"not known whether present, {reference}")
    remedy = "nothing: the first sandbox that uses it builds or pulls it"
    return Finding("image", "note", f"not there yet, {reference}", remedy)


def _environment(report: HostReport) -> Iterator[Finding]:
    for name, value in report.environment.items():
        yield Finding(
            name,
            "warning" if name == "KERN_ALLOW_UNCAPPED" else "note",
            f"set to {value!r}: changes how kern behaves",
            "unset it if that is not meant",
        )
