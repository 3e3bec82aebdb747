"""The same six calls through every framework, on real data."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .faults import ConfigError, FaultType
from .frameworks import FRAMEWORKS, TOOL, Carried, Carrier
from .image import ensure_image
from .loop_events import CallFinished, CallStarted, TextPiece
from .reply import Reply, TextPart
from .sandbox import Sandbox
from .screen import is_terminal, progress, show_heading, show_table
from .transcript import Transcript

CHART = "demo-chart.png"
DATA = "seattle_weather.csv"
PACKAGES = ("pandas", "matplotlib")


@dataclass(frozen=True, slots=True)
class Case:
    """One call of the demo.

    Attributes:
        name: What it shows.
        expected: The verdict as code has to see it.
        code: What the model wrote.
        more: Further arguments that it wrote.
    """

    name: str
    expected: str
    code: str
    more: Mapping[str, Any]

    @property
    def arguments(self) -> dict[str, Any]:
        """What the model wrote for `run_code`."""
        return {"code": self.code, **self.more}


_READ = f"""\
import pandas as pd

weather = pd.read_csv("{DATA}", parse_dates=["date"])
"""

CASES = (
    Case(
        "analysis",
        "exit 0",
        f"""\
{_READ}\
print(len(weather), "days in Seattle; by year, mm of rain and degrees a day:")
by_year = weather.groupby(weather.date.dt.year)
print(by_year[["precipitation", "temp_max", "temp_min"]].mean().round(1))
""",
        {},
    ),
    Case(
        "chart",
        "exit 0",
        f"""\
import matplotlib.pyplot as plt
{_READ}\
by_month = weather.groupby(weather.date.dt.month).precipitation.mean()
figure, axes = plt.subplots()
axes.set(title="Rain in Seattle, 2012 to 2015", xlabel="month", ylabel="mm a day")
bars = axes.bar(by_month.index, by_month)
""",
        {},
    ),
    Case(
        "exception",
        "exit 1",
        f"""\
import csv

with open("{DATA}") as file:
    days = list(csv.DictReader(file))
print(max(float(day["humidity"]) for day in days))
""",
        {},
    ),
    Case(
        "timeout",
        FaultType.TIMEOUT,
        'print("counting", flush=True)\nwhile True:\n    pass\n',
        {"timeout_s": 1},
    ),
    Case(
        "missing interpreter",
        FaultType.EXEC_FAILED,
        'console.log("hello")\n',
        {"language": "node"},
    ),
    Case(
        "blocked system call",
        FaultType.ESCAPE_BLOCKED,
        "import ctypes\n\n"
        'ctypes.CDLL(None).mount(b"none", b"/tmp", b"tmpfs", 0, None)\n',
        {},
    ),
)
"""The calls, in order."""

Seen = Sequence[tuple[Case, Mapping[str, Carried]]]
"""Each case, and what came of it by the framework's name."""


def run_demo(
    save: Path, cases: Sequence[Case] = CASES, *, page: Path | None = None
) -> bool:
    """Run every case through every framework that is installed, and print it.

    Args:
        save: The folder that gets the chart.
        cases: What is run.
        page: The file that gets the calls as a page.

    Returns:
        Whether each call ended as it should, and the same in all frameworks.

    Raises:
        ConfigError: The packages that the demo's code uses are not installed.
        SandboxError: No sandbox can be opened here.
    """
    _check_packages()
    with progress() as tell:
        ensure_image(packages=PACKAGES, progress=tell)
    # Matplotlib's index of fonts, made by the first import and kept for the others.
    environment = {"MPLCONFIGDIR": "/workspace/.matplotlib"}
    with Sandbox(packages=PACKAGES, env=environment) as sandbox:
        sandbox.write_file(DATA, (files("kern_tools.data") / DATA).read_bytes())
        sandbox.run_code("import pandas\nimport matplotlib.pyplot")
        carriers, absent = _carriers(sandbox)
        seen = [(case, _carried(case, carriers)) for case in cases]
    if page is not None:
        print(f"saved {_transcript(seen).to_html(page)}", file=sys.stderr)
    return _report(seen, absent, save)


def _check_packages() -> None:
    absent = [name for name in PACKAGES if find_spec(name) is None]
    if absent:
        names = " ".join(absent)
        raise ConfigError(
            f"the demo's code uses {' and '.join(absent)}, not installed here:"
            f" pip install {names}",
            option="packages",
        )


def _carriers(sandbox: Sandbox) -> tuple[dict[str, Carrier], dict[str, str]]:
    carriers: dict[str, Carrier] = {}
    absent: dict[str, str] = {}
    for name, make in FRAMEWORKS.items():
        try:
            carriers[name] = make(sandbox)
        except ImportError as error:
            absent[name] = str(error)
    return carriers, absent


def _carried(case: Case, carriers: Mapping[str, Carrier]) -> dict[str, Carried]:
    call_id = case.name.replace(" ", "_")
    carried: dict[str, Carried] = {}
    with progress() as tell:
        for name, carry in carriers.items():
            tell(f"{case.name}: {name}")
            carried[name] = carry(call_id, case.arguments)
    return carried


def _report(seen: Seen, absent: Mapping[str, str], save: Path) -> bool:
    for number, (case, carried) in enumerate(seen, 1):
        _show_call(number, case, carried)
    show_heading("The same calls, as code and as the model see them")
    columns = ("call", "adapter", "code sees", "ms", "the model reads first")
    show_table(columns, _rows(seen, absent))
    print()
    for name, text in absent.items():
        print(f"{name} was left out. {text}")
    problems = [text for case, carried in seen for text in problems_of(case, carried)]
    for text in problems:
        print(f"NOT AS IT SHOULD BE: {text}")
    present = [name for name in FRAMEWORKS if name not in absent]
    if present and not problems:
        print(f"The same verdicts, words and images in {', '.join(present)}.")
    _save_chart(seen, save)
    return bool(present) and not problems


def _show_call(number: int, case: Case, carried: Mapping[str, Carried]) -> None:
    if is_terminal():
        show_heading(f"\n{number}. {case.name}")
        _tell(Transcript(live=True), number, case, carried)
        return
    show_heading(f"{number}. {case.name}: the model writes")
    print(case.code)
    for one in list(carried.values())[:1]:
        show_heading(f"{number}. {case.name}: the model reads")
        print(f"{one.text}\n")


def _transcript(seen: Seen) -> Transcript:
    transcript = Transcript("Six calls, the same in every framework", live=False)
    for number, (case, carried) in enumerate(seen, 1):
        transcript.add(TextPiece(turn=number, text=case.name))
        _tell(transcript, number, case, carried)
    return transcript


def _tell(
    transcript: Transcript, turn: int, case: Case, carried: Mapping[str, Carried]
) -> None:
    """Tell of a call as the first framework carried it; the others' are compared."""
    made: Any = {"turn": turn, "call_id": case.name, "tool": TOOL}
    transcript.add(CallStarted(**made, arguments=json.dumps(case.arguments)))
    for one in list(carried.values())[:1]:
        reply = Reply(name=TOOL, parts=(TextPart(one.text),), result=one.result)
        transcript.add(CallFinished(**made, reply=reply, duration_ms=one.duration_ms))


def _rows(
    seen: Seen, absent: Mapping[str, str]
) -> Iterator[tuple[tuple[str, ...], str | None]]:
    for case, carried in seen:
        for name in FRAMEWORKS:
            if name in absent:
                yield (case.name, name, "not installed", "-", "-"), "yellow"
                continue
            one = carried[name]
            first_line = one.text.partition("\n")[0]
            duration_ms = f"{one.duration_ms:,.0f}"
            cells = (case.name, name, one.verdict, duration_ms, first_line)
            yield cells, None if one.verdict == case.expected else "red"


def problems_of(case: Case, carried: Mapping[str, Carried]) -> Iterator[str]:
    """Say what is not as it should be about one call.

    Args:
        case: The call.
        carried: What came of it, by the framework's name.

    Yields:
        A sentence for each verdict that was not expected, and one where frameworks
        differ in anything but the time taken.
    """
    for name, one in carried.items():
        if one.verdict != case.expected:
            yield f"{case.name} in {name} is {one.verdict!r}, not {case.expected!r}"
    if len({_steady(one) for one in carried.values()}) > 1:
        yield f"{case.name} is not the same in {', '.join(carried)}"


def _steady(one: Carried) -> tuple[str, str, int]:
    text = re.sub(r"\A(.*), took [\d.,]+ s of [\d.,]+ s$", r"\1", one.text, flags=re.M)
    # LlamaIndex passes no id of the call on, and what is kept is named for the id.
    text = re.sub(r"(\.kern/[a-z]+-)[\w-]+?(?=[-.])", r"\1ID", text)
    return one.verdict, text, one.images


def _save_chart(seen: Seen, save: Path) -> None:
    values = (v for _, c in seen for one in c.values() for v in one.result.results)
    chart = next((value.png for value in values if value.png), None)
    if chart is not None:
        path = save / CHART
        path.write_bytes(chart)
        print(f"The chart is in {path.resolve()}")
