"""A cell that prints far more than anyone will read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from kern_tools import Sandbox
from kern_tools.tools import tools_of

from .floor import KernAlone, drain
from .harness import Contestant, Figure, Sample, Workload

TOTAL_BYTES = 64 << 20
CALLS = 256
CODE = """\
text = ("x" * 63 + "\\n") * 1024
for _ in range(1024):
    print(text, end="")
"""


@contextmanager
def flood() -> Generator[Workload]:
    """Compare a tool call, print to reply, with reading the same box to nowhere."""
    with Sandbox(prewarm=0) as sandbox:
        floor = KernAlone(sandbox.config, sandbox.workspace.root, CODE)
        (tool,) = tools_of(sandbox, "run_code")

        def drained() -> None:
            assert floor.run(drain) == TOTAL_BYTES

        def ours() -> None:
            reply = tool.call({"code": CODE})
            assert reply.result is not None
            assert reply.result.stdout_bytes == TOTAL_BYTES, reply.text

        yield Workload(
            name="64 MiB of output",
            about="A `run_code` tool call, print to reply, against the same box whose"
            " output is read and dropped. The peak is that of an interpreter of its"
            " own over what it held before the call.",
            contestants=[
                Contestant("drained", drained),
                Contestant("ours", ours),
                Contestant("peak", partial(_measured_by, "peak")),
            ],
            figures=[
                Figure(
                    "64 MiB printed, to the reply / drained",
                    lambda r: r["ours"].wall_s / r["drained"].wall_s,
                    bar=1.3,
                    goal=1.2,
                ),
                Figure(
                    "its host memory, peak / `max_output_bytes`",
                    lambda r: r["peak"].counted / sandbox.config.max_output_bytes,
                    bar=4,
                    rival=False,
                ),
            ],
            rounds=12,
        )


@contextmanager
def many_results() -> Generator[Workload]:
    """Measure the host's memory while it keeps many large results."""
    yield Workload(
        name="many results",
        about=f"{CALLS} calls from 4 threads that print 1 MiB each and whose results"
        " are all kept, in an interpreter of its own: its peak over what it held"
        " before.",
        contestants=[Contestant("ours", partial(_measured_by, "held"))],
        figures=[
            Figure(
                f"host memory of {CALLS} results of 1 MiB, peak / their text",
                lambda r: r["ours"].counted,
                bar=2,
                rival=False,
            )
        ],
        rounds=1,
        warm_up=0,
    )


def _measured_by(name: str) -> Sample:
    """Measure in a new interpreter, where no earlier call left memory to reuse."""
    argv = [sys.executable, "-m", f"tests.bench.{name}"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
    return Sample(*map(float, done.stdout.split()))
