"""Renders label values, numbers and label sets, which are the same in both formats."""

from __future__ import annotations

import math

Labels = tuple[tuple[str, str], ...]
"""Names and values."""


def escape(value: str) -> str:
    """Escapes backslash, double quote and line feed of a label value."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """The shortest text that parses to exactly this number."""
    if isinstance(value, int):  # a bool is one, too
        return repr(int(value))
    if math.isfinite(value):
        return repr(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"


def labels_text(labels: Labels) -> str:
    """`{topic="orders",partition="0"}`; empty without labels."""
    return "{" + ",".join(f'{name}="{escape(value)}"' for name, value in labels) + "}" if labels else ""
