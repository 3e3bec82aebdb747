"""Calls to a box that stays: one Python for all of them, or a new one in each."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager

from kern_tools import Sandbox

from .harness import Contestant, Figure, Workload
from .rival import binding, binding_kernel


@contextmanager
def kernel_call() -> Generator[Workload]:
    """Compare our kernel with the binding's."""
    with Sandbox(mode="kernel") as sandbox, binding_kernel() as kernel:

        def ours() -> None:
            result = sandbox.run_code("1+1")
            assert [value.text for value in result.results] == ["2"], result

        def theirs() -> None:
            result = kernel.run_code("1+1")
            assert [value.text for value in result.results] == ["2"], result

        ours()  # It opens the box.
        yield Workload(
            name="kernel call",
            about="`run_code('1+1')` in `kernel` mode against `Sandbox.kernel()` of the"
            " binding, both open.",
            contestants=[Contestant("binding", theirs), Contestant("ours", ours)],
            figures=[
                Figure(
                    "kernel call / the binding's kernel",
                    lambda r: r["ours"].wall_s / r["binding"].wall_s,
                    bar=1.0,
                ),
                Figure(
                    "the same, CPU time of this end",
                    lambda r: r["ours"].cpu_s / r["binding"].cpu_s,
                ),
            ],
            rounds=150,
        )


@contextmanager
def resident_call() -> Generator[Workload]:
    """Compare our resident box with the binding's."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Sandbox(mode="resident") as sandbox,
        binding(
            persist=True,
            name=f"kt-bench-{os.getpid()}",
            workspace=folder,
            persist_ttl_s=600,  # It outlives a bench that is killed, by this much.
        ) as other,
    ):

        def ours() -> None:
            result = sandbox.run_code("print(1)")
            assert result.stdout == "1\n", result

        def theirs() -> None:
            result = other.run_code("print(1)")
            assert result.stdout == "1\n", result

        try:
            ours()  # It opens the box, as the next line does theirs.
            theirs()
            yield Workload(
                name="resident call",
                about="`run_code('print(1)')` in `resident` mode against `persist=True`"
                " of the binding, both boxes open: a new Python for each call. Of our"
                " box the CPU time is not in the table: it is known once the box ends.",
                contestants=[Contestant("binding", theirs), Contestant("ours", ours)],
                figures=[
                    Figure(
                        "resident call / the binding's `persist`",
                        lambda r: r["ours"].wall_s / r["binding"].wall_s,
                        bar=0.25,
                    )
                ],
                rounds=60,
            )
        finally:
            other.destroy()
