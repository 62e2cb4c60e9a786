"""Configures the C library's memory allocation."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

HEAPS_MAX: Final = 2
_M_ARENA_MAX: Final = -8
"""Constant of glibc's malloc.h."""


def limit_arenas() -> None:
    """Makes all threads use two heaps, before any is started; does nothing with another C library.

    glibc gives each thread its own heap, and each stays as large as its maximum. Any thread may render a publication: with
    100,000 series that would be about 8 MB for each of them.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, HEAPS_MAX)
