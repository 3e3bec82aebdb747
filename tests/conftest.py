"""What all tests share."""

from __future__ import annotations

import pytest

# The contracts ship in the package; without this their asserts would show no values.
pytest.register_assert_rewrite("kern_tools.testing", "kern_tools.sandbox_contract")
