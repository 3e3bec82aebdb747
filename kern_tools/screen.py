"""What the commands show: tables and progress on a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TextIO

from rich import box
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

_UNLIMITED_COLUMNS = 10_000

Tell = Callable[[str], None]


def show_table(
    columns: Iterable[str],
    rows: Iterable[tuple[tuple[str, ...], str | None]],
) -> None:
    """Print a table to stdout: drawn on a terminal, else bare, one line a row.

    Args:
        columns: The headings.
        rows: The cells of a row, and its style (`red`) or None.
    """
    screen = Console(highlight=False)
    drawn = screen.is_terminal
    table = Table(
        *columns, box=box.SIMPLE_HEAD if drawn else None, pad_edge=False, padding=(0, 1)
    )
    for cells, style in rows:
        table.add_row(*map(Text, cells), style=style)
    if drawn:
        screen.print(table)
        return
    screen.width = _UNLIMITED_COLUMNS
    with screen.capture() as captured:
        screen.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())


def is_terminal() -> bool:
    """Tell whether stdout is drawn on, rather than piped or kept."""
    return Console().is_terminal


def show_heading(text: str) -> None:
    """Print a line that stands out on a terminal."""
    Console(highlight=False).print(Text(text, style="bold"), soft_wrap=True)


def print_json(value: object) -> None:
    """Print JSON in ASCII alone: no text in it can steer the terminal."""
    print(json.dumps(value, indent=2))


@contextmanager
def progress(stream: TextIO | None = None) -> Generator[Tell]:
    """Show on stderr what is going on, for as long as it lasts.

    On a terminal it is one line with the time taken, gone in the end; elsewhere each
    message is a line. Where nothing is told, nothing is shown.

    Args:
        stream: Where to, in place of what `sys.stderr` is by then.
    """
    screen = Console(stderr=True, file=stream, highlight=False)
    if not screen.is_terminal:
        yield lambda line: print(line, file=stream or sys.stderr, flush=True)
        return
    display = Progress(
        SpinnerColumn(table_column=Column(no_wrap=True)),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        # Of the three only the words give way on a narrow terminal.
        TextColumn("{task.description}", markup=False, table_column=Column()),
        console=screen,
        transient=True,
    )

    def tell(line: str) -> None:
        for task in display.task_ids:
            display.remove_task(task)
        display.add_task(line, total=None)
        display.start()

    try:
        yield tell
    finally:
        display.stop()
