"""Eight calls at once, as of a model that asks for all of them in one message."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from kern_tools import Sandbox

from .harness import Contestant, Figure, Workload
from .rival import binding

CALLS = 8


@contextmanager
def burst() -> Generator[Workload]:
    """Compare boxes that wait, one for each call, with boxes started for them."""
    with (
        Sandbox(prewarm=CALLS) as sandbox,
        binding() as other,
        ThreadPoolExecutor(CALLS) as threads,
    ):

        def ready() -> None:
            assert sandbox.wait_ready(60)

        def at_once(run: Callable[[int], str]) -> Callable[[], None]:
            def all_of_them() -> None:
                printed = list(threads.map(run, range(CALLS)))
                assert printed == [f"{n}\n" for n in range(CALLS)], printed

            return all_of_them

        ready()
        yield Workload(
            name="burst",
            about=f"{CALLS} calls of `run_code` on as many threads, first call to last"
            f" result: a sandbox with `prewarm={CALLS}`, ready, against one of the"
            " binding at its default.",
            contestants=[
                Contestant(
                    "binding", at_once(lambda n: other.run_code(f"print({n})").stdout)
                ),
                Contestant(
                    "ours",
                    at_once(lambda n: sandbox.run_code(f"print({n})").stdout),
                    before=ready,
                ),
            ],
            figures=[
                Figure(
                    f"burst of {CALLS}, `prewarm={CALLS}` / the binding, cold",
                    lambda r: r["ours"].wall_s / r["binding"].wall_s,
                    bar=0.1,
                )
            ],
            rounds=20,
        )
