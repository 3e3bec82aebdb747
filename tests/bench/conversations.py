"""Many conversations on one host, each with a sandbox of its own."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from kern_tools import Sandbox

from .harness import Contestant, Figure, Round, Workload
from .rival import binding

CALLS = 2
"""Of a short conversation; a longer one has `MANY_CALLS`."""
MANY_CALLS = 8
ASKED = 64
"""Of how many something is asked."""
NOTHING = (None, None)
_TIMEOUT_S = 120  # What takes long here is the queue for the processors.

Open = Callable[[], AbstractContextManager[Any]]


def converse(opened: Open, n: int, calls: int) -> None:
    """Open a sandbox, have later calls find what the first left, and close it."""
    with opened() as sandbox:
        first = sandbox.run_code(f"open('mine', 'w').write('{n}')\nprint({n})")
        assert first.stdout == f"{n}\n", first
        for _ in range(calls - 1):
            later = sandbox.run_code("print(open('mine').read())")
            assert later.stdout == f"{n}\n", later


@contextmanager
def conversations(count: int = 64, calls: int = CALLS) -> Generator[Workload]:
    """Compare our sandboxes with as many of the binding's.

    Args:
        count: How many there are at once.
        calls: How many each makes.
    """
    name = f"{count} conversation{'s'[: count > 1]}"
    if calls != CALLS:
        name += f" of {calls} calls"
    binding()  # What its first one does is done.
    with ThreadPoolExecutor(count) as threads:

        def all_of_them(opened: Open) -> Callable[[], None]:
            def run() -> None:
                done = [
                    threads.submit(converse, opened, n, calls) for n in range(count)
                ]
                for each in done:
                    each.result()

            return run

        def fresh() -> Sandbox:
            return Sandbox(timeout_s=_TIMEOUT_S)

        def resident() -> Sandbox:
            return Sandbox(mode="resident", timeout_s=_TIMEOUT_S)

        def theirs() -> AbstractContextManager[Any]:
            return binding(timeout_s=_TIMEOUT_S)

        yield Workload(
            name=name,
            about=f"{count} threads, each of which opens a sandbox, makes {calls} calls"
            " that print and share a file, and closes it, against the same with"
            " sandboxes of the binding at its default.",
            contestants=[
                Contestant("binding", all_of_them(theirs)),
                Contestant("fresh", all_of_them(fresh)),
                Contestant("resident", all_of_them(resident)),
            ],
            figures=[
                _rate("fresh", name, *((1.0, 1.05) if count == ASKED else NOTHING)),
                _rate("resident", name, *((1.5, 2.0) if count == ASKED else NOTHING)),
            ],
            rounds=max(1, min(12, 3 * ASKED // count)) if count <= ASKED else 1,
            warm_up=int(count <= ASKED),
        )


def _rate(ours: str, name: str, bar: float | None, goal: float | None) -> Figure:
    def ratio(r: Round) -> float:
        return r["binding"].wall_s / r[ours].wall_s

    return Figure(
        f"{name}, calls per second: `{ours}` / the binding, cold",
        ratio,
        bar=bar,
        goal=goal,
        at_least=True,
    )
