"""What every sandbox holds, in every mode, as tests to inherit.

class TestMine(SandboxContract):
options = {"timeout_s": 20}
"""

from __future__ import annotations

from .contract import Contract, Make
from .contract_calls import CallContract
from .contract_ending import EndingContract
from .contract_place import PlaceContract
from .contract_view import (
    CLEAR_PARENT_DEATH,
    HIDERS,
    NAMED,
    box_processes,
    kern_processes,
    named_processes,
    processes_with,
)
from .contract_walls import WallsContract

__all__ = [
    "CLEAR_PARENT_DEATH",
    "HIDERS",
    "NAMED",
    "Contract",
    "Make",
    "SandboxContract",
    "box_processes",
    "kern_processes",
    "named_processes",
    "processes_with",
]


class SandboxContract(CallContract, EndingContract, PlaceContract, WallsContract):
    """The promises of `Sandbox`; a subclass sets `options` and changes no clause."""
