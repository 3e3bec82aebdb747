"""`kern-tools conformance`: what is promised, tried out on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import flags
from .config import SandboxConfig
from .conformance_record import MODES
from .conformance_table import show_conformance
from .extras import missing
from .faults import HostError
from .host import HostReport, host_report
from .image import ensure_image
from .opening import opened
from .running import UNUSABLE
from .screen import print_json, progress

if TYPE_CHECKING:
    from .conformance_record import Conformance

_INTERRUPTED = 130
_DOES_NOT_HOLD = 1


def conformance(
    mode: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[fresh|resident|kernel]",
            help="Only this mode; may be repeated.",
        ),
    ] = None,
    adapter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only this adapter, as 'langchain'; for one of your own"
            " 'module:function', which takes a Sandbox and returns a"
            " kern_tools.testing.Adapter; 'none' is the sandbox alone. May be"
            " repeated.",
        ),
    ] = None,
    expression: Annotated[
        str,
        typer.Option(
            "-k",
            metavar="EXPRESSION",
            help="Only clauses with such names, as 'timeout and not kernel'.",
        ),
    ] = "",
    quick: Annotated[
        bool,
        typer.Option("--quick", help="One case of each clause, in about a minute."),
    ] = False,
    as_json: flags.AsJson = False,
) -> None:
    """Try out on this machine what is promised, in every mode and adapter.

    Each clause runs in real boxes. What this host cannot show is said with the reason;
    adapters whose framework is not installed are named. The whole takes minutes.
    """
    modes = [flags.choice("--mode", name, MODES) for name in mode or ()]
    adapters = adapter or []
    if any(":" in name for name in adapters):
        sys.path.append(str(Path.cwd()))
    try:
        run = _run(modes, adapters, expression, quick=quick)
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(UNUSABLE) from None
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    if as_json:
        print_json({**run.to_dict(), "host": _report().to_dict()})
    else:
        show_conformance(run)
    if run.interrupted:
        raise typer.Exit(_INTERRUPTED)
    raise typer.Exit(0 if run.ok else _DOES_NOT_HOLD)


def _run(
    modes: list[str], adapters: list[str], expression: str, *, quick: bool
) -> Conformance:
    try:
        from .conformance import run_contracts
    except ImportError as error:
        missing("testing", error, user="kern-tools conformance")
    with opened(SandboxConfig(), warm=False):
        _check_host()
    # A descriptor of its own: pytest captures what goes to stderr meanwhile.
    with os.fdopen(os.dup(2), "w") as stream, progress(stream) as tell:
        return run_contracts(
            modes=modes,
            adapters=adapters,
            expression=expression,
            quick=quick,
            tell=tell,
        )


def _report() -> HostReport:
    return host_report(reference=ensure_image().reference)


def _check_host() -> None:
    report = _report()
    if not report.ok:
        raise HostError(
            f"boxes do not start here: {report.problem}; `kern-tools doctor` says more"
        )
