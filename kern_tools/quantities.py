"""Numbers with their units, as a model reads them."""

from __future__ import annotations

_UNITS = ("KiB", "MiB", "GiB", "TiB")


def count(number: float, noun: str, plural: str | None = None) -> str:
    """Give `1 file`, `12,345 files` or `0.5 CPUs`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def size(number_of_bytes: int) -> str:
    """Give `512 bytes`, `1 MiB` or `1.5 GiB`: the largest unit not above the size."""
    power = min((number_of_bytes.bit_length() - 1) // 10, len(_UNITS))
    if power < 1:
        return count(number_of_bytes, "byte")
    return f"{_short(number_of_bytes / 1024**power)} {_UNITS[power - 1]}"


def seconds(duration_s: float) -> str:
    """Give `30 s` or `0.5 s`, exact to the millisecond."""
    return f"{_short(duration_s, 3)} s"


def line_span(first: int, last: int) -> str:
    """Give `line 3` or `lines 3-1,200`."""
    return f"line {first:,}" if first == last else f"lines {first:,}-{last:,}"


def _short(amount: float, digits: int = 1) -> str:
    return f"{amount:,.{digits}f}".rstrip("0").rstrip(".")
