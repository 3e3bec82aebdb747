"""How fast a sandbox lets go: of a call that is cancelled, and of itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from kern_tools import Sandbox

from .harness import Clock, Contestant, Figure, Sample, Workload
from .usage import children

_NAME = f"ktb-{os.getpid()}"
_CODE = f"""\
open('/proc/self/comm', 'w').write({_NAME!r})
import time
print('running', flush=True)
time.sleep(60)
"""


def running() -> list[str]:
    """List the processes of the call on the host, but for those that have ended."""
    found: list[str] = []
    for stat in Path("/proc").glob("[1-9]*/stat"):
        with suppress(OSError):  # It was reaped meanwhile.
            head, _, rest = stat.read_text("utf-8").rpartition(")")
            if head.endswith(f"({_NAME}") and rest.split()[0] not in "ZX":
                found.append(stat.parent.name)
    return found


async def cancelled(sandbox: Sandbox) -> Sample:
    """Cancel a call whose code runs, and time its end."""
    loop, begun = asyncio.get_running_loop(), asyncio.Event()

    def on_stdout(text: str) -> None:
        loop.call_soon_threadsafe(begun.set)

    call = asyncio.create_task(sandbox.arun_code(_CODE, on_stdout=on_stdout))
    await asyncio.wait_for(begun.wait(), 60)
    assert len(running()) == 1
    clock = Clock()
    call.cancel()
    await asyncio.wait([call])
    sample = clock.sample()
    assert running() == []
    assert call.cancelled()
    return sample


@contextmanager
def cancel() -> Generator[Workload]:
    """Time how long a cancelled call is still there."""
    with Sandbox() as sandbox, asyncio.Runner() as runner:
        assert sandbox.wait_ready(60)
        yield Workload(
            name="cancel",
            about="`task.cancel()` of an `arun_code` whose code runs, to its"
            " CancelledError, when no process of the call is left.",
            contestants=[Contestant("ours", lambda: runner.run(cancelled(sandbox)))],
            figures=[
                Figure(
                    "cancel to gone",
                    lambda r: r["ours"].wall_s * 1000,
                    bar=25,
                    unit="ms",
                    held_at="p99",
                )
            ],
            rounds=60,
        )


def closed() -> Sample:
    """Open a sandbox, have its box wait, and time the close."""
    others = children()
    sandbox = Sandbox().open()
    root = sandbox.workspace.root
    assert sandbox.wait_ready(60)
    assert children() == others + 1
    clock = Clock()
    sandbox.close()
    sample = clock.sample()
    assert children() == others
    assert not root.exists()
    return sample


@contextmanager
def close() -> Generator[Workload]:
    """Time the end of a sandbox that has a box ready."""
    yield Workload(
        name="close",
        about="`Sandbox.close()` while a warm box waits, to its return, when box and"
        " workspace are gone.",
        contestants=[Contestant("ours", closed)],
        figures=[
            Figure(
                "close, with a warm box",
                lambda r: r["ours"].wall_s * 1000,
                bar=100,
                unit="ms",
            )
        ],
        rounds=30,
    )
