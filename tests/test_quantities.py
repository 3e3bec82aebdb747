"""Numbers as a model reads them."""

from __future__ import annotations

import pytest

from kern_tools.quantities import count, seconds, size


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (count(1, "file"), "1 file"),
        (count(0, "file"), "0 files"),
        (count(12_345, "byte"), "12,345 bytes"),
        (count(256, "process", "processes"), "256 processes"),
        (count(0.5, "CPU"), "0.5 CPUs"),
        (size(0), "0 bytes"),
        (size(1), "1 byte"),
        (size(1023), "1,023 bytes"),
        (size(1024), "1 KiB"),
        (size(1536), "1.5 KiB"),
        (size(1 << 20), "1 MiB"),
        (size(5 << 50), "5,120 TiB"),
        (seconds(30), "30 s"),
        (seconds(0.05), "0.05 s"),
        (seconds(86_400.0), "86,400 s"),
    ],
)
def test_a_number_is_read_with_its_unit(given: str, shown: str) -> None:
    """Thousands are set apart, nothing is given that is only zeros."""
    assert given == shown
