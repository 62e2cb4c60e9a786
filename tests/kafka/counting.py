"""Counts calls and objects: a bound that needs no clock."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

CALLS_MAX = 2_000
"""Of functions, however many partitions there are: far below one for each."""


def calls(do: Callable[[], object]) -> int:
    """How many functions `do` calls, Python's own included."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(None)
    return count


EVERY = 1000
OBJECTS_MAX = 500
"""Far below one for a partition."""


def objects(do: Callable[[], Any]) -> int:
    """How many blocks of memory lived at once while `do` ran, beyond those before it. An array's content is not one."""
    do()  # caches, interned strings
    gc.collect()
    before, most, calls = sys.getallocatedblocks(), 0, 0

    def look(*_: object) -> None:
        nonlocal most, calls
        calls += 1
        if calls % EVERY == 0:  # counting takes a while
            most = max(most, sys.getallocatedblocks() - before)

    sys.setprofile(look)
    try:
        do()
    finally:
        sys.setprofile(None)
    return max(most, sys.getallocatedblocks() - before)
