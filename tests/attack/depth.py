"""How many examples a property is shown on.

`make test` takes few, the same ones each time; with `HYPOTHESIS_PROFILE=verify` in the
environment each property has ten thousand new ones (`make verify-attack`).
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_FEW = settings(max_examples=40, derandomize=True, database=None, deadline=None)
_MANY = settings(
    max_examples=10_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
IS_WHOLE = os.environ.get("HYPOTHESIS_PROFILE") == "verify"
in_depth = _MANY if IS_WHOLE else _FEW
"""The decorator for properties."""
