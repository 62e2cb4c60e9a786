"""Whether a file is still the one that was read, without reading it."""

from __future__ import annotations

from pathlib import Path

Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp | None:
    """Changes with every way of replacing a file; None when it is not there."""
    try:
        it = path.stat()
    except OSError:
        return None
    return it.st_mtime_ns, it.st_ino, it.st_size
