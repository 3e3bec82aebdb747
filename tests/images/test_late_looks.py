"""Boxes without our driver, whose begin and end the engine sees at once, or not."""

from __future__ import annotations

import select
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from kern_tools import Sandbox
from kern_tools.binary import run_kern
from kern_tools.box import Box
from kern_tools.engine import engine

from .layers import busybox_layer
from .registry import Registry


@contextmanager
def engine_that_looks_late() -> Generator[None]:
    """Have the engine look at the next box that starts only once its kern has ended."""
    known, looked = set(engine().children), threading.Event()

    def look() -> None:
        pidfds = [
            box._kern.pidfd  # pyright: ignore[reportPrivateUsage]
            for box in engine().children - known
            if isinstance(box, Box)
        ]
        if not pidfds:
            engine().post(look)
            return
        end = select.poll()
        end.register(pidfds[0], select.POLLIN)
        end.poll()
        looked.set()

    engine().post(look)
    yield
    looked.wait()


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 125", 125)])
def test_what_ran_before_anyone_looked_has_run(
    busybox: str, command: str, code: int
) -> None:
    """Its own exit code is given, and no fault."""
    with Sandbox(image=busybox) as sandbox, ThreadPoolExecutor(1) as pool:
        with engine_that_looks_late():
            call = pool.submit(sandbox.run, ["sh", "-c", f"echo on; {command}"])
        result = call.result()
    assert (result.fault, result.exit_code, result.stdout) == (None, code, "on\n")


def test_what_is_missing_is_told_apart_from_what_ran(busybox: str) -> None:
    """Also where kern's whole story is there at the first look."""
    with Sandbox(image=busybox) as sandbox, ThreadPoolExecutor(1) as pool:
        with engine_that_looks_late():
            call = pool.submit(sandbox.run, ["nosuch"])
        assert call.result().fault_type == "exec_failed"


def test_an_image_that_vanished_is_no_exit_of_the_code(registry: Registry) -> None:
    """Someone removed it after the sandbox opened: nothing ran, and that is said."""
    registry.push("vanishing", busybox_layer(["sh"]))
    image = f"{registry.host}/vanishing:1"
    with Sandbox(image=image) as sandbox:
        assert sandbox.run(["sh", "-c", "exit 3"]).exit_code == 3
        run_kern(["rmi", image], timeout_s=60)
        result = sandbox.run(["sh", "-c", "exit 3"])
    assert result.fault_type == "startup_failed"


def test_a_command_that_ends_kern_has_run(busybox: str) -> None:
    """It can signal the group that both are in, and kern then tells nothing of it."""
    command = "echo on; while :; do kill -TERM 0; done"
    with Sandbox(image=busybox) as sandbox:
        result = sandbox.run(["sh", "-c", f"trap '' TERM; {command}"])
    assert result.fault_type != "startup_failed"
    assert result.stdout == "on\n"
