"""Waits for a state that another thread, program or broker brings about, for a bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(
    read: Callable[[], T],
    holds: Callable[[T], object] = bool,
    *,
    patience_s: float = 60,
    pause_s: float = 0.02,
    status: Callable[[], object] | None = None,
) -> T:
    """The first result of `read` for which `holds`. Fails after `patience_s` with `status()`, or the last result."""
    deadline = time.monotonic() + patience_s
    while not holds(found := read()):
        assert time.monotonic() < deadline, f"not within {patience_s:g} s: {status() if status else found}"
        time.sleep(pause_s)
    return found
