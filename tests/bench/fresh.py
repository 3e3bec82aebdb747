"""What a new interpreter needs to get ready: imports, and the look for the image."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pydantic

import kern_tools
from kern_tools import adapters, prompts
from kern_tools.image import ensure_image

from .harness import Contestant, Figure, Sample, Workload

OURS = "from kern_tools import Sandbox"
BASE = "from pydantic import BaseModel"
HEAVY = ("jinja2", "typer", "rich")

_TIMED = """\
import sys, time
{before}
cpu_s, began_s = time.process_time(), time.perf_counter()
{statement}
wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
print(wall_s, cpu_s, sum(name in sys.modules for name in {heavy!r}))
"""


def timed(statement: str, before: str = "") -> Sample:
    """Time one statement in a new interpreter, whose own start is not counted.

    Args:
        statement: What is timed.
        before: What runs first.

    Returns:
        The times, and how many of `HEAVY` it loaded.
    """
    script = _TIMED.format(statement=statement, before=before, heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        check=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
    )
    wall_s, cpu_s, heavy = map(float, done.stdout.split())
    return Sample(wall_s, cpu_s, heavy)


@contextmanager
def imports() -> Generator[Workload]:
    """Compare our import with that of the library whose models we use."""
    for package in (kern_tools, adapters, prompts, pydantic):
        compileall.compile_dir(Path(str(package.__file__)).parent, quiet=1)
    yield Workload(
        name="import",
        about=f"`{OURS}` against `{BASE}`, each in a new interpreter with bytecode"
        " present; the start of Python itself is not counted.",
        contestants=[
            Contestant("pydantic", lambda: timed(BASE)),
            Contestant("ours", lambda: timed(OURS)),
        ],
        figures=[
            Figure(
                f"`{OURS}` / `{BASE}`, CPU time",
                lambda r: r["ours"].cpu_s / r["pydantic"].cpu_s,
                bar=2.0,
                goal=1.6,
            ),
            Figure(
                f"modules among {', '.join(HEAVY)} that it loads",
                lambda r: r["ours"].counted,
                bar=0,
                unit="",
            ),
        ],
        rounds=25,
        pace_s=0.01,
    )


@contextmanager
def first_call() -> Generator[Workload]:
    """Compare the way from a new interpreter to the end of its first call."""
    reference = ensure_image().reference
    ours = "with Sandbox() as sandbox: sandbox.run_code('print(1)')"
    theirs = f"with Sandbox(image={reference!r}) as box: box.run_code('print(1)')"
    yield Workload(
        name="first call",
        about="A new interpreter imports, opens a sandbox, makes one call and closes"
        " it, against the same with the binding; the start of Python is not counted.",
        contestants=[
            Contestant(name, partial(timed, f"exec({code!r})"))
            for name, code in (
                ("binding", f"from kern_sandbox import Sandbox\n{theirs}"),
                ("ours", f"{OURS}\n{ours}"),
            )
        ],
        figures=[
            Figure(
                "first call after the start / the binding's",
                lambda r: r["ours"].wall_s / r["binding"].wall_s,
            )
        ],
        rounds=12,
        pace_s=0.1,
    )


@contextmanager
def image_present() -> Generator[Workload]:
    """Time the look for the host's image, which is there."""
    ensure_image()
    before = "from kern_tools.image import ensure_image"

    def again() -> None:
        ensure_image()

    yield Workload(
        name="host image",
        about="`ensure_image()` where the image is present: the first time in a new"
        " interpreter, its imports not counted, and again in one that asked before.",
        contestants=[
            Contestant("first", lambda: timed("ensure_image()", before)),
            Contestant("again", again),
        ],
        figures=[
            Figure(
                "host image, present",
                lambda r: r["first"].wall_s * 1000,
                bar=5,
                unit="ms",
            ),
            Figure(
                "the same, asked again",
                lambda r: r["again"].wall_s * 1000,
                unit="ms",
            ),
        ],
        rounds=25,
        pace_s=0.01,
    )
