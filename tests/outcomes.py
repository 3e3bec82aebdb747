"""What can come of a call, and what the text that a model reads has to say of it.

A fact is a pattern that takes the words of others too: the bench holds the texts of
other sandboxes against the same list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kern_tools.result import ExecutionResult, FileInfo


def exited(code: int) -> str:
    """Give the pattern for an exit code, in whatever words."""
    return rf"exit\w*\W+(?:\w+\W+){{0,2}}{code}\b"


ENDED_WELL = rf"\bok\b|{exited(0)}|\bsuccess"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One thing that can come of a call.

    Attributes:
        name: A word or two.
        code: What is run, in Python.
        command: The same for a shell; None where that is another matter.
        facts: What the text has to say, by a name: a pattern, whatever the case.
        arguments: Sent in place of `code`, where they are what is wrong.
        result: What came of it, where no box here can show it.
        options: Of the sandbox.
        timeout_s: That the call asks for.
    """

    name: str
    facts: Mapping[str, str]
    code: str = ""
    command: str | None = None
    arguments: Mapping[str, object] | None = None
    result: ExecutionResult | None = None
    options: Mapping[str, object] | None = None
    timeout_s: float | None = None

    def missing(self, text: str) -> list[str]:
        """Give the names of the facts that a text does not say."""
        return [
            name
            for name, pattern in self.facts.items()
            if not re.search(pattern, text, re.IGNORECASE | re.DOTALL)
        ]


def _ended(kind: str, message: str, **more: object) -> ExecutionResult:
    fault = {"type": kind, "message": message, **more}
    return ExecutionResult.model_validate({"fault": fault, "exit_code": 137})


PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAA"
    "CklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
CHART = f"""\
import base64
class Chart:
    def _repr_png_(self): return base64.b64decode("{PIXEL}")
Chart()
"""
MOUNT = "import ctypes\nctypes.CDLL(None).mount(b'n', b'/tmp', b'tmpfs', 0, None)"
FILL = """\
import time
file = open('filled', 'wb')
while True: file.write(bytes(1 << 20)); file.flush(); time.sleep(0.01)
"""

OUTCOMES: tuple[Outcome, ...] = (
    Outcome(
        name="printed",
        code="print(6 * 7)",
        command="echo $((6 * 7))",
        facts={"it ended well": ENDED_WELL, "output": r"\b42\b"},
    ),
    Outcome(
        name="value",
        code="{'mean': 3.5}",
        facts={"it ended well": ENDED_WELL, "the value": r"\{'mean': 3\.5\}"},
    ),
    Outcome(
        name="silent",
        code="x = 42",
        command="x=42",
        facts={
            "it ended well": ENDED_WELL,
            "there was no output": r"no output|nothing|without printing",
            "how to see more": r"print what",
        },
    ),
    Outcome(
        name="chart",
        code=CHART,
        facts={
            "it ended well": ENDED_WELL,
            "there is an image": r"image",
            "its name": r"\.png",
        },
    ),
    Outcome(
        name="warning",
        code="import sys\nprint('done')\nprint('old', file=sys.stderr)",
        command="echo done; echo old >&2",
        facts={
            "it ended well": ENDED_WELL,
            "output": r"\bdone\b",
            "the warning, apart": r"stderr\W.*\bold\b|\bold\b.*stderr",
        },
    ),
    Outcome(
        name="exception",
        code="numbers = [1, 0]\nprint(numbers[0] / numbers[1])",
        facts={
            "exit code": exited(1),
            "the error": r"ZeroDivisionError: division by zero",
            "where": r"line 2.*numbers\[0\] / numbers\[1\]",
        },
    ),
    Outcome(
        name="missing module",
        code="import numpy",
        facts={
            "exit code": exited(1),
            "the error": r"No module named 'numpy'",
            "that no install helps": r"nothing can be installed",
            "what there is": r"standard library",
        },
    ),
    Outcome(
        name="exit code",
        code="raise SystemExit(3)",
        command="exit 3",
        facts={
            "exit code": exited(3),
            "there was no output": r"no output|nothing|without printing",
        },
    ),
    Outcome(
        name="files",
        code="open('report.csv', 'w').write('a,b\\n1,2\\n');",
        command="printf 'a,b\\n1,2\\n' > report.csv",
        facts={
            "it ended well": ENDED_WELL,
            "the file's name": r"report\.csv",
            "its size": r"\b8 bytes\b",
        },
    ),
    Outcome(
        name="truncated",
        code="print('first')\nfor n in range(5000): print('row', n)\nprint('last')",
        command="echo first; for n in $(seq 5000); do echo row $n; done; echo last",
        facts={
            "it ended well": ENDED_WELL,
            "its start": r"\bfirst\b",
            "its end": r"\blast\b",
            "how much there is": r"\b4\d,?\d{3} characters",
            "where all of it is": r"\.txt\b",
        },
    ),
    Outcome(
        name="timeout",
        code="print('step 1', flush=True)\nimport time; time.sleep(60)",
        command="echo step 1; sleep 60",
        timeout_s=1,
        facts={
            "who ended it": r"\btimeout\b|timed out|deadline",
            "the limit": r"\b1(?:\.0)? ?s",
            "output until then": r"step 1",
            "what is kept": r"files are kept",
            "what to do": r"do less|smaller",
        },
    ),
    Outcome(
        name="blocked",
        code=MOUNT,
        facts={
            "who ended it": r"escape_blocked",
            "why": r"system call|syscall",
            "what to do": r"without that system call",
            "not to try again": r"again changes nothing",
        },
    ),
    Outcome(
        name="workspace full",
        code=FILL,
        command="while :; do head -c 1000000 /dev/zero >> filled; sleep 0.01; done",
        options={"workspace_max_bytes": 4_000_000},
        facts={
            "who ended it": r"workspace_full",
            "the limit": r"4,?000,?000|3\.8 MiB",
            "what to do": r"large ones smaller",
        },
    ),
    Outcome(
        name="missing program",
        code="console.log(1)",
        arguments={"code": "console.log(1)", "language": "node"},
        facts={
            "who ended it": r"exec_failed",
            "the program": r"\bnode\b",
            "what there is": r"python, bash, sh",
        },
    ),
    Outcome(
        name="bad arguments",
        arguments={"code": 5},
        facts={
            "nothing ran": r"nothing was run",
            "what was wrong": r"must be a string",
            "what to send": r"`code` \(string, required\)",
        },
    ),
    Outcome(
        name="out of memory",
        result=_ended("oom", "out of memory: the box went over its 512 MiB limit"),
        facts={
            "who ended it": r"\boom\b",
            "the limit": r"512 MiB",
            "what is kept": r"files are kept",
            "what to do": r"use less memory",
            "not to try again": r"same code will end the same way",
        },
    ),
    Outcome(
        name="not started",
        result=_ended("startup_failed", "the box did not start; none of the code ran"),
        facts={
            "who ended it": r"startup_failed",
            "nothing ran": r"none of the code ran",
            "not to change the code": r"do not change it",
            "whom to tell": r"tell the user",
        },
    ),
    Outcome(
        name="new box",
        result=ExecutionResult(
            stdout="0\n", state_new=True, files=[FileInfo(path="a.csv", size=4)]
        ),
        facts={
            "it ended well": ENDED_WELL,
            "output": r"\b0\b",
            "what is gone": r"all else of earlier calls is gone",
            "the file's name": r"a\.csv",
        },
    ),
)
