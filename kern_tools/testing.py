"""Contracts to inherit: a subclass says what is tested, the clauses are ours.

    class TestMyAdapter(AdapterContract):
        @pytest.fixture
        def adapter(self, sandbox: Sandbox) -> Adapter:
            return MyCaller(my_tools(sandbox))

A clause that a subclass overrides is refused when the class is made. The clauses run
without a test of one's own too: `kern-tools conformance --adapter my_module:my_caller`,
where `my_caller(sandbox)` returns the `Adapter`.
"""

from __future__ import annotations

from .contract import Contract
from .contract_adapter import (
    ADAPTER_CASES,
    Adapter,
    AdapterCase,
    AdapterContract,
    Outcome,
    core_reply,
    steady,
)
from .contract_backend import Backend, BackendContract
from .contract_calls import CallContract
from .contract_ending import EndingContract
from .contract_limits import LimitsContract
from .contract_place import PlaceContract
from .contract_walls import WallsContract
from .sandbox_contract import SandboxContract

__all__ = [
    "ADAPTER_CASES",
    "Adapter",
    "AdapterCase",
    "AdapterContract",
    "Backend",
    "BackendContract",
    "CallContract",
    "Contract",
    "EndingContract",
    "LimitsContract",
    "Outcome",
    "PlaceContract",
    "SandboxContract",
    "WallsContract",
    "core_reply",
    "steady",
]
