"""What the C library is told about memory."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

HEAPS_MAX: Final = 2
_M_ARENA_MAX: Final = -8
"""malloc.h of glibc."""


def limit_arenas() -> None:
    """Have all threads use two heaps, before any is started; nothing happens where the C library is another.

    glibc gives each thread one of its own, and each stays as large as it was at its fullest. A publication is made by
    whichever thread has one to make: with 100,000 series that would be some 8 MB for each of them.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, HEAPS_MAX)
