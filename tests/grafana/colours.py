"""Decides which colours are green: those with such a name, and those with such a hue."""

from __future__ import annotations

import colorsys
import re
from typing import Final

GREEN_HUES: Final = (75, 175)
"""In degrees, from yellow green to turquoise."""
LEAST_SATURATION: Final = 0.15
"""A colour with less is a grey."""


def is_green(colour: str) -> bool:
    """Whether a reader calls this colour green: a name of Grafana's palette, or #RRGGBB with any further digits."""
    if not re.match("#[0-9A-Fa-f]{6}", colour):
        return "green" in colour
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    hue, saturation, _ = colorsys.rgb_to_hsv(red, green, blue)
    return saturation > LEAST_SATURATION and GREEN_HUES[0] <= 360 * hue <= GREEN_HUES[1]
