"""The official Python binding of kern, as a baseline: same kern, same image."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

import kern_sandbox  # pyright: ignore[reportMissingTypeStubs]

from kern_tools.image import ensure_image


def binding(**options: Any) -> kern_sandbox.Sandbox:
    """Make one of the binding's sandboxes, on the image that ours use by default.

    Args:
        **options: The binding's own; what is not given is at its default.

    Returns:
        A sandbox, not yet open.
    """
    return kern_sandbox.Sandbox(image=_compiled(), **options)


@contextmanager
def binding_kernel() -> Generator[kern_sandbox.Kernel]:
    """Open a kernel of the binding.

    The binding leaves its pipes to the garbage collector, which warns; they are closed
    here.
    """
    with binding() as sandbox:
        with sandbox.kernel() as kernel:
            yield kernel
        process: Any = vars(kernel)["_proc"]
        process.stdout.close()
        process.stderr.close()


@cache
def _compiled() -> str:
    """Have the binding compile the image's library, which it does once, behind calls.

    Its first sandbox of an image starts that in the background; it is no part of a
    call, and takes a processor for seconds.
    """
    reference = ensure_image().reference
    with kern_sandbox.Sandbox(image=reference):
        for thread in threading.enumerate():
            if thread.name == "kern-pyc-build":
                thread.join()
    return reference
