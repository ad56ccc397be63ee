"""Numbers as people read them."""

import math
from typing import Any

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def number(value: float | None, digits: int = 3, missing: str = "undefined") -> str:
    """Significant digits, powers of ten where many zeros would stand."""
    if value is None or not math.isfinite(value):
        return missing
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 10 ** max(digits, 6):
        decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
        return f"{value:,.{decimals}f}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def percent(value: float | None, digits: int = 3) -> str:
    """A share or relative error in percent; what is not finite is a blow-up."""
    if value is None or not math.isfinite(value):
        return "not finite"
    return f"{number(100 * value, digits)}%"


def rate(value: float | None) -> str:
    """A share in percent with one decimal, for coverages."""
    return "unknown" if value is None else f"{100 * value:.1f}%"


def seconds(value: float | None) -> str:
    """A duration with a fitting unit."""
    if value is None or not math.isfinite(value):
        return "not timed"
    scale, unit = next(((s, u) for s, u in UNITS if value >= s), UNITS[-1])
    return f"{number(value / scale)}\N{NO-BREAK SPACE}{unit}"


def plain_number(value: float) -> str:
    """A number as it was given, without trailing zeros or separators: a year, a tolerance."""
    return f"{value:.10g}"


def factor(ratio: float) -> str:
    """How many times: `2.4 times`, `31 times`."""
    return f"{number(ratio, 2)} times"


def count(value: int, noun: str) -> str:
    """`1 member`, `1,024 members`."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def listed(items: list[Any], most: int = 8) -> str:
    """Some items, and how many more there are."""
    shown = ", ".join(map(str, items[:most]))
    return shown + (f" and {len(items) - most} more" if len(items) > most else "")


def with_unit(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name
