"""A kern that refuses boxes, as it does where it cannot filter their network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kern_tools.binary import find_kern

FILTERED: dict[str, Any] = {"egress_allow": ["allowed.example"]}
"""Options with which kern filters the network; RFC 2606 reserves the domain."""
PROGRAM = """\
#!/bin/sh
if [ "$1" = box ]; then
    echo >> {folder}/starts
    if rm {folder}/refusal-1 2> /dev/null || rm {folder}/refusal-2 2> /dev/null; then
        echo 'error: sandbox: --egress-allow: the port never came up' >&2
        exit 1
    fi
fi
exec {kern} "$@"
"""


class Refusals:
    """A kern that refuses its next boxes, as often as it is told to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.program = folder / "kern"
        self.program.write_text(PROGRAM.format(folder=folder, kern=find_kern()))
        self.program.chmod(0o755)

    def plan(self, number: int) -> None:
        """Refuse so many of the next boxes; starts are counted from here."""
        (self._folder / "starts").unlink(missing_ok=True)
        for each in range(1, number + 1):
            (self._folder / f"refusal-{each}").touch()

    @property
    def starts(self) -> int:
        """How many boxes were to be started since then."""
        return len((self._folder / "starts").read_bytes())
