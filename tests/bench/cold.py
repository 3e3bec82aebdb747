"""A call that finds no box waiting."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from kern_tools import Sandbox

from .floor import KernAlone, drain
from .harness import Contestant, Figure, Workload

CODE = "print(1)"


@contextmanager
def cold_call() -> Generator[Workload]:
    """Compare `run_code` with the bare box."""
    with Sandbox(prewarm=0) as sandbox:
        floor = KernAlone(sandbox.config, sandbox.workspace.root, CODE)

        def kern_alone() -> None:
            assert floor.run(drain) == len("1\n")

        def ours() -> None:
            result = sandbox.run_code(CODE)
            assert result.stdout == "1\n", result

        yield Workload(
            name="cold call",
            about="`run_code('print(1)')`, each in a new box, against `kern box ..."
            " python3 -I -S -c 'print(1)'` with the same flags. A call returns once no"
            " code of its box runs any more, kern alone once it has ended.",
            contestants=[Contestant("kern", kern_alone), Contestant("ours", ours)],
            figures=[
                Figure(
                    "cold call / `kern box` alone",
                    lambda r: r["ours"].wall_s / r["kern"].wall_s,
                    bar=1.25,
                    goal=1.15,
                ),
                Figure(
                    "the same, CPU time of both ends",
                    lambda r: r["ours"].cpu_s / r["kern"].cpu_s,
                ),
            ],
            rounds=80,
        )
